"""Results as tables: one table for each experiment, Table 2 by data set, and writers for CSV, Markdown and LaTeX."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from veilgraph.datasets.registry import short_name
from veilgraph.experiments.grid import BEST_LABELS, GRR_LABELS, SWEPT, experiment_names
from veilgraph.experiments.results import Row
from veilgraph.graph.text_tables import write_text_table
from veilgraph.pages.formatting import epsilon_text, number_text, short_title, spread_text
from veilgraph.pages.paired_differences import (
    CONTROL,
    PairedDifference,
    control_of,
    counterpart,
    datasets_of,
    paired,
    select,
    side,
)
from veilgraph.privacy.epsilon import short_epsilon
from veilgraph.privacy.estimate import signed_points

_SHOWN_PARAMETERS = {
    "fig_alpha_clusters": ("llp_weight", "num_clusters"),
    "fig_backbones": ("backbone",),
    "fig_hops": ("feature_hops", "label_hops"),
}
"""Parameters that each experiment varies on purpose; other parameters differ because they are tuned."""
_PARAMETER_TITLES = {
    "epsilon_x": "ε_x",
    "epsilon_y": "ε_y",
    "llp_weight": "α",
    "num_clusters": "C",
    "backbone": "Backbone",
    "feature_hops": "K_x",
    "label_hops": "K_y",
    "neighbours": "Neighbours",
    "edge_epsilon": "Edge ε",
    "reporters": "Reporters",
}
_MECHANISM_TITLES = {GRR_LABELS: "GRR", BEST_LABELS: "best mechanism"}
_BACKBONE_TITLES = {"sage": "GraphSAGE", "gcn": "GCN", "gat": "GAT"}

CSV_COLUMNS = (
    "dataset",
    "method",
    "variant",
    "label_mechanism",
    "epsilon_x",
    "epsilon_y",
    *SWEPT,
    "neighbours",
    "edge_epsilon",
    "reporters",
    "seeds",
    "accuracy_mean",
    "accuracy_std",
    "epsilon_user_level",
    "theorem_1",
    "published_mean",
    "published_std",
    "difference_to_published",
    "within_noise",
    "control_epsilon_y",
    "control_mean",
    "control_std",
    "difference_to_control",
    "difference_to_control_standard_error",
    "seconds",
)


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table for people.

    Attributes:
        title: title above the table.
        columns: column heads.
        text_columns: number of columns, from the left, that hold text; the others hold numbers.
        rows: text of each cell.
        note: explanation of the numbers.
        bold: cells to emphasise, as pairs of row and column.
    """

    title: str
    columns: tuple[str, ...]
    text_columns: int
    rows: tuple[tuple[str, ...], ...]
    note: str
    bold: frozenset[tuple[int, int]] = frozenset()

    def texts(self, escape: Callable[[str], str], emphasis: str) -> list[list[str]]:
        """Return all cells escaped for a format, those in bold within its emphasis, such as "**{}**"."""
        return [
            [
                emphasis.replace("{}", escape(cell)) if (place, column) in self.bold else escape(cell)
                for column, cell in enumerate(row)
            ]
            for place, row in enumerate(self.rows)
        ]


# One table for each experiment.


def result_table(experiment: str, title: str, rows: Sequence[Row], controls: Sequence[Row] = ()) -> Table:
    """Return measured beside published accuracies, with the user-level epsilon and the control in every row.

    Args:
        experiment: name of the experiment; it decides which parameters are shown.
        title: title above the table.
        rows: results of the experiment.
        controls: rows in which to look for the control of an experiment that has none.
    """
    published = any(row.published_mean is not None for row in rows)
    shown = _SHOWN_PARAMETERS.get(experiment, () if experiment in experiment_names() else varied_parameters(rows))
    theorem = published or experiment in experiment_names()  # so that rows can be matched with the paper
    mechanisms = {row.label_mechanism for row in rows if row.epsilon_y is not None}
    columns = (
        "Data set",
        "Method",
        *(("Label reports",) if len(mechanisms) > 1 else ()),
        *(_PARAMETER_TITLES[key] for key in shown),
        "ε_x",
        "ε_y",
        "User-level ε",
        *(("Theorem 1 (not a guarantee)",) if theorem else ()),
        "Measured",
        *(("Published", "Difference", "Within noise") if published else ()),
        "Control",
        "Minus control",
    )
    return Table(
        title=title,
        columns=columns,
        text_columns=2 + (len(mechanisms) > 1),
        rows=tuple(_text_row(row, set(columns), shown, [*rows, *controls]) for row in rows),
        note=_note(published, theorem),
    )


def _note(published: bool, theorem: bool) -> str:
    """Explain the numbers that a table of results has."""
    parts = (
        (True, "Accuracy in percent: mean ± standard deviation over seeds. User-level ε holds for any two records"),
        (theorem, "; the number of Theorem 1 is the paper's and is not a guarantee"),
        (True, "."),
        (published, " Difference: measured minus published; within noise if it is below two standard errors."),
        (True, " Minus control: mean ± standard error of the differences, paired by seed."),
    )
    return "".join(text for applies, text in parts if applies)


def varied_parameters(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the parameters in which rows of one setting differ: those that the grid varies on purpose."""
    values: dict[tuple[Any, ...], set[Any]] = {}
    for row in rows:
        setting = row.dataset, row.method, row.epsilon_x, row.epsilon_y, row.variant, row.label_mechanism
        for key in _PARAMETER_TITLES:
            values.setdefault((key, *setting), set()).add(row.swept.get(key))
    return tuple(key for key in _PARAMETER_TITLES if any(k[0] == key and len(v) > 1 for k, v in values.items()))


def _text_row(row: Row, columns: set[str], shown: Sequence[str], rows: Sequence[Row]) -> tuple[str, ...]:
    control = control_of(row, rows)
    difference, published = _to_control(row, control), "Published" in columns
    return (
        dataset_name(row.dataset),
        f"{short_title(row.method)} {row.variant}".strip(),
        *((_MECHANISM_TITLES[row.label_mechanism],) if "Label reports" in columns else ()),
        *(_parameter(row.swept.get(key)) for key in shown),
        number_text(row.epsilon_x),
        number_text(row.epsilon_y),
        short_epsilon(row.epsilon_user_level),
        *(
            ("–" if row.theorem_1 is None else epsilon_text(row.theorem_1),)
            if "Theorem 1 (not a guarantee)" in columns
            else ()
        ),
        spread_text(row.mean, row.std),
        *((published_text(row), _published_difference(row), yes_or_no(row.within_noise) or "–") if published else ()),
        "–" if control is None else spread_text(control.mean, control.std) + _other_budget(row, control),
        "–" if difference is None else str(difference),
    )


def published_text(row: Row) -> str:
    """Return the published mean and standard deviation, or a dash."""
    return "–" if row.published_mean is None else spread_text(row.published_mean, row.published_std)


def yes_or_no(value: bool | None) -> str | None:
    """Return "yes", "no", or None for None, as CSV files write it."""
    return None if value is None else "yes" if value else "no"


def _published_difference(row: Row) -> str:
    return "–" if row.published_mean is None else signed_points(row.mean - row.published_mean)


def _to_control(row: Row, control: Row | None) -> PairedDifference | None:
    return None if control is None or control is row or row.method == control.method else paired(row, control)


def _other_budget(row: Row, control: Row) -> str:
    return f" (ε_y = {control.epsilon_y:g})" if row.epsilon_y is None else ""


def _parameter(value: Any) -> str:
    return _BACKBONE_TITLES.get(value, value) if isinstance(value, str) else number_text(value)


# Table 2 by data set.

TABLE_2_METHODS = ("rgnn", "lpgnn", "lpgnn_equal", "graphsage", CONTROL, "majority", "non_private")


@dataclass(frozen=True, kw_only=True)
class MethodCell:
    """One method in one setting of Table 2.

    Attributes:
        measured: mean and standard deviation.
        published: published mean and standard deviation, or "".
        difference: measured minus published, or "".
        noise: "within", "above" or "below"; "" where a number is missing.
        epsilon: user-level epsilon where it differs from that of the row, or "".
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
    """One setting of Table 2: the budgets, their epsilon, every method, and RGNN minus the control."""

    epsilon_x: str
    epsilon_y: str
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


def dataset_tables(rows: Sequence[Row]) -> list[DatasetTable]:
    """Return Table 2 by data set, with one row for each pair of budgets."""
    return [_dataset_table(select(rows, dataset=dataset)) for dataset in datasets_of(rows)]


def _dataset_table(rows: Sequence[Row]) -> DatasetTable:
    present = {row.method for row in rows}
    methods = [*(m for m in TABLE_2_METHODS if m in present), *sorted(present - set(TABLE_2_METHODS))]
    settings = {(row.epsilon_x, row.epsilon_y): row for row in reversed(rows) if row.epsilon_x is not None}
    ordered = sorted(settings.items(), key=lambda item: [-(value or 0.0) for value in item[0]])
    return DatasetTable(
        name=dataset_name(rows[0].dataset),
        methods=[short_title(method) for method in methods],
        rows=[_setting_row(row, methods, rows) for _, row in ordered],
    )


def _setting_row(row: Row, methods: Sequence[str], rows: Sequence[Row]) -> SettingRow:
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
        user_level=short_epsilon(own.epsilon_user_level),
        theorem_1="–" if stated is None else epsilon_text(stated)[:-2],
        cells=[_method_cell(each, own, best) if each else None for each in found.values()],
        against_control="–" if difference is None else str(difference),
        against_control_side=side(difference),
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
        difference="" if published is None else _published_difference(row),
        noise=noise,
        epsilon="" if epsilon == short_epsilon(own.epsilon_user_level) else epsilon,
        best=row.mean == best,
    )


# Writers.


def rows_csv(rows: Sequence[Row], controls: Sequence[Row] = ()) -> str:
    """Write rows with unrounded numbers; accuracies are shares of 1, and a value that does not apply is empty."""
    return records_csv([_record(row, [*rows, *controls]) for row in rows], CSV_COLUMNS)


def _record(row: Row, rows: Sequence[Row]) -> dict[str, Any]:
    control = control_of(row, rows)
    difference = _to_control(row, control)
    return row.as_dict() | {
        "difference_to_published": None if row.published_mean is None else row.mean - row.published_mean,
        "within_noise": yes_or_no(row.within_noise),
        "control_epsilon_y": None if control is None else control.epsilon_y,
        "control_mean": None if control is None else control.mean,
        "control_std": None if control is None else control.std,
        "difference_to_control": None if difference is None else difference.mean,
        "difference_to_control_standard_error": None if difference is None else difference.standard_error,
    }


def seeds_csv(rows: Sequence[Row], controls: Sequence[Row] = ()) -> str:
    """Write a line for each fit: its setting, all parameters of its method, its seed and accuracy, and the control."""
    return records_csv([record for row in rows for record in _seed_records(row, control_of(row, [*rows, *controls]))])


def _seed_records(row: Row, control: Row | None) -> Iterator[dict[str, Any]]:
    setting = row.as_dict()
    kept = ("dataset", "method", "variant", "label_mechanism", "epsilon_x", "epsilon_y", *_PARAMETER_TITLES)
    for seed, accuracy in row.accuracies.items():
        yield {key: setting.get(key) for key in kept} | {
            "seed": seed,
            "accuracy": accuracy,
            "control": None if control is None else control.accuracies.get(seed),
            "epsilon_user_level": row.epsilon_user_level,
            "parameters": json.dumps(setting["parameters"]),
            "trained_together": row.trained_together.get(seed),
        }


def records_csv(records: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> str:
    """Write records that share their keys, one line each; a value that does not apply is empty.

    Args:
        records: unrounded values by name of the column.
        columns: columns to write; default: those of the first record.
    """
    names = list(columns or records[0])
    return write_text_table(names, ([record.get(name) for name in names] for record in records))


def to_markdown(table: Table) -> str:
    """Write a Markdown table with its title above and its note below."""
    lines = [
        _pipes(table.columns),
        _pipes(["---" if place < table.text_columns else "---:" for place in range(len(table.columns))]),
        *map(_pipes, table.texts(_escape_markdown, "**{}**")),
    ]
    title, note = _escape_markdown(table.title), _escape_markdown(table.note)
    return "\n".join([f"**{title}**\n", *lines, f"\n{note}"]).rstrip() + "\n"


def _pipes(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape_markdown(text: str) -> str:
    for symbol in "\\|<*_`":
        text = text.replace(symbol, f"\\{symbol}")
    return text.replace("\n", " ")


_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "±": r"$\pm$",
        "−": "$-$",
        "–": "--",
        "ε": r"$\varepsilon$",
        "α": r"$\alpha$",
        "≤": r"$\leq$",
        "\N{NO-BREAK SPACE}": "~",
        "\n": " ",
    }
)


def escape_latex(text: str) -> str:
    r"""Escape text for LaTeX.

    >>> escape_latex("lpgnn_equal & 50 %")
    'lpgnn\\_equal \\& 50 \\%'
    """
    return text.translate(_LATEX)


def to_latex(table: Table) -> str:
    """Write a LaTeX table that may run over pages."""
    alignment = "l" * table.text_columns + "r" * (len(table.columns) - table.text_columns)
    head = " & ".join(map(escape_latex, table.columns))
    body = "\n".join(" & ".join(row) + r" \\" for row in table.texts(escape_latex, r"\textbf{{}}"))
    return (
        "% Needs \\usepackage{longtable}.\n"
        f"\\begin{{longtable}}{{{alignment}}}\n"
        f"\\caption{{{escape_latex(table.title)}. {escape_latex(table.note)}}} \\\\\n"
        f"\\hline\n{head} \\\\\n\\hline\n\\endhead\n{body}\n\\hline\n\\end{{longtable}}\n"
    )


_DATASET_NAMES = {
    "citeseer": "Citeseer",
    "cora": "Cora",
    "dblp": "DBLP",
    "facebook": "Facebook",
    "german": "German",
    "student": "Student",
    "pubmed": "Pubmed",
    "twitch_engb": "Twitch",
    "lastfm": "LastFM",
    "flickr": "Flickr",
}


def dataset_name(key: str) -> str:
    """Return the paper's spelling of a data set; another one keeps its name, or that of its file or folder."""
    return _DATASET_NAMES.get(key, short_name(key))


def setting_text(setting: Mapping[str, Any]) -> str:
    """Return budgets and parameters with their titles; those that are None are left out."""
    return ", ".join(
        f"{_PARAMETER_TITLES.get(key, key)} = {_parameter(value)}"
        for key, value in setting.items()
        if value is not None
    )


def budget_text(row: Row) -> str:
    """Return the requested budgets of a row.

    >>> from types import SimpleNamespace
    >>> budget_text(SimpleNamespace(epsilon_x=0.1, epsilon_y=3.0))
    'ε_x = 0.1, ε_y = 3'
    >>> budget_text(SimpleNamespace(epsilon_x=None, epsilon_y=None))
    'not private'
    """
    return setting_text({"epsilon_x": row.epsilon_x, "epsilon_y": row.epsilon_y}) or "not private"
