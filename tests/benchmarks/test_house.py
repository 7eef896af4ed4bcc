"""Measures of the source count what they say, and the table has a row for each."""

from __future__ import annotations

from pathlib import Path

from benchmarks.house import code_lines, measures

ONE = '''"""A module."""

SIZE = 1
"""An attribute."""


def one() -> int:
    """Return one."""
    # why
    return (
        1
    )
'''
MECHANISM = """
class GRR:
    pass


def own(mechanism):
    return isinstance(mechanism, GRR)
"""
ASKING = """
from veilgraph.privacy.mechanisms import GRR


def words(campaign, mechanism, document, people):
    if campaign.waves is not None and not campaign.turns:  # one test, one place
        return "waves"
    if isinstance(mechanism, GRR):
        return "grr"
    kinds = [each for each in people if each.private_neighbours]
    return document["neighbours"] == kinds, campaign.waves, isinstance(people, list)
"""


def write_tree(folder: Path) -> Path:
    files = {
        "src/veilgraph/privacy/mechanisms/grr.py": MECHANISM,
        "src/veilgraph/campaign/document.py": ASKING,
        "src/veilgraph/collector/store.py": ASKING,
        "src/veilgraph/client/page.js": "const a = 1;\n" + "x" * 111 + "\n",
        "CHANGELOG.md": "é" * 600,
        "docs/index.md": "a" * 1000,
    }
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return folder


def test_docstrings_comments_and_blank_lines_are_not_code() -> None:
    assert code_lines(ONE) == len(["SIZE = 1", "def", "return (", "1", ")"])


def test_a_place_is_counted_once_and_not_in_its_home(tmp_path: Path) -> None:
    # In the store: the first test, the isinstance, the comprehension and the comparison.
    (places,) = [measure.values for measure in measures(write_tree(tmp_path)) if measure.name.startswith("places")]
    assert places == (4,)


def test_sizes_are_those_of_the_files(tmp_path: Path) -> None:
    found = {measure.name.split(";")[0]: measure for measure in measures(write_tree(tmp_path))}
    assert found["changelog"].values == (2, 1)  # 1200 bytes and 1000
    assert found["lines of the longest Python file"].values == (len(ASKING.splitlines()), 111)
    assert not found["lines of the longest Python file"].reached


def test_each_measure_is_a_row_of_the_table(tmp_path: Path) -> None:
    rows = list(map(str, measures(write_tree(tmp_path))))
    assert len(rows) == 6
    assert all(row.count("|") == 5 for row in rows)
