"""Veil beside every other method, setting by setting, and whether Veil meets the aims that were set for it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from veilgraph.experiments.grid import CLASS, HISTOGRAM
from veilgraph.experiments.results import Row
from veilgraph.pages.formatting import (
    budget_text,
    dataset_name,
    method_title,
    number_text,
    short_epsilon,
    short_title,
    spread_text,
    unbroken,
)
from veilgraph.pages.frontier import (
    CLOSE,
    FIFTH,
    HALF,
    SPLIT_TOTALS,
    PublishedAccuracy,
    prices,
    prices_in_words,
    published_accuracies,
    split_cases,
    splits_in_words,
)
from veilgraph.pages.paired_differences import (
    CONTROL,
    Difference,
    PublishedDifference,
    ResultsByExperiment,
    Tally,
    counterpart,
    datasets_of,
    find,
    paired,
    pooled,
    select,
    side,
)
from veilgraph.pages.paper_claims import DATASETS, EPSILON_X, EPSILON_Y, SETTINGS
from veilgraph.pages.result_tables import Sheet, Table, published_text, yes_or_no
from veilgraph.privacy.estimate import signed_points
from veilgraph.privacy.plain_text import counted

VEIL = "veil"


@dataclass(frozen=True, kw_only=True)
class Opponent:
    """A method that Veil is compared with.

    Attributes:
        method: key of the method.
        published: whether to compare with the published accuracy instead of the measured one.
    """

    method: str
    published: bool = False

    @property
    def title(self) -> str:
        """Title for a sentence or a list."""
        return f"{short_title(self.method)}, published" if self.published else method_title(self.method)

    @property
    def short(self) -> str:
        """Title for a column head."""
        return f"{short_title(self.method)}, published" if self.published else short_title(self.method)

    def row(self, veil: Row, rows: Sequence[Row]) -> Row | None:
        """Return the row of this method in the setting of a row of Veil, or None."""
        found = counterpart(veil, rows, self.method)
        return None if found is None or (self.published and found.published_mean is None) else found

    def difference(self, veil: Row, rows: Sequence[Row]) -> Difference | None:
        """Return Veil minus this method, or None where one of the two is missing."""
        row = self.row(veil, rows)
        if row is None:
            return None
        return PublishedDifference.of(veil, row) if self.published else paired(veil, row)


RIVALS = (
    Opponent(method="rgnn", published=True),
    Opponent(method="lpgnn", published=True),
    Opponent(method="rgnn"),
    Opponent(method="lpgnn"),
    Opponent(method="lpgnn_equal"),
    Opponent(method=CONTROL),
)
"""Methods that Veil should never be below."""
OPPONENTS = (*RIVALS, Opponent(method="veil_equal"), Opponent(method="veil_labels"))


def veil_settings(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of Veil by data set, the largest budgets first."""
    datasets = datasets_of(rows)
    return sorted(
        select(rows, method=VEIL),
        key=lambda row: (datasets.index(row.dataset), -(row.epsilon_x or 0.0), -(row.epsilon_y or 0.0)),
    )


def veil_tallies(rows: Sequence[Row]) -> list[Tally]:
    """Count the settings in which Veil is above or below each opponent, over the settings that both have."""
    tallies = []
    for opponent in OPPONENTS:
        found = [opponent.difference(veil, rows) for veil in veil_settings(rows)]
        if differences := [each for each in found if each is not None]:
            tallies.append(Tally.of(opponent.title, differences))
    return tallies


def features_in_words(rows: Sequence[Row]) -> str:
    """Return what Veil gains from feature reports, in words; "" where nothing can be compared."""
    label_alone = Opponent(method="veil_labels")
    found = [label_alone.difference(veil, rows) for veil in veil_settings(rows)]
    differences = [each for each in found if each is not None]
    if not differences:
        return ""
    tally = Tally.of(label_alone.method, differences)
    return (
        f"Gain from features: compared with Veil with the label alone, which spends ε_y only, Veil on the paper's "
        f"reports gains {tally.mean_text} points in the mean of {tally.settings} settings. It is clearly above in "
        f"{tally.clearly_above} and clearly below in {tally.clearly_below}."
    )


@dataclass(frozen=True, kw_only=True)
class ComparedCell:
    """One method in one setting.

    Attributes:
        accuracy: mean and standard deviation.
        difference: Veil minus the method, with a standard error; "" for Veil itself.
        side: "above" where Veil is clearly above, "below" where it is clearly below, "" within noise.
        epsilon: user-level epsilon where it differs from that of Veil, or "".
        best: whether no method in the row has a higher mean.
    """

    accuracy: str
    difference: str
    side: str
    epsilon: str
    best: bool


@dataclass(frozen=True, kw_only=True)
class ComparedRow:
    """One setting: its budgets, the user-level epsilon of Veil, and every method; None where a method did not run."""

    epsilon_x: str
    epsilon_y: str
    user_level: str
    cells: Sequence[ComparedCell | None]


@dataclass(frozen=True, kw_only=True)
class ComparedTable:
    """Veil and its opponents on one data set."""

    name: str
    methods: Sequence[str]
    rows: Sequence[ComparedRow]


def compared_tables(rows: Sequence[Row]) -> list[ComparedTable]:
    """Return a table for each data set, with the opponents that ran on it."""
    settings = veil_settings(rows)
    return [
        _compared_table([row for row in settings if row.dataset == dataset], rows) for dataset in datasets_of(settings)
    ]


def _compared_table(settings: Sequence[Row], rows: Sequence[Row]) -> ComparedTable:
    opponents = [each for each in OPPONENTS if any(each.row(veil, rows) for veil in settings)]
    return ComparedTable(
        name=dataset_name(settings[0].dataset),
        methods=["Veil", *(each.short for each in opponents)],
        rows=[
            ComparedRow(
                epsilon_x=number_text(veil.epsilon_x),
                epsilon_y=number_text(veil.epsilon_y),
                user_level=short_epsilon(veil.epsilon_user_level),
                cells=_cells(veil, opponents, rows),
            )
            for veil in settings
        ],
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
        side=side(difference),
        epsilon="" if epsilon == short_epsilon(veil.epsilon_user_level) else epsilon,
        best=_mean(opponent, row) == best,
    )


def _mean(opponent: Opponent, row: Row) -> float:
    return row.published_mean or 0.0 if opponent.published else row.mean


def _accuracy(opponent: Opponent, row: Row) -> str:
    return published_text(row) if opponent.published else spread_text(row.mean, row.std)


def veil_sheet(rows: Sequence[Row]) -> Sheet | None:
    """Return the table "Veil beside every other method", or None where nothing can be compared."""
    settings = veil_settings(rows)
    opponents = [each for each in OPPONENTS if any(each.row(veil, rows) for veil in settings)]
    if not opponents:
        return None
    table = Table(
        title="Veil beside every other method",
        columns=("Data set", "ε_x", "ε_y", "User-level ε", "Veil", *(each.short for each in opponents)),
        text_columns=1,
        rows=tuple(_text_row(veil, opponents, rows) for veil in settings),
        note=(
            "Accuracy in percent: mean ± standard deviation over seeds. In brackets: Veil minus the method, mean ± "
            "standard error, paired by seed; differences to published accuracies are not paired. User-level ε holds "
            "for any two records and is shown where it differs from that of Veil."
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
        number_text(veil.epsilon_x),
        number_text(veil.epsilon_y),
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
        "published": yes_or_no(opponent.published),
        "mean": _mean(opponent, row),
        "std": row.published_std if opponent.published else row.std,
        "epsilon_user_level": row.epsilon_user_level,
        "difference": None if difference is None else difference.mean,
        "standard_error": None if difference is None else difference.standard_error,
        "beyond_noise": None if difference is None else yes_or_no(difference.clear),
    }


# Aims.

GAIN = 0.09
GAIN_AT_SMALL_BUDGETS = 0.06
SMALL_BUDGET = 1.0
CLOSE_CASES = 27
_SPLIT_CASES = len(DATASETS) * len(SPLIT_TOTALS)


class Outcome(StrEnum):
    """Outcome of an aim."""

    MET = "met"
    MISSED = "missed"
    NOT_RUN = "not run yet"


@dataclass(frozen=True, kw_only=True)
class Aim:
    """One aim that was set for Veil.

    Attributes:
        name: the aim.
        experiment: experiment that decides it.
        outcome: outcome that follows from the evidence.
        evidence: measured numbers, in one or two sentences.
    """

    name: str
    experiment: str
    outcome: Outcome
    evidence: str


Finding = tuple[Outcome, str]
_NOT_FINISHED: Finding = (Outcome.NOT_RUN, "Its fits are not finished.")


def judge_aims(results: ResultsByExperiment) -> list[Aim]:
    """Judge every aim that rows can decide.

    Args:
        results: rows by experiment. Aims about a missing or incomplete experiment are "not run yet".
    """
    aims = []
    for name, experiment, decide in _AIMS:
        outcome, evidence = decide(results.get(experiment, ()))
        aims.append(Aim(name=name, experiment=experiment, outcome=outcome, evidence=evidence))
    return aims


def aims_table(aims: Sequence[Aim]) -> Table:
    """Return aims, outcomes and evidence as a table."""
    return Table(
        title="Are the aims met?",
        columns=("Aim", "Outcome", "Figures"),
        text_columns=3,
        rows=tuple((aim.name, aim.outcome, aim.evidence) for aim in aims),
        note="",
    )


def _finding(met: bool, evidence: str, *, compared: int, wanted: int, certainly_missed: bool = False) -> Finding:
    """Keep a miss that is certain although comparisons are missing; other outcomes become "not run yet"."""
    if compared >= wanted:
        return (Outcome.MET if met else Outcome.MISSED), evidence
    evidence = f"{compared} of {wanted} comparisons are finished. {evidence}"
    return (Outcome.MISSED if certainly_missed else Outcome.NOT_RUN), evidence


# Veil in the paper's settings.


def _paper_settings(rows: Sequence[Row]) -> list[Row]:
    return [
        row
        for row in veil_settings(rows)
        if row.dataset in DATASETS and row.epsilon_x in EPSILON_X and row.epsilon_y in EPSILON_Y
    ]


def _never_below(rows: Sequence[Row]) -> Finding:
    """Judge whether any rival is above Veil beyond noise; a setting is complete if every rival ran in it."""
    complete, below, losses = 0, 0, []
    for veil in _paper_settings(rows):
        found = [(rival, rival.difference(veil, rows)) for rival in RIVALS]
        complete += all(difference is not None for _, difference in found)
        lost = [(rival, each) for rival, each in found if each is not None and each.mean < 0 and each.clear]
        below += bool(lost)
        where = f"{dataset_name(veil.dataset)}, {budget_text(veil)}"
        losses += [f"{rival.title} ({where}): {unbroken(difference)}" for rival, difference in lost]
    if not complete and not below:
        return _NOT_FINISHED
    evidence = f"At or above all of them within noise in {max(complete - below, 0)} of {SETTINGS} settings."
    if losses:
        evidence += f" Veil minus each method that is clearly above it. {'; '.join(losses)}."
    return _finding(not below, evidence, compared=complete, wanted=SETTINGS, certainly_missed=below > 0)


def _gain(rows: Sequence[Row], least: float, largest_epsilon_y: float) -> Finding:
    rival = Opponent(method="rgnn", published=True)
    settings = [veil for veil in _paper_settings(rows) if (veil.epsilon_y or 0.0) <= largest_epsilon_y]
    gains = [each.mean for veil in settings if (each := rival.difference(veil, rows)) is not None]
    if not gains:
        return _NOT_FINISHED
    gain = statistics.mean(gains)
    wanted = len(DATASETS) * len(EPSILON_X) * sum(epsilon_y <= largest_epsilon_y for epsilon_y in EPSILON_Y)
    evidence = (
        f"{signed_points(gain)} points over {len(gains)} settings, from {signed_points(min(gains))} to "
        f"{signed_points(max(gains))}; above in {sum(each > 0 for each in gains)}."
    )
    return _finding(gain >= least, evidence, compared=len(gains), wanted=wanted)


def _no_loss_to_control(rows: Sequence[Row]) -> Finding:
    graphs = datasets_of(rows)
    pairs = {
        dataset: [
            (veil, control)
            for veil in select(rows, dataset=dataset, method=VEIL)
            if (control := counterpart(veil, rows, CONTROL)) is not None and paired(veil, control) is not None
        ]
        for dataset in graphs
    }
    by_graph = {dataset: whole for dataset, own in pairs.items() if (whole := pooled(own)) is not None}
    if not by_graph:
        return _NOT_FINISHED
    single = [each for own in pairs.values() for a, b in own if (each := paired(a, b)) is not None]
    lost = any(each.mean < 0 and each.clear for each in by_graph.values())
    words = "; ".join(f"{dataset_name(dataset)}: {unbroken(each)}" for dataset, each in by_graph.items())
    evidence = (
        f"Mean over the settings of each graph. {words}. Of {len(single)} single settings Veil is clearly above in "
        f"{sum(each.mean > 0 and each.clear for each in single)} and clearly below in "
        f"{sum(each.mean < 0 and each.clear for each in single)}."
    )
    return _finding(not lost, evidence, compared=len(by_graph), wanted=len(graphs), certainly_missed=lost)


# The frontier.


def _published() -> list[PublishedAccuracy]:
    return [each for each in published_accuracies() if each.dataset in DATASETS]


def _every_accuracy_at_half(rows: Sequence[Row]) -> Finding:
    found = prices(rows, _published())
    if not found:
        return _NOT_FINISHED
    worst = max(found, key=lambda price: price.ratio)
    where = f"{dataset_name(worst.published.dataset)}, ε_x = {worst.published.epsilon_x:g}, "
    where += f"ε_y = {worst.published.epsilon_y:g}"
    ratio = "not reached" if math.isinf(worst.ratio) else f"{worst.ratio:.2f}"
    evidence = f"{prices_in_words(found)} The largest ratio of Veil: {ratio} ({where})."
    missed = worst.ratio > HALF
    return _finding(not missed, evidence, compared=len(found), wanted=SETTINGS, certainly_missed=missed)


def _median_at_a_fifth(rows: Sequence[Row]) -> Finding:
    found = prices(rows, _published())
    if not found:
        return _NOT_FINISHED
    middle = statistics.median(price.ratio for price in found)
    cheap = sum(price.ratio <= FIFTH for price in found)
    words = "not reached" if math.isinf(middle) else f"{middle:.2f}"
    evidence = f"Median ratio {words}; at no more than a fifth in {cheap} of {len(found)} settings."
    return _finding(middle <= FIFTH, evidence, compared=len(found), wanted=SETTINGS)


def _label_alone_is_close(rows: Sequence[Row]) -> Finding:
    cases = split_cases([row for row in rows if row.dataset in DATASETS])
    if not cases:
        return _NOT_FINISHED
    close = sum(case.regret <= CLOSE for case in cases)
    return _finding(close >= CLOSE_CASES, splits_in_words(cases), compared=len(cases), wanted=_SPLIT_CASES)


# Private neighbours.


def _reached(rows: Sequence[Row], answer: str, edge_epsilon: float, epsilon_y: float, least: float) -> Finding:
    """Judge an accuracy on Facebook that an answer should reach at an edge epsilon."""
    row = find(rows, dataset="facebook", neighbours=answer, edge_epsilon=edge_epsilon, epsilon_y=epsilon_y)
    if row is None:
        return _NOT_FINISHED
    error = None if row.std is None else row.std / math.sqrt(len(row.accuracies))
    evidence = f"{spread_text(row.mean, error)} (mean ± standard error over {counted(len(row.accuracies), 'seed')})."
    return (Outcome.MET if row.mean >= least else Outcome.MISSED), evidence


_AIMS: tuple[tuple[str, str, Callable[[Sequence[Row]], Finding]], ...] = (
    (
        "Veil is at or above the best of published RGNN and LPGNN, our RGNN and LPGNN, and the control, within noise, "
        f"in all {SETTINGS} settings of Table 2",
        "beyond",
        _never_below,
    ),
    (
        f"Veil's mean gain over the published RGNN is at least {100 * GAIN:g} points",
        "beyond",
        lambda rows: _gain(rows, GAIN, math.inf),
    ),
    (
        f"At ε_y ≤ {SMALL_BUDGET:g} it is at least {100 * GAIN_AT_SMALL_BUDGETS:g} points",
        "beyond",
        lambda rows: _gain(rows, GAIN_AT_SMALL_BUDGETS, SMALL_BUDGET),
    ),
    ("Veil has no clear paired loss to the control on any graph", "beyond", _no_loss_to_control),
    (
        f"The paper's accuracy in each of its {SETTINGS} settings at no more than half of its user-level ε",
        "frontier",
        _every_accuracy_at_half,
    ),
    ("At no more than a fifth of it in the median setting", "frontier", _median_at_a_fifth),
    (
        f"The label alone is within {100 * CLOSE:g} points of the best split in at least {CLOSE_CASES} of "
        f"{_SPLIT_CASES} cases",
        "frontier",
        _label_alone_is_close,
    ),
    (
        "Private neighbours on Facebook, clean labels: at least 82 % at 2 for one entry of a list",
        "private_edges",
        lambda rows: _reached(rows, HISTOGRAM, 2.0, math.inf, 0.82),
    ),
    (
        "At least 88 % at 4 for one entry",
        "private_edges",
        lambda rows: _reached(rows, HISTOGRAM, 4.0, math.inf, 0.88),
    ),
    (
        "At least 82 % at 4 for any two lists",
        "private_edges",
        lambda rows: _reached(rows, CLASS, 4.0, math.inf, 0.82),
    ),
    (
        "Private labels at ε_y = 2: at least 85 % at 4 for one entry",
        "private_edges",
        lambda rows: _reached(rows, HISTOGRAM, 4.0, 2.0, 0.85),
    ),
)
