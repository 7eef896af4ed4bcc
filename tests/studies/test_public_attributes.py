"""The study of public attributes: a cell, its summary, and what is kept of an interrupted run."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies.cells import finished
from studies.public_attributes import METHODS, compare, people, summary, table

PEOPLE = "id,asked_before,age,adopted\n" + "".join(
    f"u{i},{'' if i % 3 else 'no'},{20 + i % 40},{'yes' if i % 40 > 20 else 'no'}\n" for i in range(120)
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "people").mkdir()
    (tmp_path / "people" / "kfamily_people.csv").write_text(PEOPLE.replace("asked_before", "cfp"))
    edges = "".join(f"u{i},u{(i + 1) % 120}\n" for i in range(120))
    (tmp_path / "people" / "kfamily_edges.csv").write_text("from,to\n" + edges)
    return tmp_path


def test_what_is_asked_and_what_would_answer_it_are_not_public(folder: Path) -> None:
    private = people(folder, "kfamily-adopted")
    assert private.public is not None
    assert private.public.names == ("age",)


def test_a_cell_scores_every_method(folder: Path) -> None:
    cell = compare((folder, "kfamily-adopted", 4.0, 0))
    assert cell["public"] > cell["largest"]
    assert all(0 <= cell[method] <= 1 for method in METHODS)


def test_gains_are_paired(tmp_path: Path) -> None:
    cells = [
        dict.fromkeys(METHODS, share) | {"public": share + 0.1, "dataset": "small", "epsilon_user_level": 1.0}
        for share in (0.3, 0.5)
    ]
    row = summary(cells)
    assert row["gain"] == {"mean": pytest.approx(10), "standard_error": pytest.approx(0, abs=1e-9)}
    assert row["veil"]["standard_error"] == pytest.approx(10)
    assert "| small | 1 | 2 | 40.0 ± 10.0 | 50.0 ± 10.0 | 10.0 ± 0.0 |" in table([row])


def test_a_line_that_was_cut_off_is_computed_again(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    assert finished(path) == {}
    path.write_text('{"dataset": "a", "epsilon_user_level": 1.0, "seed": 3}\n{"dataset": "a", "eps')
    assert list(finished(path)) == [("a", 1.0, 3)]
