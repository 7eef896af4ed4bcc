"""The results of an experiment as a table: CSV for programs, Markdown and LaTeX for people, the control in each."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from veilgraph.experiments.grid import SWEPT
from veilgraph.experiments.results import Row
from veilgraph.pages.paired_differences import (
    PairedDifference,
    control_of,
    dataset_name,
    epsilon_text,
    paired,
    short_epsilon,
    short_title,
    signed_points,
)

_SHOWN_PARAMETERS = {
    "fig_alpha_clusters": ("llp_weight", "num_clusters"),
    "fig_backbones": ("backbone",),
    "fig_hops": ("feature_hops", "label_hops"),
}
"""What an experiment varies on purpose; other parameters differ because they are tuned."""
_PARAMETER_WORDS = {
    "llp_weight": "α",
    "num_clusters": "C",
    "backbone": "Backbone",
    "feature_hops": "K_x",
    "label_hops": "K_y",
}
_BACKBONE_WORDS = {"sage": "GraphSAGE", "gcn": "GCN", "gat": "GAT"}

CSV_COLUMNS = (
    "dataset",
    "method",
    "variant",
    "epsilon_x",
    "epsilon_y",
    *SWEPT,
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


NOTE = (
    "Accuracy in percent: mean ± standard deviation over seeds. User-level ε holds for any two records; the figure of "
    "Theorem 1 is the paper's and is not a guarantee. Difference: measured minus published, within noise where it is "
    "below two standard errors. Minus control: mean ± standard error of the differences seed by seed."
)


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table for people.

    Attributes:
        title: above it.
        columns: their heads.
        words: how many columns, from the left, hold words; the others hold figures.
        rows: text of each cell.
        note: what explains the figures.
    """

    title: str
    columns: tuple[str, ...]
    words: int
    rows: tuple[tuple[str, ...], ...]
    note: str = NOTE


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A table with files of its own.

    Attributes:
        name: of the files.
        table: for people.
        records: every figure in full, for programs.
    """

    name: str
    table: Table
    records: tuple[Mapping[str, Any], ...]


def result_table(experiment: str, title: str, rows: Sequence[Row], controls: Sequence[Row] = ()) -> Table:
    """Measured next to published, the user-level epsilon and the control in every row.

    Args:
        experiment: its name; decides which parameters are shown.
        title: above the table.
        rows: the results.
        controls: where to look for the control of an experiment that has none of its own.
    """
    published = any(row.published_mean is not None for row in rows)
    shown = _SHOWN_PARAMETERS.get(experiment, ())
    columns = (
        "Data set",
        "Method",
        *(_PARAMETER_WORDS[key] for key in shown),
        "ε_x",
        "ε_y",
        "User-level ε",
        "Theorem 1 (not a guarantee)",
        "Measured",
        *(("Published", "Difference", "Within noise") if published else ()),
        "Control",
        "Minus control",
    )
    return Table(
        title=title,
        columns=columns,
        words=2,
        rows=tuple(_text_row(row, published, shown, [*rows, *controls]) for row in rows),
    )


def _text_row(row: Row, published: bool, shown: Sequence[str], rows: Sequence[Row]) -> tuple[str, ...]:
    control = control_of(row, rows)
    difference = _to_control(row, control)
    return (
        dataset_name(row.dataset),
        f"{short_title(row.method)} {row.variant}".strip(),
        *(_parameter(row.swept.get(key)) for key in shown),
        _number(row.epsilon_x),
        _number(row.epsilon_y),
        short_epsilon(row.epsilon_user_level),
        "–" if row.theorem_1 is None else epsilon_text(row.theorem_1),
        spread_text(row.mean, row.std),
        *((published_text(row), published_difference(row), noise_word(row)) if published else ()),
        "–" if control is None else spread_text(control.mean, control.std) + _other_budget(row, control),
        "–" if difference is None else str(difference),
    )


def spread_text(mean: float, std: float | None) -> str:
    """In percent, on one line.

    >>> spread_text(0.557, 0.014).split(), spread_text(0.5, None)
    (['55.7', '±', '1.4'], '50.0')
    """
    text = f"{100 * mean:.1f}" if std is None else f"{100 * mean:.1f} ± {100 * std:.1f}"
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def published_text(row: Row) -> str:
    """The paper's figure."""
    return "–" if row.published_mean is None else spread_text(row.published_mean, row.published_std)


def published_difference(row: Row) -> str:
    """Measured minus published, in points."""
    return "–" if row.published_mean is None else signed_points(row.mean - row.published_mean)


def noise_word(row: Row) -> str:
    """Whether measured and published differ by less than two standard errors."""
    return {None: "–", True: "yes", False: "no"}[row.within_noise]


def _to_control(row: Row, control: Row | None) -> PairedDifference | None:
    return None if control is None or control is row or row.method == control.method else paired(row, control)


def _other_budget(row: Row, control: Row) -> str:
    return f" (ε_y = {control.epsilon_y:g})" if row.epsilon_y is None else ""


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"


def _parameter(value: Any) -> str:
    if value is None:
        return "–"
    return _BACKBONE_WORDS.get(value, value) if isinstance(value, str) else f"{value:g}"


def to_csv(rows: Sequence[Row], controls: Sequence[Row] = ()) -> str:
    """Every figure in full; accuracies are shares of 1, what does not apply is empty."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, CSV_COLUMNS, lineterminator="\n", restval="")
    writer.writeheader()
    for row in rows:
        control = control_of(row, [*rows, *controls])
        difference = _to_control(row, control)
        published = row.published_mean
        writer.writerow(
            row.as_dict()
            | {
                "difference_to_published": None if published is None else row.mean - published,
                "within_noise": {None: None, True: "yes", False: "no"}[row.within_noise],
                "control_epsilon_y": None if control is None else control.epsilon_y,
                "control_mean": None if control is None else control.mean,
                "control_std": None if control is None else control.std,
                "difference_to_control": None if difference is None else difference.mean,
                "difference_to_control_standard_error": None if difference is None else difference.standard_error,
            }
        )
    return buffer.getvalue()


def records_csv(records: Sequence[Mapping[str, Any]]) -> str:
    """Records that share their keys, a line for each; what does not apply is empty."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(records[0]) if records else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return buffer.getvalue()


def to_markdown(table: Table) -> str:
    """A table of pipes under its title, and its note below it."""
    lines = [
        _pipes(table.columns),
        _pipes(["---" if place < table.words else "---:" for place in range(len(table.columns))]),
        *(_pipes([_markdown(cell) for cell in row]) for row in table.rows),
    ]
    return "\n".join([f"**{_markdown(table.title)}**\n", *lines, f"\n{_markdown(table.note)}"]).rstrip() + "\n"


def _pipes(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown(text: str) -> str:
    for symbol in "\\|<*_`":
        text = text.replace(symbol, f"\\{symbol}")
    return text.replace("\n", " ")


_LATEX = {
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


def escape_latex(text: str) -> str:
    r"""Text that LaTeX prints as it is.

    >>> escape_latex("lpgnn_equal & 50 %")
    'lpgnn\\_equal \\& 50 \\%'
    """
    return "".join(_LATEX.get(symbol, symbol) for symbol in text)


def to_latex(table: Table) -> str:
    """A table that may run over pages."""
    alignment = "l" * table.words + "r" * (len(table.columns) - table.words)
    head = " & ".join(map(escape_latex, table.columns))
    body = "\n".join(" & ".join(map(escape_latex, row)) + r" \\" for row in table.rows)
    return (
        "% Needs \\usepackage{longtable}.\n"
        f"\\begin{{longtable}}{{{alignment}}}\n"
        f"\\caption{{{escape_latex(table.title)}. {escape_latex(table.note)}}} \\\\\n"
        f"\\hline\n{head} \\\\\n\\hline\n\\endhead\n{body}\n\\hline\n\\end{{longtable}}\n"
    )
