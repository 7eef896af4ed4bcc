"""The report has every table and figure as a file, judges the claims that were asked for, and names the control."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from studies.grids.report import write_report

from tests.support.result_rows import ablation, beyond, frontier
from veilgraph.experiments.results import Row


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = {"beyond": of_two_graphs(beyond(lpgnn=0.9)), "frontier": of_two_graphs(frontier())}
    return write_report(results, {"beyond": "B", "frontier": "F"}, tmp_path_factory.mktemp("report")).parent


def test_tables_and_figures_are_files(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {"report.md", "tables", "figures"}
    names = ("beyond", "beyond-tallies", "beyond-veil", "frontier", "frontier-epsilon", "frontier-splits")
    assert {path.name for path in (folder / "tables").iterdir()} == {
        f"{name}.{kind}" for name in names for kind in ("csv", "md", "tex")
    }
    figures = {path.name for path in (folder / "figures").iterdir()}
    assert {"frontier.svg", "frontier-cora.svg", "beyond-structure_only.svg", "beyond-rgnn-published.svg"} <= figures
    for path in (folder / "figures").glob("*.svg"):
        ElementTree.fromstring(path.read_text(encoding="utf-8"))  # noqa: S314  our own text
    assert not set("ε±−–≤") & set((folder / "tables" / "frontier-epsilon.tex").read_text(encoding="utf-8"))


def test_the_page_has_the_tables_and_shows_the_figures(folder: Path) -> None:
    text = (folder / "report.md").read_text(encoding="utf-8")
    for words in ("## B", "Gain from features", "Wins and losses of Veil", "## F", "Regret of the label alone"):
        assert words in text
    assert "![Cora](figures/frontier-cora.svg)" in text
    assert "| Control |" in text
    assert "The paper's claims" not in text, "no experiment of the paper was asked for"


def of_two_graphs(rows: list[Row]) -> list[Row]:
    return [each for each in rows if each.dataset in ("citeseer", "cora")]


def test_claims_about_the_experiments_that_were_asked_for_are_judged(tmp_path: Path) -> None:
    asked = {"ablation": "A", "table2": "T"}
    text = write_report({"ablation": ablation()}, asked, tmp_path).read_text(encoding="utf-8")
    assert (tmp_path / "tables" / "claims.md").read_text(encoding="utf-8") in text
    assert ("| confirmed |" in text, "| not run yet |" in text) == (True, True)
    assert "K\\_x = 0 to 2" not in text
