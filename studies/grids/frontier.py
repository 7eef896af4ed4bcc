"""The frontier: accuracy against total user-level epsilon, the epsilon of a published accuracy, and every split."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from studies.grids.claims import SAMPLED
from studies.grids.sheets import Sheet
from veilgraph.errors import MissingExtraError
from veilgraph.experiments.grid import load_experiment
from veilgraph.experiments.results import Row
from veilgraph.pages.epsilon_axis import EPSILON_AXIS, Band, draw_band, draw_epsilon_axis, draw_level, in_words
from veilgraph.pages.formatting import spread_text
from veilgraph.pages.paired_differences import CONTROL, datasets_of, find, select
from veilgraph.pages.rendering import Panel, colour, file_name
from veilgraph.pages.result_tables import Table, dataset_name, yes_or_no

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError:
    raise MissingExtraError("matplotlib", "lab") from None

LABEL_ALONE = "veil_labels"
DIVIDED = "veil_equal"
PAPER = "rgnn"
CEILING = "non_private"

SPLIT_TOTALS = (1.0, 2.0, 4.0, 8.0, 13.0)
"""Totals at which splits are compared."""
CLOSE = 0.02
"""Largest loss of accuracy to the best split that counts as close."""
HALF = 0.5

Curve = list[tuple[float, Row]]
"""Pairs of total epsilon and row, by rising total."""


def total_of(row: Row) -> float | None:
    """Return the requested user-level epsilon (any two records); None if not private.

    Rounding undoes the integer thresholds of the mechanisms, which spend slightly less.
    """
    return None if isinstance(row.epsilon_user_level, str) else round(row.epsilon_user_level, 6)


def curve(rows: Sequence[Row], dataset: str, method: str) -> Curve:
    """Return the rows of one method on one data set, by total epsilon."""
    by_total = {total_of(row): row for row in select(rows, dataset=dataset, method=method)}
    return sorted((total, row) for total, row in by_total.items() if total is not None)


def divided_curve(rows: Sequence[Row], dataset: str) -> Curve:
    """Return the best split at every total with more than one split; the label alone counts as a split."""
    return [
        (total, max(shares.values(), key=lambda row: row.mean))
        for total, shares in splits(rows, dataset).items()
        if len(shares) > 1
    ]


def splits(rows: Sequence[Row], dataset: str) -> dict[float, dict[float, Row]]:
    """Return the rows of Veil by total epsilon, then by the share of the label, the largest first."""
    found: dict[float, dict[float, Row]] = {}
    for row in [*select(rows, dataset=dataset, method=LABEL_ALONE), *select(rows, dataset=dataset, method=DIVIDED)]:
        total = total_of(row)
        if total is not None and row.epsilon_y is not None:
            found.setdefault(total, {})[round(row.epsilon_y / total, 4)] = row
    return {total: dict(sorted(shares.items(), reverse=True)) for total, shares in sorted(found.items())}


# Epsilon needed for a published accuracy.


@dataclass(frozen=True, kw_only=True)
class PublishedAccuracy:
    """An accuracy of RGNN in the paper, with its exact user-level epsilon.

    Attributes:
        dataset: key of the data set.
        epsilon_x: budget of each sampled feature.
        epsilon_y: budget of the label.
        mean: mean accuracy, a share of 1.
        std: standard deviation, a share of 1.
    """

    dataset: str
    epsilon_x: float
    epsilon_y: float
    mean: float
    std: float

    @property
    def epsilon(self) -> float:
        """User-level epsilon for any two records: m epsilon_x + epsilon_y.

        >>> PublishedAccuracy(dataset="cora", epsilon_x=0.1, epsilon_y=3.0, mean=0.77, std=0.015).epsilon
        4.0
        """
        return SAMPLED * self.epsilon_x + self.epsilon_y


@cache
def published_accuracies() -> tuple[PublishedAccuracy, ...]:
    """Return the accuracies of RGNN in Table 2 of the paper."""
    return tuple(
        PublishedAccuracy(
            dataset=row["dataset"],
            epsilon_x=row["epsilon_x"],
            epsilon_y=row["epsilon_y"],
            mean=row["mean"] / 100,
            std=row["std"] / 100,
        )
        for row in load_experiment("table2").published
        if row["method"] == PAPER
    )


@dataclass(frozen=True, kw_only=True)
class NeededEpsilon:
    """The total epsilon at which a curve reaches an accuracy.

    Attributes:
        epsilon: interpolated total; the smallest measured total where that one suffices.
        measured: smallest measured total that reaches the accuracy.
        at_most: whether the smallest measured total suffices, so that `epsilon` is an upper bound.
    """

    epsilon: float
    measured: float
    at_most: bool

    def __str__(self) -> str:
        # Rounded up, as every epsilon; a part below 1e-6 is rounding of logarithms.
        text = f"{math.ceil(100 * self.epsilon - 1e-6) / 100:.2f}"
        return f"≤ {text}" if self.at_most else text


def epsilon_needed(points: Sequence[tuple[float, float]], accuracy: float) -> NeededEpsilon | None:
    """Return the epsilon at which the running maximum of a curve reaches an accuracy, or None.

    Between measured points, accuracy is interpolated linearly over log epsilon.

    Args:
        points: total epsilon and mean accuracy, by rising epsilon.
        accuracy: accuracy to reach.

    >>> epsilon_needed([(1.0, 0.5), (4.0, 0.7)], 0.6)
    NeededEpsilon(epsilon=2.0, measured=4.0, at_most=False)
    >>> str(epsilon_needed([(1.0, 0.5), (4.0, 0.7)], 0.4)), epsilon_needed([(1.0, 0.5)], 0.6)
    ('≤ 1.00', None)
    """
    before: tuple[float, float] | None = None
    for epsilon, mean in points:
        if mean >= accuracy:
            if before is None:
                return NeededEpsilon(epsilon=epsilon, measured=epsilon, at_most=True)
            low, top = before
            share = (accuracy - top) / (mean - top)
            return NeededEpsilon(epsilon=low * (epsilon / low) ** share, measured=epsilon, at_most=False)
        before = (epsilon, mean if before is None else max(mean, before[1]))
    return None


@dataclass(frozen=True, kw_only=True)
class Price:
    """Epsilon that Veil and the control need for one published accuracy.

    Attributes:
        published: published accuracy.
        veil: epsilon that Veil needs with the label alone; None where no measured total reaches the accuracy.
        control: epsilon that the structure-only control needs, or None.
    """

    published: PublishedAccuracy
    veil: NeededEpsilon | None
    control: NeededEpsilon | None

    @property
    def ratio(self) -> float:
        """Epsilon of Veil divided by that of the paper; infinite where Veil does not reach the accuracy."""
        return _ratio(self.veil, self.published)

    @property
    def measured_ratio(self) -> float:
        """Smallest measured epsilon of Veil divided by that of the paper, without interpolation."""
        return math.inf if self.veil is None else self.veil.measured / self.published.epsilon

    @property
    def control_ratio(self) -> float:
        """Epsilon of the control divided by that of the paper."""
        return _ratio(self.control, self.published)


def _ratio(needed: NeededEpsilon | None, published: PublishedAccuracy) -> float:
    return math.inf if needed is None else needed.epsilon / published.epsilon


def prices(rows: Sequence[Row], published: Sequence[PublishedAccuracy]) -> list[Price]:
    """Return the price of every published accuracy on a data set that Veil ran on."""
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
    """Return in words how many published accuracies are reached, and at which share of the paper's epsilon."""
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


def price_sheet(rows: Sequence[Row], published: Sequence[PublishedAccuracy]) -> Sheet | None:
    """Return the table "Epsilon needed for the paper's accuracy", or None."""
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
        text_columns=1,
        rows=tuple(_price_text(each) for each in found),
        note=(
            f"{prices_in_words(found)} Every ε is at user level and holds for any two records; the paper's is "
            "m ε_x + ε_y. The ε of Veil, with the label alone, and of the control is the total at which the running "
            "maximum of the mean accuracy reaches the published one. It is interpolated over log ε and rounded up; ≤ "
            "means that the smallest total that was run suffices. Measured ε: the smallest total that was run and "
            "reaches the published accuracy."
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
        "veil_epsilon_is_a_bound": None if veil is None else yes_or_no(veil.at_most),
        "ratio": None if veil is None else price.ratio,
        "veil_smallest_measured_epsilon": None if veil is None else veil.measured,
        "control_epsilon": None if price.control is None else price.control.epsilon,
    }


# Splits of the total between label and features.


@dataclass(frozen=True, kw_only=True)
class SplitCase:
    """All splits of one total on one data set.

    Attributes:
        dataset: key of the data set.
        total: user-level epsilon, any two records.
        by_share: rows of Veil by the share of the label.
    """

    dataset: str
    total: float
    by_share: dict[float, Row]

    @property
    def best_share(self) -> float:
        """Share with the highest mean; the largest one among equals."""
        return max(self.by_share, key=lambda share: (self.by_share[share].mean, share))

    @property
    def regret(self) -> float:
        """Accuracy that the label alone loses to the best split."""
        return self.by_share[self.best_share].mean - self.by_share[1.0].mean


def split_cases(rows: Sequence[Row]) -> list[SplitCase]:
    """Return the cases in which the label alone and at least one other split are finished."""
    return [
        SplitCase(dataset=dataset, total=total, by_share=shares)
        for dataset in datasets_of(rows)
        for total, shares in splits(rows, dataset).items()
        if total in SPLIT_TOTALS and 1.0 in shares and len(shares) > 1
    ]


def splits_in_words(cases: Sequence[SplitCase]) -> str:
    """Return in words how often the label alone is close to the best split, and its largest regret."""
    worst = max(cases, key=lambda case: case.regret)
    where = f" ({dataset_name(worst.dataset)} at {worst.total:g})" if worst.regret > 0 else ""
    return (
        f"The label alone is within {100 * CLOSE:g} points of the best split in "
        f"{sum(case.regret <= CLOSE for case in cases)} of {len(cases)} cases; its largest regret is "
        f"{100 * worst.regret:.1f} points{where}."
    )


def split_sheet(rows: Sequence[Row]) -> Sheet | None:
    """Return the table "Splits", or None."""
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
        text_columns=1,
        rows=tuple(_split_text(case, shares) for case in cases),
        note=(
            f"{splits_in_words(cases)} Accuracy of Veil in percent: mean ± standard deviation over seeds. The total is "
            "at user level and holds for any two records; the rest of it goes to features, by the joint GRR with the "
            "least variance. The best split is chosen by its accuracy on these very seeds, which no planner can do, "
            "so the regret tends to be too large."
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
    """Return in words where Veil is above the non-private GNN; "" where it is nowhere."""
    passed, compared = [], 0
    for dataset in datasets_of(rows):
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
        "of neighbours, which Veil reads."
    )


# Figures.

_WIDTH = 336
_TICKS = (0.25, 0.5, 1, 2, 4, 8, 16)
_VEIL_LABEL, _DIVIDED_LABEL, _CONTROL_LABEL = "Veil, label alone", "Veil, best split", "control"
_PAPER_LABEL, _PUBLISHED_LABEL, _CEILING_LABEL = "RGNN, paper's split", "RGNN, published", "not private"
_LEGEND = (_VEIL_LABEL, _DIVIDED_LABEL, _CONTROL_LABEL, _PAPER_LABEL, _PUBLISHED_LABEL, _CEILING_LABEL)
_OVERVIEW_COLUMNS = 3


def _bands(rows: Sequence[Row], dataset: str) -> list[Band]:
    """Return the curves that have rows, the most important one last so that it is drawn on top."""
    bands = [
        Band(label=_PAPER_LABEL, points=curve(rows, dataset, PAPER), colour="rgnn", marker="s"),
        Band(label=_CONTROL_LABEL, points=curve(rows, dataset, CONTROL), colour=CONTROL, marker="D", line=(0, (4, 2))),
        Band(
            label=_DIVIDED_LABEL,
            points=divided_curve(rows, dataset),
            colour="veil",
            marker="",
            line=(0, (1, 2)),
            strength=0.6,
        ),
        Band(label=_VEIL_LABEL, points=curve(rows, dataset, LABEL_ALONE), colour="veil", marker="o"),
    ]
    return [band for band in bands if band.points]


def _datasets(rows: Sequence[Row]) -> list[str]:
    return [dataset for dataset in datasets_of(rows) if curve(rows, dataset, LABEL_ALONE)]


def frontier_panels(rows: Sequence[Row], published: Sequence[PublishedAccuracy]) -> list[Panel]:
    """Draw one panel for each data set that Veil ran on.

    Args:
        rows: results of the frontier.
        published: accuracies of the paper, drawn at their exact user-level epsilon.
    """
    return [_panel(rows, dataset, published) for dataset in _datasets(rows)]


def _panel(rows: Sequence[Row], dataset: str, published: Sequence[PublishedAccuracy]) -> Panel:
    def paint(figure: Figure) -> None:
        axes = figure.add_axes((0.1, 0.135, 0.885, 0.7))
        _draw(axes, rows, dataset, published)
        axes.set_xlabel(EPSILON_AXIS, color=colour("muted"))
        _legend(figure, axes, columns=2, size=10, anchor=(0.0, 1.0))

    name, title = file_name("frontier", dataset), dataset_name(dataset)
    label = f"{title}. {_spoken(rows, dataset, published)}"
    return Panel(name=name, title=title, paint=paint, width=_WIDTH, height=310, label=label)


def frontier_overview(rows: Sequence[Row], published: Sequence[PublishedAccuracy]) -> Panel | None:
    """Draw all data sets side by side in one figure for a wide page, or return None."""
    datasets = _datasets(rows)
    if not datasets:
        return None
    columns = min(_OVERVIEW_COLUMNS, len(datasets))
    lines = -(-len(datasets) // columns)
    pitch, head, foot = 214, 42, 20
    width, height = 320 * columns, head + pitch * lines + foot

    def paint(figure: Figure) -> None:
        axes = None
        for place, dataset in enumerate(datasets):
            line, column = divmod(place, columns)
            left, bottom = 30 + width / columns * column, height - head - pitch * (line + 1) + 30
            box = (left / width, bottom / height, (width / columns - 42) / width, (pitch - 54) / height)
            axes = figure.add_axes(box)
            _draw(axes, rows, dataset, published)
            axes.set_title(dataset_name(dataset), loc="left", fontsize=13, weight="bold", pad=6)
        if axes is not None:
            _legend(figure, axes, columns=6 if columns > 2 else columns, size=12, anchor=(8 / width, 1 - 2 / height))
        figure.text(0.5, 6 / height, f"Accuracy in percent over the {EPSILON_AXIS}", ha="center", color=colour("muted"))

    spoken = " ".join(f"{dataset_name(d)}. {_spoken(rows, d, published)}" for d in datasets)
    return Panel(name="frontier", title="The frontier", paint=paint, width=width, height=height, label=spoken)


def _draw(axes: Axes, rows: Sequence[Row], dataset: str, published: Sequence[PublishedAccuracy]) -> None:
    for band in _bands(rows, dataset):
        draw_band(axes, band)
    if ceiling := find(rows, dataset=dataset, method=CEILING):
        draw_level(axes, ceiling.mean, label=_CEILING_LABEL, paint=CEILING)
    own = [each for each in published if each.dataset == dataset]
    if own:
        axes.plot(
            [each.epsilon for each in own],
            [100 * each.mean for each in own],
            "D",
            color=colour("card"),
            markeredgecolor=colour("rgnn"),
            markeredgewidth=1.3,
            markersize=5.5,
            label=_PUBLISHED_LABEL,
            zorder=4,
        )
    draw_epsilon_axis(axes, _TICKS)


def _legend(figure: Figure, axes: Axes, *, columns: int, size: float, anchor: tuple[float, float]) -> None:
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda place: _LEGEND.index(labels[place]))
    figure.legend(
        [handles[place] for place in order],
        [labels[place] for place in order],
        loc="upper left",
        bbox_to_anchor=anchor,
        ncols=columns,
        frameon=False,
        fontsize=size,
        handlelength=2.0,
        handletextpad=0.5,
        columnspacing=1.2,
        borderpad=0.1,
        borderaxespad=0.1,
    )


def _spoken(rows: Sequence[Row], dataset: str, published: Sequence[PublishedAccuracy]) -> str:
    """Return the text of the figure for screen readers."""
    lines = [in_words(band) for band in reversed(_bands(rows, dataset))]
    if own := [each for each in published if each.dataset == dataset]:
        lines.append(f"{_PUBLISHED_LABEL}: " + ", ".join(f"{each.epsilon:g}: {100 * each.mean:.1f}" for each in own))
    ceiling = find(rows, dataset=dataset, method=CEILING)
    beside = "" if ceiling is None else f" Not private: {100 * ceiling.mean:.1f}."
    return f"Accuracy in percent over the {EPSILON_AXIS}. {'; '.join(lines)}.{beside}"
