"""One self-contained HTML page about the paper's tables and figures, run again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import veilgraph
from veilgraph.atomic_files import write_whole
from veilgraph.errors import RunError
from veilgraph.experiments.grid import Experiment
from veilgraph.experiments.result_store import CellStore
from veilgraph.experiments.results import Row, collect
from veilgraph.experiments.runner import key_of, load_data
from veilgraph.pages.frontier import (
    ceiling_in_words,
    price_sheet,
    published_accuracies,
    split_sheet,
)
from veilgraph.pages.frontier_figures import frontier_overview
from veilgraph.pages.paired_differences import (
    CONTROL,
    Found,
    control_of,
    dataset_name,
    epsilon_text,
    method_title,
    paired,
    select,
    short_epsilon,
    short_title,
)
from veilgraph.pages.paper_claims import Claim, Tally, Verdict, claims_table, counterpart, judge_claims, wins_and_losses
from veilgraph.pages.paper_figures import paper_figures
from veilgraph.pages.result_tables import (
    Sheet,
    Table,
    published_difference,
    published_text,
    records_csv,
    result_table,
    spread_text,
    to_csv,
    to_latex,
    to_markdown,
)
from veilgraph.pages.svg import Panel, standalone_svg
from veilgraph.pages.templates import render_template
from veilgraph.pages.veil_comparison import compared_tables, features_in_words, veil_sheet, veil_tallies
from veilgraph.pages.veil_targets import Aim, Outcome, aims_table, judge_aims

_BEYOND = ("beyond", "frontier")
"""Experiments that are about our own aims, not the paper's claims."""
_ORDER = ("table2", "ablation", "fig_backbones", "fig_alpha_clusters", "fig_hops", "table1", "baselines", *_BEYOND)
_MARKS = {Verdict.CONFIRMED: "✓", Verdict.NOT_CONFIRMED: "~", Verdict.REFUTED: "✗", Verdict.NOT_RUN: "…"}
_AIM_MARKS = {Outcome.MET: "✓", Outcome.MISSED: "✗", Outcome.NOT_RUN: "…"}
_TABLE2_METHODS = ("rgnn", "lpgnn", "lpgnn_equal", "graphsage", CONTROL, "majority", "non_private")
_NOTES = {
    "table2": "Left of zero RGNN is below the control, or a method is below its published figure. Circle: ε_x = 1, "
    "square: 0.1, triangle: 0.01; ε_y falls from 3 at the top of a band to 0.5. Filled: beyond noise; hollow: "
    "within it.",
    "ablation": "Bar: mean; line: one standard deviation to each side; diamond: published. “Without estimation” is not "
    "in the paper: shares are propagated and taken as they are.",
    "fig_backbones": "Mean and standard deviation over seeds. The control uses the label budget alone and no features, "
    "so it has no point without privacy.",
    "fig_alpha_clusters": "Mean accuracy in percent, darker is higher; the frame marks the highest of them.",
    "fig_hops": "Mean and standard deviation over seeds. Dashed line, or diamonds at the right in the colour of their "
    "ε_y: the control, which has no hops of this kind.",
    "table1": "A ceiling on the original columns, not a private method. The control beside it is private, at the label "
    "budget in brackets.",
    "baselines": "Not in the paper: how much of the difference to RGNN the choice of GNN alone can explain.",
    "beyond": "Right of zero Veil is above. Circle: ε_x = 1, square: 0.1; ε_y falls from 3 at the top of a band to "
    "0.5. Filled: beyond noise; hollow: within it. Veil reads the reports of RGNN, at the same ε; the control and Veil "
    "with the label alone ask for no features and spend ε_y only.",
    "frontier": "Lines: means over seeds; bands: one standard deviation to each side. Veil, label alone: the whole "
    "total for the label, no features asked for. Best split: the highest mean of five shares of the label, picked by "
    "its accuracy on these very seeds. RGNN, paper's split: ten parts for features, one for the label, as at "
    "ε_x = ε_y. Diamonds: RGNN as published, at the user-level ε that it really spends, m ε_x + ε_y.",
}


_SHORT = {
    "table2": "Table 2",
    "ablation": "Ablation",
    "fig_backbones": "Choice of GNN",
    "fig_alpha_clusters": "Bags",
    "fig_hops": "Hops",
    "table1": "Table 1",
    "baselines": "Other GNNs on reports",
    "beyond": "Veil",
    "frontier": "Frontier",
}


@dataclass(frozen=True, kw_only=True)
class Section:
    """One experiment on the page.

    Attributes:
        name: of the experiment.
        title: above it.
        short: in the list of sections.
        note: below its figures.
        panels: its figures.
        table: every row.
        remarks: what its rows say, in sentences.
        sheets: tables of its own.
        overview: all its panels in one picture, for other places than the page.
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


@dataclass(frozen=True, kw_only=True)
class MethodCell:
    """One method in one setting of Table 2.

    Attributes:
        measured: mean and standard deviation.
        published: likewise, or "".
        difference: measured minus published, or "".
        noise: "within", "above" or "below"; "" where nothing can be said.
        epsilon: at user level where it differs from the row's, or "".
        best: whether no private method has a higher mean in this setting.
    """

    measured: str
    published: str
    difference: str
    noise: str
    epsilon: str
    best: bool


@dataclass(frozen=True, kw_only=True)
class SettingRow:
    """One setting of Table 2: the budgets, what they mean, every method, and RGNN minus the control."""

    epsilon_x: str
    epsilon_y: str
    first: bool
    user_level: str
    theorem_1: str
    cells: Sequence[MethodCell | None]
    against_control: str
    against_control_side: str


@dataclass(frozen=True, kw_only=True)
class DatasetTable:
    """Table 2 on one data set."""

    name: str
    methods: Sequence[str]
    rows: Sequence[SettingRow]


def paper_sections(found: Found, titles: Mapping[str, str]) -> list[Section]:
    """Every experiment with its figures and its table, in the paper's order.

    Args:
        found: rows of each experiment.
        titles: of the experiments, for people.
    """
    controls = [row for rows in found.values() for row in rows]
    sections = []
    for name in sorted(found, key=_place):
        rows = found[name]
        remark = {"beyond": features_in_words, "frontier": ceiling_in_words}.get(name, lambda _: "")(rows)
        overview = frontier_overview(rows, published_accuracies()) if name == "frontier" else None
        sections.append(
            Section(
                name=name,
                title=titles.get(name, name),
                short=_SHORT.get(name, name),
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
    }.get(name, list)()
    return [sheet for sheet in sheets if sheet is not None]


def shown_claims(found: Found, missing: Mapping[str, str]) -> list[Claim]:
    """The claims that what was asked for is about; none where only our own aims are."""
    asked = {*found, *missing}
    return [] if asked <= {*_BEYOND} else [claim for claim in judge_claims(found) if {*claim.experiments} <= asked]


def shown_aims(found: Found, missing: Mapping[str, str]) -> list[Aim]:
    """The aims that what was asked for is about."""
    return [aim for aim in judge_aims(found) if aim.experiment in {*found, *missing}]


def render_paper_report(found: Found, sections: Sequence[Section], missing: Mapping[str, str]) -> str:
    """What was measured beside what was published, and whether the paper's claims hold.

    Args:
        found: rows of each experiment.
        sections: what `paper_sections` made of them.
        missing: titles of the experiments of which nothing is finished, by name.
    """
    claims, aims = shown_claims(found, missing), shown_aims(found, missing)
    table2, beyond = found.get("table2", ()), found.get("beyond", ())
    tallies = wins_and_losses(table2)
    return render_template(
        "paper_page.html",
        about_the_paper=bool(claims),
        headlines=_headlines(claims, aims),
        control_sentence=_control_sentence(tallies),
        aims=aims,
        aim_marks=_AIM_MARKS,
        veil_tallies=veil_tallies(beyond),
        compared_tables=compared_tables(beyond),
        seeds=_seeds([row for rows in found.values() for row in rows]),
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
    """How often each method of Table 2 came out as published."""
    sentences = []
    for method in _TABLE2_METHODS:
        judged = [row for row in select(rows, method=method) if row.within_noise is not None]
        if judged:
            within = sum(bool(row.within_noise) for row in judged)
            above = sum(not row.within_noise and row.mean > (row.published_mean or 0.0) for row in judged)
            sentences.append(
                f"{short_title(method)}: within noise of the published figure in {within} of {len(judged)} settings, "
                f"above it in {above}, below it in {len(judged) - within - above}."
            )
    return sentences


def _seeds(rows: Sequence[Row]) -> str:
    """How many seeds a row has.

    >>> _seeds([])
    'no seeds'
    """
    counts = {len(row.accuracies) for row in rows}
    if not counts:
        return "no seeds"
    low, high = min(counts), max(counts)
    if high == 1:
        return "1 seed"
    return f"{high} seeds" if low == high else f"{low} to {high} seeds"


def dataset_tables(rows: Sequence[Row]) -> list[DatasetTable]:
    """Table 2 by data set, a row for each pair of budgets."""
    return [_dataset_table(select(rows, dataset=dataset)) for dataset in dict.fromkeys(row.dataset for row in rows)]


def _dataset_table(rows: Sequence[Row]) -> DatasetTable:
    present = {row.method for row in rows}
    methods = [*(m for m in _TABLE2_METHODS if m in present), *sorted(present - set(_TABLE2_METHODS))]
    settings = {(row.epsilon_x, row.epsilon_y): row for row in reversed(rows) if row.epsilon_x is not None}
    ordered = sorted(settings.items(), key=lambda item: [-(value or 0.0) for value in item[0]])
    table, last = [], None
    for (epsilon_x, _), row in ordered:
        table.append(_setting_row(row, methods, rows, first=epsilon_x != last))
        last = epsilon_x
    return DatasetTable(name=dataset_name(rows[0].dataset), methods=[short_title(m) for m in methods], rows=table)


def _setting_row(row: Row, methods: Sequence[str], rows: Sequence[Row], *, first: bool) -> SettingRow:
    found = {method: counterpart(row, rows, method) for method in methods}
    best = max(each.mean for each in found.values() if each and each.method != "non_private")
    rgnn = found.get("rgnn")
    own = rgnn or row
    stated = next((each.theorem_1 for each in (rgnn, *found.values()) if each and each.theorem_1 is not None), None)
    control = control_of(own, rows)
    difference = paired(rgnn, control) if rgnn and control else None
    return SettingRow(
        epsilon_x=f"{row.epsilon_x:g}",
        epsilon_y=f"{row.epsilon_y:g}",
        first=first,
        user_level=short_epsilon(own.epsilon_user_level),
        theorem_1="–" if stated is None else epsilon_text(stated)[:-2],
        cells=[_method_cell(each, own, best) if each else None for each in found.values()],
        against_control="–" if difference is None else str(difference),
        against_control_side=""
        if difference is None or not difference.clear
        else ("above" if difference.mean > 0 else "below"),
    )


def _method_cell(row: Row, own: Row, best: float) -> MethodCell:
    published = row.published_mean
    noise = ""
    if published is not None and row.within_noise is not None:
        noise = "within" if row.within_noise else "above" if row.mean > published else "below"
    epsilon = short_epsilon(row.epsilon_user_level)
    return MethodCell(
        measured=spread_text(row.mean, row.std),
        published="" if published is None else published_text(row),
        difference="" if published is None else published_difference(row),
        noise=noise,
        epsilon="" if epsilon == short_epsilon(own.epsilon_user_level) else epsilon,
        best=row.mean == best,
    )


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
