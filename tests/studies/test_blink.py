"""The study beside Blink: a cell, and a table that says where no list was tried."""

from __future__ import annotations

import math
from pathlib import Path

from studies.blink import METHODS, compare, summary, table

from tests.studies.test_public_attributes import PEOPLE


def test_a_cell_scores_every_answer(tmp_path: Path) -> None:
    (tmp_path / "people").mkdir()
    (tmp_path / "people" / "kfamily_people.csv").write_text(PEOPLE.replace("asked_before", "cfp"))
    edges = "".join(f"u{i},u{(i + 1) % 120}\n" for i in range(120))
    (tmp_path / "people" / "kfamily_edges.csv").write_text("from,to\n" + edges)
    cell = compare((tmp_path, "kfamily-adopted", 8.0, 0))
    # ages are clean and split the classes; half of the 120 are predicted
    assert min(cell[answer] for answer in ("histogram", "list", "alone")) > cell["largest"]


def test_a_list_that_was_not_tried_has_an_empty_cell() -> None:
    cell = dict.fromkeys(METHODS, 0.5) | {"dataset": "facebook", "epsilon_user_level": 1.0, "list": math.nan}
    row = summary([cell, cell])
    assert row["blink"] == "76.4"
    assert "| facebook | 1 | 2 | 50.0 ± 0.0 |  | 50.0 ± 0.0 | 50.0 ± 0.0 | 76.4 |" in table([row])
