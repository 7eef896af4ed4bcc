"""The report of the grids: tables and figures as files, and a Markdown page that puts them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from studies.grids.claims import claims_table, judge_claims, tally_sheet
from studies.grids.frontier import (
    ceiling_in_words,
    frontier_overview,
    frontier_panels,
    price_sheet,
    published_accuracies,
    split_sheet,
)
from studies.grids.private_edges import private_edges_panels, private_edges_sheet
from studies.grids.rivals import rivals_sheet
from studies.grids.sheets import Sheet
from studies.grids.veil_comparison import features_in_words, veil_panels, veil_sheet, veil_tally_sheet
from veilgraph.experiments.grid import experiment_names
from veilgraph.experiments.results import Row
from veilgraph.pages.paired_differences import ResultsByExperiment
from veilgraph.pages.paper_figures import paper_figures
from veilgraph.pages.paper_page import figure_files, table_files, write_files
from veilgraph.pages.rendering import Panel
from veilgraph.pages.result_tables import records_csv, result_table, rows_csv, to_markdown

Rows = Sequence[Row]


@dataclass(frozen=True, kw_only=True)
class _Shown:
    """What is shown of a grid beside the table of all its rows.

    Attributes:
        panels: draws its figures.
        overview: draws all of them in one figure, or returns None.
        sheets: returns its further tables; None where one has no rows.
        remark: returns sentences about the results, or "".
        note: explanation of the figures.
    """

    panels: Callable[[Rows], Sequence[Panel]] = lambda rows: ()
    overview: Callable[[Rows], Panel | None] = lambda rows: None
    sheets: Callable[[Rows], Sequence[Sheet | None]] = lambda rows: ()
    remark: Callable[[Rows], str] = lambda rows: ""
    note: str = ""


_SHOWN = {
    "table2": _Shown(sheets=lambda rows: [tally_sheet(rows)]),
    "beyond": _Shown(
        panels=veil_panels,
        sheets=lambda rows: [veil_tally_sheet(rows), veil_sheet(rows)],
        remark=features_in_words,
        note="Right of zero: Veil is above. Circle: ε_x = 1, square: 0.1. In each band, ε_y falls from 3 at the top to "
        "0.5. Filled: beyond noise; hollow: within noise. Veil reads the same reports as RGNN, at the same ε. The "
        "control and Veil with the label alone collect no features and spend ε_y only.",
    ),
    "frontier": _Shown(
        panels=lambda rows: frontier_panels(rows, published_accuracies()),
        overview=lambda rows: frontier_overview(rows, published_accuracies()),
        sheets=lambda rows: [price_sheet(rows, published_accuracies()), split_sheet(rows)],
        remark=ceiling_in_words,
        note="Lines: means over seeds; bands: one standard deviation to each side. Veil, label alone: the whole total "
        "is spent on the label, and no features are collected. Best split: the highest mean of five shares of the "
        "label, chosen by its accuracy on these very seeds. RGNN, paper's split: ten parts for features, one for the "
        "label, as at ε_x = ε_y. Diamonds: RGNN as published, at its exact user-level ε, m ε_x + ε_y.",
    ),
    "rivals": _Shown(sheets=lambda rows: [rivals_sheet(rows)]),
    "private_edges": _Shown(
        panels=private_edges_panels,
        sheets=lambda rows: [private_edges_sheet(rows)],
        note="Lines: means over seeds; bands: one standard deviation to each side. The same ε protects any two lists "
        "with the class, and one entry of a list with the histogram and with the randomized list. Labels alone, the "
        "control and Veil on the public graph do not depend on it: the last two know every edge.",
    ),
}


def write_report(results: ResultsByExperiment, titles: Mapping[str, str], folder: Path) -> Path:
    """Write report.md, tables/ and figures/ below a folder, and return the path of the page.

    Args:
        results: rows of each grid, and of experiments of the paper, whose claims are judged.
        titles: titles by name.
        folder: folder to write to.
    """
    files: dict[Path, str | bytes] = {}
    parts = ["# Results of the grids\n"]
    if not results.keys().isdisjoint(experiment_names()):
        # Claims about an experiment that nobody asked for are left out.
        claims = [each for each in judge_claims(results) if {*each.experiments} <= titles.keys()]
        files[folder / "tables" / "claims.md"] = table = to_markdown(claims_table(claims))
        parts += ["## The paper's claims\n", table]
    controls = [row for rows in results.values() for row in rows]
    for name, rows in results.items():
        shown = _SHOWN.get(name, _Shown())
        panels, overview = [*paper_figures(name, rows), *shown.panels(rows)], shown.overview(rows)
        sheets = [sheet for sheet in shown.sheets(rows) if sheet is not None]
        whole = result_table(name, titles[name], rows, controls)
        files |= figure_files(folder, [*panels, *([overview] if overview else [])])
        files |= table_files(folder, name, whole, rows_csv(rows, controls))
        for sheet in sheets:
            files |= table_files(folder, sheet.name, sheet.table, records_csv(sheet.records))
        parts += [f"## {titles[name]}\n", *(f"{text}\n" for text in (shown.note, shown.remark(rows)) if text)]
        parts += [f"![{panel.title}](figures/{panel.name}.svg)\n" for panel in panels]
        parts += [to_markdown(table) for table in (*(sheet.table for sheet in sheets), whole)]
    page = folder / "report.md"
    write_files(files | {page: "\n".join(parts)})
    return page
