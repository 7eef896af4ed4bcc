"""The page of the paper's experiments: a single HTML file, with its tables and figures as files beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import veilgraph
from veilgraph.atomic_files import write_atomically
from veilgraph.errors import RunError
from veilgraph.experiments.grid import experiment_names
from veilgraph.experiments.results import Row
from veilgraph.pages.formatting import method_title, short_title
from veilgraph.pages.frontier import (
    ceiling_in_words,
    frontier_overview,
    price_sheet,
    published_accuracies,
    split_sheet,
)
from veilgraph.pages.paired_differences import CONTROL, ResultsByExperiment, Tally, select
from veilgraph.pages.paper_claims import Claim, Verdict, claims_table, judge_claims, wins_and_losses
from veilgraph.pages.paper_figures import paper_figures
from veilgraph.pages.private_edges import private_edges_in_words, private_edges_sheet
from veilgraph.pages.rendering import Panel, render_template, standalone_svg
from veilgraph.pages.result_tables import (
    TABLE_2_METHODS,
    Sheet,
    Table,
    dataset_tables,
    records_csv,
    result_table,
    rows_csv,
    to_latex,
    to_markdown,
)
from veilgraph.pages.rivals import rivals_in_words, rivals_sheet
from veilgraph.pages.veil_comparison import (
    Aim,
    Outcome,
    aims_table,
    compared_tables,
    features_in_words,
    judge_aims,
    veil_sheet,
    veil_tallies,
)
from veilgraph.privacy.plain_text import counted

_BEYOND = ("beyond", "frontier", "rivals", "private_edges")
"""Experiments about our own aims, not about claims of the paper."""
_ORDER = ("table2", "ablation", "fig_backbones", "fig_alpha_clusters", "fig_hops", "table1", "baselines", *_BEYOND)
_MARKS = {Verdict.CONFIRMED: "✓", Verdict.NOT_CONFIRMED: "~", Verdict.REFUTED: "✗", Verdict.NOT_RUN: "…"}
_AIM_MARKS = {Outcome.MET: "✓", Outcome.MISSED: "✗", Outcome.NOT_RUN: "…"}
_NOTES = {
    "table2": "Left of zero: RGNN is below the control, or a method is below its published accuracy. Circle: ε_x = 1, "
    "square: 0.1, triangle: 0.01. In each band, ε_y falls from 3 at the top to 0.5. Filled: beyond noise; hollow: "
    "within noise.",
    "ablation": "Bar: mean; line: one standard deviation to each side; diamond: published. “Without estimation” is not "
    "in the paper: it propagates the reported shares without undoing the bias of the randomization.",
    "fig_backbones": "Mean and standard deviation over seeds. The control uses the label budget and no features, "
    "so it has no point without privacy.",
    "fig_alpha_clusters": "Mean accuracy in percent; darker is higher, and the frame marks the highest one.",
    "fig_hops": "Mean and standard deviation over seeds. Dashed line, or diamonds at the right in the colour of their "
    "ε_y: the control, which has no hops of this kind.",
    "table1": "The non-private GNN on the original columns: a ceiling, not a private method. The control beside it is "
    "private, at the label budget in brackets.",
    "baselines": "Not in the paper: how much of the difference to RGNN the choice of GNN alone can explain.",
    "beyond": "Right of zero: Veil is above. Circle: ε_x = 1, square: 0.1. In each band, ε_y falls from 3 at the top "
    "to 0.5. Filled: beyond noise; hollow: within noise. Veil reads the same reports as RGNN, at the same ε. The "
    "control and Veil with the label alone collect no features and spend ε_y only.",
    "frontier": "Lines: means over seeds; bands: one standard deviation to each side. Veil, label alone: the whole "
    "total is spent on the label, and no features are collected. Best split: the highest mean of five shares of the "
    "label, chosen by its accuracy on these very seeds. RGNN, paper's split: ten parts for features, one for the "
    "label, as at ε_x = ε_y. Diamonds: RGNN as published, at its exact user-level ε, m ε_x + ε_y.",
    "private_edges": "Lines: means over seeds; bands: one standard deviation to each side. The same ε protects any two "
    "lists with the class, and one entry of a list with the histogram and with the randomized list. Labels alone, the "
    "control and Veil on the public graph do not depend on it: the last two know every edge.",
}


_REMARKS: Mapping[str, Callable[[Sequence[Row]], str]] = {
    "beyond": features_in_words,
    "frontier": ceiling_in_words,
    "rivals": rivals_in_words,
    "private_edges": private_edges_in_words,
}
"""Sentences about the results of an experiment."""

_SHORT_TITLES = {
    "table2": "Table 2",
    "ablation": "Ablation",
    "fig_backbones": "Choice of GNN",
    "fig_alpha_clusters": "Bags",
    "fig_hops": "Hops",
    "table1": "Table 1",
    "baselines": "Other GNNs on reports",
    "beyond": "Veil",
    "frontier": "Frontier",
    "rivals": "Rivals",
    "private_edges": "Private neighbours",
}


@dataclass(frozen=True, kw_only=True)
class Section:
    """One experiment on the page.

    Attributes:
        name: name of the experiment.
        title: heading of the section.
        short: title in the list of sections.
        note: explanation below the figures.
        panels: figures of the experiment.
        table: all rows of the experiment.
        remarks: sentences about the results.
        sheets: further tables with their own files.
        overview: all panels in one figure, which is written to a file and not shown on the page.
    """

    name: str
    title: str
    short: str
    note: str
    panels: Sequence[Panel]
    table: Table
    remarks: Sequence[str] = ()
    sheets: Sequence[Sheet] = ()
    overview: Panel | None = None


def paper_sections(results: ResultsByExperiment, titles: Mapping[str, str]) -> list[Section]:
    """Return a section with figures and a table for each experiment, in the paper's order.

    Args:
        results: rows of each experiment.
        titles: titles of the experiments, by name.
    """
    controls = [row for rows in results.values() for row in rows]
    sections = []
    for name in sorted(results, key=_place):
        rows = results[name]
        remark = _REMARKS[name](rows) if name in _REMARKS else ""
        overview = frontier_overview(rows, published_accuracies()) if name == "frontier" else None
        sections.append(
            Section(
                name=name,
                title=titles.get(name, name),
                short=_SHORT_TITLES.get(name, name),
                note=_NOTES.get(name, ""),
                panels=paper_figures(name, rows),
                table=result_table(name, titles.get(name, name), rows, controls),
                remarks=[remark] if remark else [],
                sheets=_sheets(name, rows),
                overview=overview,
            )
        )
    return sections


def _sheets(name: str, rows: Sequence[Row]) -> list[Sheet]:
    sheets = {
        "beyond": lambda: [veil_sheet(rows)],
        "frontier": lambda: [price_sheet(rows, published_accuracies()), split_sheet(rows)],
        "rivals": lambda: [rivals_sheet(rows)],
        "private_edges": lambda: [private_edges_sheet(rows)],
    }.get(name, list)()
    return [sheet for sheet in sheets if sheet is not None]


def shown_claims(results: ResultsByExperiment, missing: Mapping[str, str]) -> list[Claim]:
    """Return the claims about the requested experiments; none if they are all about our own aims or the reader's."""
    requested = {*results, *missing}
    if requested.isdisjoint({*experiment_names()} - {*_BEYOND}):
        return []
    return [claim for claim in judge_claims(results) if {*claim.experiments} <= requested]


def shown_aims(results: ResultsByExperiment, missing: Mapping[str, str]) -> list[Aim]:
    """Return the aims about the requested experiments."""
    return [aim for aim in judge_aims(results) if aim.experiment in {*results, *missing}]


def render_paper_page(results: ResultsByExperiment, sections: Sequence[Section], missing: Mapping[str, str]) -> str:
    """Render measured beside published results, and whether the paper's claims hold.

    Args:
        results: rows of each experiment.
        sections: sections from `paper_sections`.
        missing: titles of the experiments without a finished fit, by name.
    """
    claims, aims = shown_claims(results, missing), shown_aims(results, missing)
    table2, beyond = results.get("table2", ()), results.get("beyond", ())
    tallies = wins_and_losses(table2)
    return render_template(
        "paper_page.html",
        about_the_paper=bool(claims),
        own_title=_own_title(sections, missing),
        headlines=_headlines(claims, aims),
        control_sentence=_control_sentence(tallies),
        aims=aims,
        aim_marks=_AIM_MARKS,
        veil_tallies=veil_tallies(beyond),
        compared_tables=compared_tables(beyond),
        seeds=_seeds([row for rows in results.values() for row in rows]),
        version=veilgraph.__version__,
        claims=claims,
        marks=_MARKS,
        tallies=tallies,
        against_published=_against_published(table2),
        method_title=method_title,
        dataset_tables=dataset_tables(table2),
        sections=sections,
        missing=missing,
    )


def _own_title(sections: Sequence[Section], missing: Mapping[str, str]) -> str:
    """Return the title of a page about experiments of the reader's own; empty if one of this package is on it."""
    requested = {section.name: section.title for section in sections} | dict(missing)
    return "" if requested.keys() & {*experiment_names()} else ", ".join(requested.values())


def _place(name: str) -> tuple[int, str]:
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)


def _headlines(claims: Sequence[Claim], aims: Sequence[Aim]) -> list[str]:
    verdicts, outcomes = Counter(claim.verdict for claim in claims), Counter(aim.outcome for aim in aims)
    lines = []
    if claims:
        parts = [f"{verdicts[each]} {each.value}" for each in Verdict if verdicts[each]]
        lines.append(f"Of {len(claims)} claims of the paper: {', '.join(parts)}.")
    if aims:
        parts = [f"{outcomes[each]} {each.value}" for each in Outcome if outcomes[each]]
        lines.append(f"Of {len(aims)} aims beyond the paper: {', '.join(parts)}.")
    return lines


def _control_sentence(tallies: Sequence[Tally]) -> str:
    control = next((tally for tally in tallies if tally.method == CONTROL), None)
    if control is None:
        return ""
    return (
        f"The control, which spends nothing on features, is clearly above RGNN in {control.clearly_below} of "
        f"{control.settings} settings of Table 2 and clearly below it in {control.clearly_above}."
    )


def _against_published(rows: Sequence[Row]) -> list[str]:
    """Return how often each method of Table 2 agrees with its published accuracy, in sentences."""
    sentences = []
    for method in TABLE_2_METHODS:
        judged = [row for row in select(rows, method=method) if row.within_noise is not None]
        if judged:
            within = sum(bool(row.within_noise) for row in judged)
            above = sum(not row.within_noise and row.mean > (row.published_mean or 0.0) for row in judged)
            sentences.append(
                f"{short_title(method)}: within noise of the published accuracy in {within} of {len(judged)} settings, "
                f"above it in {above}, below it in {len(judged) - within - above}."
            )
    return sentences


def _seeds(rows: Sequence[Row]) -> str:
    """Return the number of seeds of the rows, as text.

    >>> _seeds([])
    'no seeds'
    """
    counts = {len(row.accuracies) for row in rows}
    if not counts:
        return "no seeds"
    low, high = min(counts), max(counts)
    return counted(high, "seed") if low == high else f"{low} to {high} seeds"


def write_paper_page(results: ResultsByExperiment, titles: Mapping[str, str], folder: Path) -> Path:
    """Write report.html, tables/ and figures/ and return the page's path.

    Args:
        results: rows of each experiment.
        titles: titles of all requested experiments, by name; the page lists those without results.
        folder: folder to write to.
    """
    page = folder / "report.html"
    sections = paper_sections(results, titles)
    missing = {name: title for name, title in titles.items() if name not in results}
    controls = [row for rows in results.values() for row in rows]
    files = {page: render_paper_page(results, sections, missing)}
    if claims := shown_claims(results, missing):
        files[folder / "tables" / "claims.md"] = to_markdown(claims_table(claims))
    if aims := shown_aims(results, missing):
        files[folder / "tables" / "aims.md"] = to_markdown(aims_table(aims))
    for section in sections:
        files |= _section_files(section, results[section.name], controls, folder)
    for path, content in files.items():
        try:
            write_atomically(path, content)
        except OSError as error:
            raise RunError(f"{path} cannot be written: {error.strerror}; choose another folder with --out") from error
    return page


def _section_files(section: Section, rows: Sequence[Row], controls: Sequence[Row], folder: Path) -> dict[Path, str]:
    files: dict[Path, str] = {}
    tables = [(section.name, section.table, rows_csv(rows, controls))]
    tables += [(sheet.name, sheet.table, records_csv(sheet.records)) for sheet in section.sheets]
    for name, table, full in tables:
        path = folder / "tables" / name
        files |= {path.with_suffix(".csv"): full, path.with_suffix(".md"): to_markdown(table)}
        files[path.with_suffix(".tex")] = to_latex(table)
    for panel in (*section.panels, *([section.overview] if section.overview else [])):
        files[folder / "figures" / f"{panel.name}.svg"] = standalone_svg(panel.svg)
    return files
