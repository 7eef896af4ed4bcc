"""The paper's page: complete, self-contained, safe to open, and the same for the same results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.parsed_page import Page, self_contained
from tests.support.result_rows import TITLES, ablation, ceiling, control, everything, row, table2
from veilgraph.errors import RunError
from veilgraph.pages.paired_differences import ResultsByExperiment
from veilgraph.pages.paper_figures import paper_figures
from veilgraph.pages.paper_page import paper_sections, render_paper_page, write_paper_page
from veilgraph.pages.result_tables import dataset_tables


def rendered(found: ResultsByExperiment, missing: Sequence[str] = ()) -> str:
    return render_paper_page(found, paper_sections(found, TITLES), {name: TITLES[name] for name in missing})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page, tables and figures of all experiments of the paper once for all tests."""
    page = write_paper_page(everything(), TITLES, tmp_path_factory.mktemp("paper"))
    return page.parent


@pytest.fixture(scope="module")
def text(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


def test_page_is_complete_and_every_table_has_the_control_and_user_level_epsilon(text: str) -> None:
    page = self_contained(text)
    assert "default-src 'none'" in text
    assert (
        sum(tag == "svg" for tag, _ in page.tags) == 14
    )  # Table 2: 4, ablation: 2, backbones: 2, bags: 1, hops: 4, own: 1
    assert page.text.index("is clearly above RGNN in 72 of 72 settings") < page.text.index("Against the paper")
    heads = re.findall(r'<table class="(?:figures|settings)">.*?</thead>', text, flags=re.DOTALL)
    assert len(heads) == 6 + 6  # Table 2 by data set, and the other experiments
    assert all("User-level ε" in head and ">Control<" in head for head in heads)
    assert ["Theorem 1" in head for head in heads].count(False) == 1  # an own experiment is not matched with the paper
    assert text.count('<tr class="group">') == 6 * 3
    assert rendered(everything()) == text


def test_gaps_and_what_is_missing_are_said_and_not_drawn() -> None:
    assert "–" in rendered(
        {"table2": [row(0.5, method="lpgnn", epsilon_y=3.0), control(0.6, epsilon_y=2.0), ceiling(0.8)]}
    )
    words = Page(rendered({"ablation": ablation()}, ["table2"])).text
    assert "Title of table2 ( veilgraph lab paper table2 )" in words
    for name in ("fig_hops", "fig_backbones", "fig_alpha_clusters", "ablation", "table2"):
        assert paper_figures(name, [control(0.5)]) == [], name
    assert paper_figures("table1", [ceiling(0.5)]) == []


def test_table_2_has_a_row_for_each_pair_of_budgets() -> None:
    tables = dataset_tables(table2())
    assert [table.name for table in tables] == ["Citeseer", "Cora", "DBLP", "Facebook", "German", "Student"]
    rows = tables[0].rows
    assert [(each.epsilon_x, each.epsilon_y) for each in rows[:5]] == [
        ("1", "3"),
        ("1", "2"),
        ("1", "1"),
        ("1", "0.5"),
        ("0.1", "3"),
    ]
    first = dict(zip(tables[0].methods, rows[0].cells, strict=True))
    assert rows[0].user_level == "13"
    assert first["RGNN"] is not None
    assert first["RGNN"].noise == "within"
    assert first["Control"] is not None
    assert first["Control"].best
    assert first["Control"].epsilon == "3"
    assert first["Non-private"] is not None
    assert not first["Non-private"].best
    assert rows[0].against_control_side == "below"


def test_one_seed_has_no_spread() -> None:
    rows = [row(0.5, seeds=1), control(0.4, seeds=1), row(0.3, seeds=1, variant="without f_X", published_mean=0.4)]
    words = Page(rendered({"ablation": rows})).text
    assert "1 seed" in words
    assert "nan" not in words.lower()


def test_hostile_names_stay_text() -> None:
    hostile = """<script>alert('1')</script>"><b $x$>"""
    rows = [row(0.5, dataset=hostile), row(0.4, dataset=hostile, variant=hostile), row(0.4, method=hostile)]
    found = {"ablation": rows, "table2": rows}
    sections = paper_sections(found, {"ablation": hostile})
    page = Page(render_paper_page(found, sections, {"table1": hostile}))
    assert not {"script", "b"} & {tag for tag, _ in page.tags}
    assert hostile in page.text


def test_files_are_written(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {"report.html", "tables", "figures"}
    names = {path.name for path in (folder / "tables").iterdir()}
    stems = [each for name in everything() for each in (name, f"{name}-pairs") if each != "table1-pairs"]
    assert names == {f"{stem}.{kind}" for stem in stems for kind in ("csv", "md", "tex")} | {
        f"{name}-seeds.csv" for name in everything()
    }
    figures, papers = (sorted((folder / "figures").glob(f"*.{kind}")) for kind in ("svg", "pdf"))
    assert [path.stem for path in figures] == [path.stem for path in papers]
    assert all(path.read_bytes().startswith(b"%PDF") for path in papers)
    assert len(figures) == 14
    for figure in figures:
        root = ElementTree.fromstring(figure.read_text(encoding="utf-8"))  # noqa: S314  our own text
        assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot be written.*another folder"):
        write_paper_page({"ablation": ablation()}, TITLES, tmp_path / "file")
