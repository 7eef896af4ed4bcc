"""Veil beside every other method, setting by setting: differences on the same draws, and what each method spends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from veilgraph.experiments.results import Row
from veilgraph.pages.paired_differences import (
    CONTROL,
    Difference,
    PublishedDifference,
    dataset_name,
    method_title,
    paired,
    select,
    short_epsilon,
    short_title,
)
from veilgraph.pages.paper_claims import Tally, counterpart
from veilgraph.pages.result_tables import Sheet, Table, published_text, spread_text

VEIL = "veil"
_PUBLISHED_RUNS = 5


@dataclass(frozen=True, kw_only=True)
class Opponent:
    """What Veil is compared with.

    Attributes:
        method: its name.
        published: whether the figure of the paper is meant, and not ours.
    """

    method: str
    published: bool = False

    @property
    def title(self) -> str:
        """For a sentence or a list."""
        return f"{short_title(self.method)}, published" if self.published else method_title(self.method)

    @property
    def short(self) -> str:
        """For the head of a column."""
        return f"{short_title(self.method)}, published" if self.published else short_title(self.method)

    def row(self, veil: Row, rows: Sequence[Row]) -> Row | None:
        """Where its figure for a setting of Veil stands, if it has one."""
        found = counterpart(veil, rows, self.method)
        return None if found is None or (self.published and found.published_mean is None) else found

    def difference(self, veil: Row, rows: Sequence[Row]) -> Difference | None:
        """Veil minus this."""
        row = self.row(veil, rows)
        if row is None:
            return None
        return _to_published(veil, row) if self.published else paired(veil, row)


RIVALS = (
    Opponent(method="rgnn", published=True),
    Opponent(method="lpgnn", published=True),
    Opponent(method="rgnn"),
    Opponent(method="lpgnn"),
    Opponent(method="lpgnn_equal"),
    Opponent(method=CONTROL),
)
"""What Veil should never be below."""
OPPONENTS = (*RIVALS, Opponent(method="veil_equal"), Opponent(method="veil_labels"))


def _to_published(veil: Row, row: Row) -> PublishedDifference | None:
    if row.published_mean is None:
        return None
    error = None
    if veil.std is not None and row.published_std is not None:
        error = math.sqrt(veil.std**2 / len(veil.accuracies) + row.published_std**2 / _PUBLISHED_RUNS)
    return PublishedDifference(mean=veil.mean - row.published_mean, standard_error=error)


def veil_settings(rows: Sequence[Row]) -> list[Row]:
    """Veil's rows, graph by graph, the largest budgets first."""
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    return sorted(
        select(rows, method=VEIL),
        key=lambda row: (datasets.index(row.dataset), -(row.epsilon_x or 0.0), -(row.epsilon_y or 0.0)),
    )


def veil_tallies(rows: Sequence[Row]) -> list[Tally]:
    """Veil against each opponent, over the settings that both have."""
    tallies = []
    for opponent in OPPONENTS:
        found = [opponent.difference(veil, rows) for veil in veil_settings(rows)]
        if differences := [each for each in found if each is not None]:
            tallies.append(Tally.of(opponent.title, differences))
    return tallies


def features_in_words(rows: Sequence[Row]) -> str:
    """What Veil gains by the reports of features; "" where nothing can be compared."""
    label_alone = Opponent(method="veil_labels")
    found = [label_alone.difference(veil, rows) for veil in veil_settings(rows)]
    differences = [each for each in found if each is not None]
    if not differences:
        return ""
    tally = Tally.of(label_alone.method, differences)
    return (
        f"What features add: against Veil with the label alone, which spends ε_y only, Veil on the paper's reports "
        f"gains {tally.mean_text} points in the mean of {tally.settings} settings; it is clearly above in "
        f"{tally.clearly_above} and clearly below in {tally.clearly_below}."
    )


@dataclass(frozen=True, kw_only=True)
class ComparedCell:
    """One method in one setting.

    Attributes:
        accuracy: mean and standard deviation.
        difference: Veil minus it, with a standard error; "" for Veil itself.
        side: "above" where Veil is clearly above, "below" where it is clearly below, "" within noise.
        epsilon: at user level where it is not that of Veil's row, or "".
        best: whether nothing in the row has a higher mean.
    """

    accuracy: str
    difference: str
    side: str
    epsilon: str
    best: bool


@dataclass(frozen=True, kw_only=True)
class ComparedRow:
    """One setting: its budgets, what Veil spends, and every method; None where a method has no figure."""

    epsilon_x: str
    epsilon_y: str
    first: bool
    user_level: str
    cells: Sequence[ComparedCell | None]


@dataclass(frozen=True, kw_only=True)
class ComparedTable:
    """One graph."""

    name: str
    methods: Sequence[str]
    rows: Sequence[ComparedRow]


def compared_tables(rows: Sequence[Row]) -> list[ComparedTable]:
    """A table for each graph, with those opponents that ran there."""
    settings = veil_settings(rows)
    return [
        _compared_table([row for row in settings if row.dataset == dataset], rows)
        for dataset in dict.fromkeys(row.dataset for row in settings)
    ]


def _compared_table(settings: Sequence[Row], rows: Sequence[Row]) -> ComparedTable:
    opponents = [each for each in OPPONENTS if any(each.row(veil, rows) for veil in settings)]
    table, last = [], object()
    for veil in settings:
        table.append(
            ComparedRow(
                epsilon_x=_number(veil.epsilon_x),
                epsilon_y=_number(veil.epsilon_y),
                first=veil.epsilon_x != last,
                user_level=short_epsilon(veil.epsilon_user_level),
                cells=_cells(veil, opponents, rows),
            )
        )
        last = veil.epsilon_x
    return ComparedTable(
        name=dataset_name(settings[0].dataset),
        methods=["Veil", *(each.short for each in opponents)],
        rows=table,
    )


def _cells(veil: Row, opponents: Sequence[Opponent], rows: Sequence[Row]) -> list[ComparedCell | None]:
    found = [(each, each.row(veil, rows)) for each in opponents]
    best = max(veil.mean, *(_mean(each, row) for each, row in found if row is not None), 0.0)
    own = ComparedCell(
        accuracy=spread_text(veil.mean, veil.std), difference="", side="", epsilon="", best=veil.mean == best
    )
    return [own, *(None if row is None else _cell(each, row, veil, rows, best) for each, row in found)]


def _cell(opponent: Opponent, row: Row, veil: Row, rows: Sequence[Row], best: float) -> ComparedCell:
    difference = opponent.difference(veil, rows)
    epsilon = short_epsilon(row.epsilon_user_level)
    return ComparedCell(
        accuracy=_accuracy(opponent, row),
        difference="–" if difference is None else str(difference),
        side="" if difference is None or not difference.clear else "above" if difference.mean > 0 else "below",
        epsilon="" if epsilon == short_epsilon(veil.epsilon_user_level) else epsilon,
        best=_mean(opponent, row) == best,
    )


def _mean(opponent: Opponent, row: Row) -> float:
    return row.published_mean or 0.0 if opponent.published else row.mean


def _accuracy(opponent: Opponent, row: Row) -> str:
    return published_text(row) if opponent.published else spread_text(row.mean, row.std)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"


def veil_sheet(rows: Sequence[Row]) -> Sheet | None:
    """The table "Veil beside every other method"."""
    settings = veil_settings(rows)
    opponents = [each for each in OPPONENTS if any(each.row(veil, rows) for veil in settings)]
    if not opponents:
        return None
    table = Table(
        title="Veil beside every other method",
        columns=("Data set", "ε_x", "ε_y", "User-level ε", "Veil", *(each.short for each in opponents)),
        words=1,
        rows=tuple(_text_row(veil, opponents, rows) for veil in settings),
        note=(
            "Accuracy in percent: mean ± standard deviation over seeds. In brackets Veil minus the method, mean ± "
            "standard error: seed by seed on the same draws; against published figures of the two means. User-level ε "
            "holds for any two records; a method that spends another one than Veil's says so."
        ),
    )
    records = [
        _record(veil, each, row, rows) for veil in settings for each in opponents if (row := each.row(veil, rows))
    ]
    return Sheet(name="beyond-veil", table=table, records=tuple(records))


def _text_row(veil: Row, opponents: Sequence[Opponent], rows: Sequence[Row]) -> tuple[str, ...]:
    own, *others = _cells(veil, opponents, rows)
    return (
        dataset_name(veil.dataset),
        _number(veil.epsilon_x),
        _number(veil.epsilon_y),
        short_epsilon(veil.epsilon_user_level),
        "–" if own is None else own.accuracy,
        *("–" if cell is None else _cell_text(cell) for cell in others),
    )


def _cell_text(cell: ComparedCell) -> str:
    epsilon = f", ε = {cell.epsilon}" if cell.epsilon else ""
    return f"{cell.accuracy} ({cell.difference}{epsilon})"


def _record(veil: Row, opponent: Opponent, row: Row, rows: Sequence[Row]) -> dict[str, object]:
    difference = opponent.difference(veil, rows)
    return {
        "dataset": veil.dataset,
        "epsilon_x": veil.epsilon_x,
        "epsilon_y": veil.epsilon_y,
        "veil_mean": veil.mean,
        "veil_std": veil.std,
        "veil_epsilon_user_level": veil.epsilon_user_level,
        "method": opponent.method,
        "published": {True: "yes", False: "no"}[opponent.published],
        "mean": _mean(opponent, row),
        "std": row.published_std if opponent.published else row.std,
        "epsilon_user_level": row.epsilon_user_level,
        "difference": None if difference is None else difference.mean,
        "standard_error": None if difference is None else difference.standard_error,
        "beyond_noise": None if difference is None else {True: "yes", False: "no"}[difference.clear],
    }
