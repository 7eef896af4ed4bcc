"""The paper's report as files: a page, tables and figures; and what they are made of, collected from finished fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from veilgraph.errors import RunError
from veilgraph.experiments.plan import Experiment
from veilgraph.experiments.report.aims import aims_table
from veilgraph.experiments.report.claims import claims_table
from veilgraph.experiments.report.pairing import Found
from veilgraph.experiments.report.paper_page import (
    Section,
    paper_sections,
    render_paper_report,
    shown_aims,
    shown_claims,
)
from veilgraph.experiments.report.svg import standalone_svg
from veilgraph.experiments.report.tables import records_csv, to_csv, to_latex, to_markdown
from veilgraph.experiments.results import Row, collect
from veilgraph.experiments.runner import key_of, load_data
from veilgraph.experiments.store import CellStore
from veilgraph.files import write_whole


def collect_all(
    experiments: Sequence[Experiment], store: CellStore, *, data_dir: Path | None = None
) -> dict[str, list[Row]]:
    """What is finished of each experiment; one of which nothing is finished is left out.

    A data set that is not on this machine cannot have finished fits that are known here, so it counts as not run.
    """
    rows: dict[str, list[Row]] = {experiment.name: [] for experiment in experiments}
    # Data sets outside, experiments inside: each data set is loaded once for all of them.
    for dataset in sorted({cell.dataset for experiment in experiments for cell in experiment.cells}):
        for experiment in experiments:
            if part := _finished_part(experiment, dataset, store, data_dir):
                rows[experiment.name] += collect(part, store, data_dir=data_dir)
    found = {name: results for name, results in rows.items() if results}
    if not found:
        names = ", ".join(rows)
        raise RunError(f"nothing of {names} is finished: veilgraph paper run {experiments[0].name}")
    return found


def _finished_part(experiment: Experiment, dataset: str, store: CellStore, data_dir: Path | None) -> Experiment | None:
    """The experiment on one data set, if the data are there and something of it is finished."""
    if not any(cell.dataset == dataset for cell in experiment.cells):
        return None
    part = experiment.only(datasets=[dataset])
    try:
        load_data(dataset, data_dir, part.cells[0].original_columns)
    except RunError:  # the file is not on this machine
        return None
    return part if any(store.has(key_of(cell, data_dir)) for cell in part.cells) else None


def write_paper_report(found: Found, titles: Mapping[str, str], folder: Path) -> Path:
    """Write report.html, tables/ and figures/ and return the page's path.

    Args:
        found: rows of each experiment.
        titles: of every experiment that was asked for; those that were not found are named on the page.
        folder: where to.
    """
    page = folder / "report.html"
    sections = paper_sections(found, titles)
    missing = {name: title for name, title in titles.items() if name not in found}
    controls = [row for rows in found.values() for row in rows]
    files = {page: render_paper_report(found, sections, missing)}
    if claims := shown_claims(found, missing):
        files[folder / "tables" / "claims.md"] = to_markdown(claims_table(claims))
    if aims := shown_aims(found, missing):
        files[folder / "tables" / "aims.md"] = to_markdown(aims_table(aims))
    for section in sections:
        files |= _section_files(section, found[section.name], controls, folder)
    for path, content in files.items():
        try:
            write_whole(path, content)
        except OSError as error:
            raise RunError(f"{path} cannot be written: {error.strerror}; choose another folder with --out") from error
    return page


def _section_files(section: Section, rows: Sequence[Row], controls: Sequence[Row], folder: Path) -> dict[Path, str]:
    files: dict[Path, str] = {}
    tables = [(section.name, section.table, to_csv(rows, controls))]
    tables += [(sheet.name, sheet.table, records_csv(sheet.records)) for sheet in section.sheets]
    for name, table, full in tables:
        path = folder / "tables" / name
        files |= {path.with_suffix(".csv"): full, path.with_suffix(".md"): to_markdown(table)}
        files[path.with_suffix(".tex")] = to_latex(table)
    for panel in (*section.panels, *([section.overview] if section.overview else [])):
        files[folder / "figures" / f"{panel.name}.svg"] = standalone_svg(panel.svg)
    return files
