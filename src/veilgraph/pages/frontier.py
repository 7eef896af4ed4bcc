"""The frontier: accuracy against the total user-level epsilon, what a published accuracy costs, and every split."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from veilgraph.experiments.grid import load_experiment
from veilgraph.experiments.results import Row
from veilgraph.pages.paired_differences import CONTROL, dataset_name, select
from veilgraph.pages.paper_claims import SAMPLED
from veilgraph.pages.result_tables import Sheet, Table, spread_text

LABEL_ALONE = "veil_labels"
DIVIDED = "veil_equal"
PAPER = "rgnn"
CEILING = "non_private"

SPLIT_TOTALS = (1.0, 2.0, 4.0, 8.0, 13.0)
"""Where splits are judged."""
CLOSE = 0.02
"""How much of accuracy a split may lose to the best one."""
HALF = 0.5
FIFTH = 0.2

Curve = list[tuple[float, Row]]
"""Rows by their total, the smallest first."""


def total_of(row: Row) -> float | None:
    """The user-level epsilon (any two records) that was asked for; thresholds are integers and spend a hair less."""
    return None if isinstance(row.epsilon_user_level, str) else round(row.epsilon_user_level, 6)


def curve(rows: Sequence[Row], dataset: str, method: str) -> Curve:
    """One method on one graph."""
    by_total = {total_of(row): row for row in select(rows, dataset=dataset, method=method)}
    return sorted((total, row) for total, row in by_total.items() if total is not None)


def divided_curve(rows: Sequence[Row], dataset: str) -> Curve:
    """The best split of every total that was tried with more than one, the label alone included."""
    return [
        (total, max(shares.values(), key=lambda row: row.mean))
        for total, shares in splits(rows, dataset).items()
        if len(shares) > 1
    ]


def splits(rows: Sequence[Row], dataset: str) -> dict[float, dict[float, Row]]:
    """Rows of Veil by total, then by the share of the label, the largest first."""
    found: dict[float, dict[float, Row]] = {}
    for row in [*select(rows, dataset=dataset, method=LABEL_ALONE), *select(rows, dataset=dataset, method=DIVIDED)]:
        total = total_of(row)
        if total is not None and row.epsilon_y is not None:
            found.setdefault(total, {})[round(row.epsilon_y / total, 4)] = row
    return {total: dict(sorted(shares.items(), reverse=True)) for total, shares in sorted(found.items())}


# What a published accuracy costs.


@dataclass(frozen=True, kw_only=True)
class Published:
    """An accuracy of RGNN in the paper, with what it really costs.

    Attributes:
        dataset: its name.
        epsilon_x: of each sampled feature.
        epsilon_y: of the label.
        mean: accuracy, a share of 1.
        std: likewise.
    """

    dataset: str
    epsilon_x: float
    epsilon_y: float
    mean: float
    std: float

    @property
    def epsilon(self) -> float:
        """At user level, any two records: m epsilon_x + epsilon_y.

        >>> Published(dataset="cora", epsilon_x=0.1, epsilon_y=3.0, mean=0.77, std=0.015).epsilon
        4.0
        """
        return SAMPLED * self.epsilon_x + self.epsilon_y


def published_accuracies() -> list[Published]:
    """RGNN in Table 2 of the paper."""
    return [
        Published(
            dataset=row["dataset"],
            epsilon_x=row["epsilon_x"],
            epsilon_y=row["epsilon_y"],
            mean=row["mean"] / 100,
            std=row["std"] / 100,
        )
        for row in load_experiment("table2").published
        if row["method"] == PAPER
    ]


@dataclass(frozen=True, kw_only=True)
class Needed:
    """The total epsilon at which a curve reaches an accuracy.

    Attributes:
        epsilon: interpolated; where the smallest measured total suffices, that one.
        measured: the smallest measured total that reaches it.
        at_most: whether the smallest measured total suffices, so that less may do.
    """

    epsilon: float
    measured: float
    at_most: bool

    def __str__(self) -> str:
        # Rounded up, as every epsilon; what is below a millionth is rounding of logarithms.
        text = f"{math.ceil(100 * self.epsilon - 1e-6) / 100:.2f}"
        return f"≤ {text}" if self.at_most else text


def epsilon_needed(points: Sequence[tuple[float, float]], accuracy: float) -> Needed | None:
    """Where the running maximum of a curve reaches an accuracy, on a line between measured points over log epsilon.

    Args:
        points: total epsilon and mean accuracy, by rising epsilon.
        accuracy: to be reached.

    >>> epsilon_needed([(1.0, 0.5), (4.0, 0.7)], 0.6)
    Needed(epsilon=2.0, measured=4.0, at_most=False)
    >>> str(epsilon_needed([(1.0, 0.5), (4.0, 0.7)], 0.4)), epsilon_needed([(1.0, 0.5)], 0.6)
    ('≤ 1.00', None)
    """
    before: tuple[float, float] | None = None
    for epsilon, mean in points:
        if mean >= accuracy:
            if before is None:
                return Needed(epsilon=epsilon, measured=epsilon, at_most=True)
            low, top = before
            share = (accuracy - top) / (mean - top)
            return Needed(epsilon=low * (epsilon / low) ** share, measured=epsilon, at_most=False)
        before = (epsilon, mean if before is None else max(mean, before[1]))
    return None


@dataclass(frozen=True, kw_only=True)
class Price:
    """What one published accuracy costs.

    Attributes:
        published: the accuracy.
        veil: what Veil needs, with the label alone; None where no measured total reaches it.
        control: likewise, the structure-only control.
    """

    published: Published
    veil: Needed | None
    control: Needed | None

    @property
    def ratio(self) -> float:
        """What Veil needs, of what the paper spends; infinite where it is not reached."""
        return _ratio(self.veil, self.published)

    @property
    def measured_ratio(self) -> float:
        """Likewise without interpolation."""
        return math.inf if self.veil is None else self.veil.measured / self.published.epsilon

    @property
    def control_ratio(self) -> float:
        """What the control needs, of what the paper spends."""
        return _ratio(self.control, self.published)


def _ratio(needed: Needed | None, published: Published) -> float:
    return math.inf if needed is None else needed.epsilon / published.epsilon


def prices(rows: Sequence[Row], published: Sequence[Published]) -> list[Price]:
    """Of every published accuracy on a graph that Veil ran on."""
    return [
        Price(
            published=each,
            veil=epsilon_needed(_means(veil), each.mean),
            control=epsilon_needed(_means(curve(rows, each.dataset, CONTROL)), each.mean),
        )
        for each in published
        if (veil := curve(rows, each.dataset, LABEL_ALONE))
    ]


def _means(points: Curve) -> list[tuple[float, float]]:
    return [(total, row.mean) for total, row in points]


def prices_in_words(found: Sequence[Price]) -> str:
    """How many are reached, at how little, and how much of that is the method's."""
    reached = sum(each.veil is not None for each in found)
    return (
        f"Veil with the label alone reaches {reached} of {len(found)} published accuracies, "
        f"{_within([each.ratio for each in found])} "
        f"Counting measured totals only, without interpolation: {_within([each.measured_ratio for each in found])} "
        f"The control: {_within([each.control_ratio for each in found])}"
    )


def _within(ratios: Sequence[float]) -> str:
    middle = statistics.median(ratios)
    words = "not reached" if math.isinf(middle) else f"{middle:.2f}"
    return f"{sum(each <= HALF for each in ratios)} at no more than half of the paper's ε, median ratio {words}."


def price_sheet(rows: Sequence[Row], published: Sequence[Published]) -> Sheet | None:
    """The table "Epsilon needed for the paper's accuracy"."""
    found = prices(rows, published)
    if not found:
        return None
    table = Table(
        title="Epsilon needed for the paper's accuracy",
        columns=(
            "Data set",
            "ε_x",
            "ε_y",
            "Published RGNN",
            "Its ε",
            "ε of Veil",
            "Ratio",
            "Measured ε of Veil",
            "ε of the control",
        ),
        words=1,
        rows=tuple(_price_text(each) for each in found),
        note=(
            f"{prices_in_words(found)} Every ε is at user level and holds for any two records; the paper's is "
            "m ε_x + ε_y. That of Veil, with the label alone, and of the control is where the mean over seeds, as the "
            "running maximum over totals, reaches the published accuracy, interpolated over log ε and rounded up; ≤ "
            "where the smallest total that was run suffices. Measured: the smallest total that was run and reaches it."
        ),
    )
    return Sheet(name="frontier-epsilon", table=table, records=tuple(_price_record(each) for each in found))


def _price_text(price: Price) -> tuple[str, ...]:
    published = price.published
    return (
        dataset_name(published.dataset),
        f"{published.epsilon_x:g}",
        f"{published.epsilon_y:g}",
        spread_text(published.mean, published.std),
        f"{published.epsilon:g}",
        "not reached" if price.veil is None else str(price.veil),
        "–" if price.veil is None else f"{'≤ ' if price.veil.at_most else ''}{price.ratio:.3f}",
        "–" if price.veil is None else f"{price.veil.measured:g}",
        "not reached" if price.control is None else str(price.control),
    )


def _price_record(price: Price) -> dict[str, object]:
    veil, published = price.veil, price.published
    return {
        "dataset": published.dataset,
        "epsilon_x": published.epsilon_x,
        "epsilon_y": published.epsilon_y,
        "published_mean": published.mean,
        "published_std": published.std,
        "published_epsilon_user_level": published.epsilon,
        "veil_epsilon": None if veil is None else veil.epsilon,
        "veil_epsilon_is_a_bound": None if veil is None else {True: "yes", False: "no"}[veil.at_most],
        "ratio": None if veil is None else price.ratio,
        "veil_smallest_measured_epsilon": None if veil is None else veil.measured,
        "control_epsilon": None if price.control is None else price.control.epsilon,
    }


# Every split.


@dataclass(frozen=True, kw_only=True)
class SplitCase:
    """One total on one graph.

    Attributes:
        dataset: its name.
        total: user-level epsilon, any two records.
        by_share: rows of Veil by the share of the label.
    """

    dataset: str
    total: float
    by_share: dict[float, Row]

    @property
    def best_share(self) -> float:
        """The share with the highest mean; of equals the largest."""
        return max(self.by_share, key=lambda share: (self.by_share[share].mean, share))

    @property
    def regret(self) -> float:
        """What the label alone loses to the best split."""
        return self.by_share[self.best_share].mean - self.by_share[1.0].mean


def split_cases(rows: Sequence[Row]) -> list[SplitCase]:
    """Where the label alone and at least one other split are finished."""
    return [
        SplitCase(dataset=dataset, total=total, by_share=shares)
        for dataset in dict.fromkeys(row.dataset for row in rows)
        for total, shares in splits(rows, dataset).items()
        if total in SPLIT_TOTALS and 1.0 in shares and len(shares) > 1
    ]


def splits_in_words(cases: Sequence[SplitCase]) -> str:
    """How often the label alone is close to the best, and where it is furthest from it."""
    worst = max(cases, key=lambda case: case.regret)
    where = f" ({dataset_name(worst.dataset)} at {worst.total:g})" if worst.regret > 0 else ""
    return (
        f"The label alone is within {100 * CLOSE:g} points of the best split in "
        f"{sum(case.regret <= CLOSE for case in cases)} of {len(cases)} cases; its largest regret is "
        f"{100 * worst.regret:.1f} points{where}."
    )


def split_sheet(rows: Sequence[Row]) -> Sheet | None:
    """The table "Splits"."""
    cases = split_cases(rows)
    if not cases:
        return None
    shares = sorted({share for case in cases for share in case.by_share}, reverse=True)
    table = Table(
        title="Splits",
        columns=(
            "Data set",
            "Total ε",
            *("Label alone" if share == 1 else f"Label {100 * share:g} %" for share in shares),
            "Best",
            "Regret of the label alone",
        ),
        words=1,
        rows=tuple(_split_text(case, shares) for case in cases),
        note=(
            f"{splits_in_words(cases)} Accuracy of Veil in percent: mean ± standard deviation over seeds. The total is "
            "at user level and holds for any two records; what the label does not get goes to features, by the joint "
            "GRR with the least variance. The best split is picked by its accuracy on these very seeds, which no "
            "planner can do, so the regret is rather too large than too small."
        ),
    )
    return Sheet(name="frontier-splits", table=table, records=tuple(_split_record(case, shares) for case in cases))


def _split_text(case: SplitCase, shares: Sequence[float]) -> tuple[str, ...]:
    rows = [case.by_share.get(share) for share in shares]
    return (
        dataset_name(case.dataset),
        f"{case.total:g}",
        *("–" if row is None else spread_text(row.mean, row.std) for row in rows),
        "label alone" if case.best_share == 1 else f"{100 * case.best_share:g} %",
        f"{100 * case.regret:.1f}",
    )


def _split_record(case: SplitCase, shares: Sequence[float]) -> dict[str, object]:
    rows = {share: case.by_share.get(share) for share in shares}
    return {
        "dataset": case.dataset,
        "total_epsilon": case.total,
        **{f"label_share_{share:g}": None if row is None else row.mean for share, row in rows.items()},
        "best_label_share": case.best_share,
        "regret": case.regret,
    }


# The ceiling.


def ceiling_in_words(rows: Sequence[Row]) -> str:
    """Where the non-private GNN is not a ceiling at all; "" where there is none."""
    passed, compared = [], 0
    for dataset in dict.fromkeys(row.dataset for row in rows):
        ceilings, veil = select(rows, dataset=dataset, method=CEILING), curve(rows, dataset, LABEL_ALONE)
        if not ceilings or not veil:
            continue
        compared += 1
        above = next((total for total, row in veil if row.mean > ceilings[0].mean), None)
        if above is not None:
            passed.append(f"{dataset_name(dataset)} from {above:g}")
    if not passed:
        return ""
    return (
        f"The non-private GNN is not a ceiling: Veil with the label alone is above it on {len(passed)} of {compared} "
        f"graphs ({', '.join(passed)}). That GNN reads the merged columns with default settings and never the labels "
        "of neighbours, which Veil does."
    )
