"""The journeys of the architecture page run no more modules than the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.journeys import BEFORE, journeys, traced

from veilgraph.privacy.mechanisms import GRR

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"


def test_a_module_counts_where_one_of_its_functions_runs() -> None:
    assert "privacy/mechanisms/grr.py" in traced(lambda: GRR(3, 1.0).channel)
    assert traced(lambda: __import__("veilgraph.privacy.mechanisms.grr")) == set()


@pytest.mark.slow
def test_no_journey_runs_more_modules_than_the_page_says(tmp_path: Path) -> None:
    rows = re.findall(r"^\| (.+) \| (\d+) \|$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    stated = {name: int(count) for name, count in rows if name in BEFORE}
    found = journeys(tmp_path)
    assert stated.keys() == found.keys()
    assert {name: len(modules) for name, modules in found.items() if len(modules) > stated[name]} == {}
