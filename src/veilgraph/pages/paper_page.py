"""The page of the paper's experiments: a single HTML file, with its tables and figures as files beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import veilgraph
from veilgraph.atomic_files import write_atomically
from veilgraph.errors import RunError
from veilgraph.experiments.grid import experiment_names
from veilgraph.experiments.results import Row
from veilgraph.pages.formatting import short_title
from veilgraph.pages.method_pairs import MethodPair, method_pairs, pair_table
from veilgraph.pages.own_figures import own_figures
from veilgraph.pages.paired_differences import ResultsByExperiment, control_of, paired, select
from veilgraph.pages.paper_figures import paper_figures
from veilgraph.pages.rendering import Panel, render_template, standalone_svg
from veilgraph.pages.result_tables import (
    TABLE_2_METHODS,
    Table,
    dataset_tables,
    records_csv,
    result_table,
    rows_csv,
    seeds_csv,
    to_latex,
    to_markdown,
)
from veilgraph.privacy.plain_text import counted

_ORDER = ("table2", "ablation", "fig_backbones", "fig_alpha_clusters", "fig_hops", "table1")
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
}

_OWN_NOTE = (
    "Mean, and one standard deviation over seeds to each side. A dashed level needs no value of the axis: the control, "
    "or a method without privacy."
)

_SHORT_TITLES = {
    "table2": "Table 2",
    "ablation": "Ablation",
    "fig_backbones": "Choice of GNN",
    "fig_alpha_clusters": "Bags",
    "fig_hops": "Hops",
    "table1": "Table 1",
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
        pairs: any two methods in one setting.
    """

    name: str
    title: str
    short: str
    note: str
    panels: Sequence[Panel]
    table: Table
    pairs: Sequence[MethodPair]


def paper_sections(results: ResultsByExperiment, titles: Mapping[str, str]) -> list[Section]:
    """Return a section with figures and a table for each experiment, in the paper's order.

    Args:
        results: rows of each experiment.
        titles: titles of the experiments, by name.
    """
    controls = [row for rows in results.values() for row in rows]
    sections = []
    for name in sorted(results, key=_place):
        rows, title = results[name], titles.get(name, name)
        own = name not in experiment_names()
        sections.append(
            Section(
                name=name,
                title=title,
                short=_SHORT_TITLES.get(name, title),
                note=_OWN_NOTE if own else _NOTES.get(name, ""),
                panels=own_figures(name, rows) if own else paper_figures(name, rows),
                table=result_table(name, title, rows, controls),
                pairs=method_pairs(rows),
            )
        )
    return sections


def render_paper_page(results: ResultsByExperiment, sections: Sequence[Section], missing: Mapping[str, str]) -> str:
    """Render measured beside published results.

    Args:
        results: rows of each experiment.
        sections: sections from `paper_sections`.
        missing: titles of the experiments without a finished fit, by name.
    """
    table2, own_title = results.get("table2", ()), _own_title(sections, missing)
    return render_template(
        "paper_page.html",
        own_title=own_title,
        control_sentence=_control_sentence(table2),
        seeds=_seeds([row for rows in results.values() for row in rows]),
        version=veilgraph.__version__,
        against_published=_against_published(table2),
        dataset_tables=dataset_tables(table2),
        sections=sections,
        missing=missing,
        pair_tables={each.name: pair_table(each.title, each.pairs) for each in sections if own_title and each.pairs},
        published=any(row.published_mean is not None for rows in results.values() for row in rows),
    )


def _own_title(sections: Sequence[Section], missing: Mapping[str, str]) -> str:
    """Return the title of a page about experiments of the reader's own; empty if one of this package is on it."""
    requested = {section.name: section.title for section in sections} | dict(missing)
    return "" if requested.keys() & {*experiment_names()} else ", ".join(requested.values())


def _place(name: str) -> tuple[int, str]:
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)


def _control_sentence(rows: Sequence[Row]) -> str:
    """Return how often RGNN is clearly above or below the control, which spends nothing on features."""
    pairs = [(row, control_of(row, rows)) for row in select(rows, method="rgnn")]
    found = [each for row, control in pairs if control is not None and (each := paired(row, control)) is not None]
    if not found:
        return ""
    return (
        f"The control, which spends nothing on features, is clearly above RGNN in "
        f"{sum(each.clear and each.mean < 0 for each in found)} of {len(found)} settings of Table 2 and clearly below "
        f"it in {sum(each.clear and each.mean > 0 for each in found)}."
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
    files: dict[Path, str | bytes] = {page: render_paper_page(results, sections, missing)}
    for section in sections:
        name, rows = section.name, results[section.name]
        files |= table_files(folder, name, section.table, rows_csv(rows, controls))
        files[folder / "tables" / f"{name}-seeds.csv"] = seeds_csv(rows, controls)
        if section.pairs:
            full = records_csv([pair.as_dict() for pair in section.pairs])
            files |= table_files(folder, f"{name}-pairs", pair_table(section.title, section.pairs), full)
        files |= figure_files(folder, section.panels)
    write_files(files)
    return page


def table_files(folder: Path, name: str, table: Table, full: str) -> dict[Path, str | bytes]:
    """Return a table as CSV, Markdown and LaTeX, by path below `folder`.

    Args:
        folder: folder of the results.
        name: stem of the file names.
        table: table for people.
        full: the same with unrounded numbers, as CSV.
    """
    path = folder / "tables" / name
    return {
        path.with_suffix(".csv"): full,
        path.with_suffix(".md"): to_markdown(table),
        path.with_suffix(".tex"): to_latex(table),
    }


def figure_files(folder: Path, panels: Iterable[Panel]) -> dict[Path, str | bytes]:
    """Return figures as SVG files, for pages, and as PDF files, for papers, by path below `folder`."""
    files: dict[Path, str | bytes] = {}
    for panel in panels:
        path = folder / "figures" / panel.name
        files |= {path.with_name(f"{path.name}.svg"): standalone_svg(panel.svg)}
        files |= {path.with_name(f"{path.name}.pdf"): panel.pdf}
    return files


def write_files(files: Mapping[Path, str | bytes]) -> None:
    """Write files, each whole or not at all; raise RunError with the remedy where one cannot be written."""
    for path, content in files.items():
        try:
            write_atomically(path, content)
        except OSError as error:
            raise RunError(f"{path} cannot be written: {error.strerror}; choose another folder") from error
