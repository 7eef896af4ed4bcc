r"""Answers about groups: the share of each class among all people, and in each value of a public column.

With n of N people of a group, d_v the unbiased estimate of whether person v has the class, and p_v what a model
predicts without the report of v, the difference estimator is

.. math:: \hat\theta = \frac{1}{N} \sum_{v} p_v + \frac{1}{n} \sum_{v \in L} (d_v - p_v),
    \qquad d_v = \frac{1[x \in y'_v] - q}{p - q}

Without a model p_v is constant, and the estimate is the mean of d_v: it comes from the reports alone. A model does not
change what randomization adds to the error. It narrows what the chance of who reports adds, by the part u of the
variance inside of groups that it leaves unexplained. Intervals are those of `veilgraph.privacy.share_interval`.

For all people, groups count with their people and not with their reports (post-stratification).

Everything is about the people of the table, all N of them, if inside of each group those who reported are like those
who did not. Without this assumption it is about those who reported; that interval stands beside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from veilgraph.errors import RunError
from veilgraph.graph import PerturbedGraph
from veilgraph.graph.attribute_kinds import Groups, PublicAttribute
from veilgraph.models import Veil
from veilgraph.models.base import Method
from veilgraph.models.veil.contamination import Contamination
from veilgraph.privacy.estimate import LEVEL, Estimate
from veilgraph.privacy.frequency import estimate_frequencies, reports_needed
from veilgraph.privacy.mechanisms.channel import SymmetricChannel
from veilgraph.privacy.share_interval import share_intervals

EMPTY = "(empty)"
"""Name of the group of people whose value is missing."""

HALF_WIDTH = 0.25
"""Half-width that an interval has at most: there is no statement about a group with fewer reports than that needs."""

_FEWEST = 10
"""Reports that a group has at least, whatever the level: to be stated, and to be weighted on its own among all."""

_WORTH = 0.98
"""A model is used where it is expected to make an interval this much narrower, or more."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """The share of the people of a group who have a class.

    Attributes:
        group: name of the group; None for all people.
        name: name of the class.
        people: number of people of the group, N.
        reports: number of those who reported, n.
        value: the estimate.
        low: lower end of its interval.
        high: upper end of its interval.
        low_together: lower end of the interval that holds together with all others.
        high_together: upper end of that interval.
        low_reporters: lower end of the interval of the share among those who reported.
        high_reporters: upper end of that interval.
        assisted: whether predictions of a model narrow the interval.
    """

    group: str | None
    name: str
    people: int
    reports: int
    value: float
    low: float
    high: float
    low_together: float
    high_together: float
    low_reporters: float
    high_reporters: float
    assisted: bool

    @property
    def estimate(self) -> Estimate:
        """The share with its interval."""
        return Estimate(value=self.value, low=self.low, high=self.high, reports=self.reports)


@dataclass(frozen=True, kw_only=True)
class GroupShares:
    """Shares of all classes in all groups.

    Attributes:
        column: public column that makes the groups; None if there are none.
        level: level of each interval, and of all `together` ones at once.
        fewest: number of reports below which there is no statement.
        statements: number of intervals that hold together; with two classes, a group has one statement.
        people: number of people.
        reports: number of label reports.
        shares: the shares: all people first, then group by group.
        unstated: number of groups with too few reports; how many each of them has would say who reported.
    """

    column: str | None
    level: float
    fewest: int
    statements: int
    people: int
    reports: int
    shares: tuple[Share, ...]
    unstated: int

    @property
    def table(self) -> pd.DataFrame:
        """One row for each share, with the fields of `Share`; the group of all people is empty."""
        return pd.DataFrame([asdict(share) for share in self.shares], columns=[each.name for each in fields(Share)])

    @property
    def told(self) -> tuple[Share, ...]:
        """The shares without those of the first of two classes, which are the rest."""
        names = dict.fromkeys(share.name for share in self.shares)
        return tuple(share for share in self.shares if len(names) != 2 or share.name != next(iter(names)))

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> GroupShares:
        """Return the shares that `document` has."""
        shares = tuple(Share(**each) for each in document["shares"])
        return cls(**{**document, "shares": shares})

    @property
    def document(self) -> dict[str, Any]:
        """The shares as JSON-ready values."""
        return asdict(self)


def estimate_shares(
    perturbed: PerturbedGraph,
    by: PublicAttribute | None = None,
    *,
    predictions: NDArray[Any] | None = None,
    contamination: Contamination | None = None,
    level: float = LEVEL,
    half_width: float = HALF_WIDTH,
) -> GroupShares:
    """Estimate the share of each class among all people and in each group, with intervals.

    Whether the model is used is decided before the outcome of a group is seen: by the numbers of people and reports,
    by the predictions, and by how well they agree with all reports together.

    Args:
        perturbed: the reports on the graph.
        by: public column whose values are the groups; None: all people alone.
        predictions: class probabilities of everybody, each without the person's own report, [nodes, classes], as
            `Method.predict_without_own_report` returns them; None: from the reports alone.
        contamination: label reports that were not randomized, as a model found them; None takes every report as
            randomized. Their share is taken as known, and as the same in every group.
        level: level of the intervals.
        half_width: widest interval of a statement, on each side. It is taken at `level`, or at 95 % if that is more.
            Nothing is stated about fewer than 10 reports.

    >>> from veilgraph.graph import Graph
    >>> from veilgraph.privacy.mechanisms import GRR
    >>> from veilgraph.privacy.schema import FeatureSchema
    >>> answers = np.arange(200) % 4 == 0
    >>> reports = PerturbedGraph(graph=Graph.without_edges(200), schema=FeatureSchema(classes=("no", "yes")),
    ...     features=np.zeros((200, 0)), labels=answers.astype(np.int64), has_features=np.zeros(200, dtype=bool),
    ...     has_label=np.arange(200) < 100, feature_mechanism=None, label_mechanism=GRR(2, float("inf")))
    >>> no, yes = estimate_shares(reports).shares
    >>> yes.name, yes.value, round(yes.low, 2), round(yes.high, 2), yes.low_reporters
    ('yes', 0.25, 0.19, 0.31, 0.25)
    """
    if not 0 < level < 1:
        raise RunError(f"the level is {level}: it must be above 0 and below 1, for example 0.9")
    if not perturbed.has_label.any():
        raise RunError("there are no label reports: wait until people have answered")
    groups = _groups(by, perturbed.graph.num_nodes)
    channels = _channels(perturbed, contamination)
    counted = _Counted.of(perturbed, groups, predictions, channels)
    quantile = _quantile(1 - level)
    strict = min(1 - level, 1 - LEVEL)  # a lower level is no way to smaller groups
    needed = [reports_needed(channel, half_width, quantile=_quantile(strict)) for channel in channels]
    fewest = max(_FEWEST, *needed)
    whole = counted.post_stratified()
    rows: list[tuple[str | None, _Rows, int]] = [(None, whole, 0)]
    if by is not None:
        rows += [(name, counted, row) for row, name in enumerate(groups.names)]
    stated = [(name, of, row) for name, of, row in rows if of.reports[row] >= fewest]
    classes = perturbed.schema.classes
    statements = len(stated) * (1 if len(classes) == 2 else len(classes))
    quantiles = quantile, _quantile((1 - level) / max(statements, 1))
    found = [
        _share(name, classes[code], of, (row, code), channels[code], quantiles)
        for name, of, row in stated
        for code in range(len(classes))
    ]
    return GroupShares(
        column=None if by is None else by.name,
        level=level,
        fewest=fewest,
        statements=statements,
        people=int(whole.people[0]),
        reports=int(whole.reports[0]),
        shares=tuple(found),
        unstated=0 if by is None else len(rows) - max(len(stated), 1),
    )


def shares_of(
    method: Method, perturbed: PerturbedGraph, by: PublicAttribute | None = None, *, level: float = LEVEL
) -> GroupShares:
    """Estimate shares with the predictions of a method that was fitted to the reports; see `estimate_shares`."""
    return estimate_shares(
        perturbed,
        by,
        predictions=method.predict_without_own_report(perturbed),
        contamination=method.contamination_ if isinstance(method, Veil) else None,
        level=level,
    )


def _groups(by: PublicAttribute | None, nodes: int) -> Groups:
    """Return the groups of a public column; people whose value is missing are a group of their own."""
    if by is None:
        return Groups(np.zeros(nodes, dtype=np.int64), ("",))
    codes, names = by.groups()
    if not (missing := codes < 0).any():
        return Groups(codes, names)
    return Groups(np.where(missing, len(names), codes), (*names, EMPTY))


def _channels(perturbed: PerturbedGraph, contamination: Contamination | None) -> list[SymmetricChannel]:
    """Return the channel of each class, with the reports that name it without randomization."""
    channel = perturbed.label_mechanism.channel
    if contamination is None:
        return [channel] * channel.domain_size
    lies = Fraction(contamination.share)
    named = [lies * Fraction(share) for share in contamination.named_shares]
    return [
        replace(channel, keep=(1 - lies) * channel.keep + each, other=(1 - lies) * channel.other + each)
        for each in named
    ]


def _quantile(outside: float) -> float:
    """Return the number of standard errors beyond which a normal variable is with this probability."""
    return NormalDist().inv_cdf(1 - outside / 2)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rows:
    """What is counted of every group: rows are groups, columns are classes.

    Attributes:
        people: number of people, N, [groups].
        reports: number of reports, n, [groups].
        weight: number of reports that count equally and say as much, at most n, [groups].
        unseen: part of the variance between people that is due to who reports, (N - n) / (N - 1), [groups].
        named: share of the reports that name a class, [groups, classes].
        predicted: mean prediction for all people, [groups, classes]; 0 without a model.
        shift: mean prediction for all people less the one for those who reported, [groups, classes]; 0 without a model.
        unexplained: part of the variance between people that predictions leave, [classes]; 1 without a model.
    """

    people: NDArray[np.int64]
    reports: NDArray[np.int64]
    weight: NDArray[np.float64]
    unseen: NDArray[np.float64]
    named: NDArray[np.float64]
    predicted: NDArray[np.float64]
    shift: NDArray[np.float64]
    unexplained: NDArray[np.float64]


class _Counted(_Rows):
    """What is counted of every group."""

    @classmethod
    def of(
        cls,
        perturbed: PerturbedGraph,
        groups: Groups,
        predictions: NDArray[Any] | None,
        channels: Sequence[SymmetricChannel],
    ) -> _Counted:
        """Count people, reports, named classes and predictions of every group."""
        codes, count, classes = groups.codes, len(groups.names), perturbed.schema.num_classes
        everyone = np.arange(len(codes))
        nodes = np.flatnonzero(perturbed.has_label)
        people, reports = (np.bincount(codes[some], minlength=count) for some in (everyone, nodes))
        named = perturbed.label_mechanism.named(perturbed.labels[nodes])
        shift = predicted = np.zeros((count, classes))
        unexplained = np.ones(classes)
        if predictions is not None:
            predicted = _means(predictions, codes, people)
            reporting = _means(predictions[nodes], codes[nodes], reports)
            shift = predicted - reporting
            unexplained = _unexplained(named, predictions[nodes], reporting[codes[nodes]], channels)
        return cls(
            people=people,
            reports=reports,
            weight=reports.astype(np.float64),
            unseen=(people - reports) / np.maximum(people - 1, 1),
            named=_means(named, codes[nodes], reports),
            predicted=predicted,
            shift=shift,
            unexplained=unexplained,
        )

    def post_stratified(self) -> _Rows:
        """Return all people as one row, in which groups count with their people.

        Groups with few reports are put together, the smallest ones first, so that no person counts for too many.
        """
        order, strata, open_groups = np.argsort(self.reports, kind="stable"), list[list[int]](), list[int]()
        for group in order.tolist():
            open_groups.append(group)
            if self.reports[open_groups].sum() >= _FEWEST:
                strata.append(open_groups)
                open_groups = []
        if open_groups:
            strata[-1:] = [[*(strata[-1] if strata else []), *open_groups]]
        people = np.array([self.people[each].sum() for each in strata])
        reports = np.array([self.reports[each].sum() for each in strata])
        parts = people / people.sum()
        chances = parts**2 / reports
        unseen = (people - reports) / np.maximum(people - 1, 1)

        def mixed(values: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
            inside = [np.average(values[each], axis=0, weights=counts[each]) for each in strata]
            return np.asarray(parts @ np.stack(inside))[None, :]

        predicted, named = mixed(self.predicted, self.people), mixed(self.named, self.reports)
        return _Rows(
            people=people.sum(keepdims=True),
            reports=reports.sum(keepdims=True),
            weight=1 / chances.sum(keepdims=True),
            unseen=(chances @ unseen / chances.sum())[None],
            named=named,
            predicted=predicted,
            shift=predicted - mixed(self.predicted - self.shift, self.reports),
            unexplained=self.unexplained,
        )


def _means(values: NDArray[Any], codes: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the mean of each column in each group, [groups, columns]; 0 for a group without rows."""
    sums = [np.bincount(codes, column, minlength=len(counts)) for column in values.T]
    return np.stack(sums, axis=1) / np.maximum(counts, 1)[:, None]


def _unexplained(
    named: NDArray[np.bool_], predicted: NDArray[Any], mean: NDArray[np.float64], channels: Sequence[SymmetricChannel]
) -> NDArray[np.float64]:
    r"""Return the part of the variance inside of groups that predictions leave unexplained, for each class, [classes].

    All reports estimate it together without bias, from :math:`E[d (1 - 2 p) + p^2] = E[(y - p)^2]`. Where they are
    too noisy to tell, predictions are not taken to be better than they say of themselves.

    Args:
        named: classes that each report names, [reports, classes].
        predicted: predictions for the people of the reports, [reports, classes].
        mean: mean of the predictions in the group of each of these people, [reports, classes].
        channels: the channel of each class.
    """
    left = np.ones(named.shape[1])
    for code, (report, own, group) in enumerate(zip(named.T, predicted.T, mean.T, strict=True)):
        debiased = estimate_frequencies(report.astype(np.float64), channels[code])
        found, most = (float((debiased * (1 - 2 * p) + p**2).mean()) for p in (own, group))
        stated = float((own * (1 - own)).mean()) / max(float((group * (1 - group)).mean()), 1e-12)
        left[code] = min(1.0, max(stated, found / most)) if most > 0 else 1.0
    return left


def _share(
    group: str | None,
    name: str,
    of: _Rows,
    cell: tuple[int, int],
    channel: SymmetricChannel,
    quantiles: tuple[float, float],
) -> Share:
    """Return the share of a class in a group, with its intervals.

    Args:
        group: name of the group.
        name: name of the class.
        of: the counts of all groups.
        cell: row and column of the counts.
        channel: the channel that the reports went through.
        quantiles: z of each interval, and of all at once.
    """
    row, code = cell
    observed, weight = float(of.named[cell]), float(of.weight[row])
    unseen, left = float(of.unseen[row]), float(of.unexplained[code])
    assisted = _narrows(float(of.predicted[cell]), unseen, left, channel)
    shift = float(of.shift[cell]) if assisted else 0.0
    count = observed * weight
    (low, high), together = share_intervals(
        count, weight, channel, unseen=unseen * (left if assisted else 1.0), shift=shift, quantiles=quantiles
    )
    ((low_reporters, high_reporters),) = share_intervals(count, weight, channel, unseen=0.0, quantiles=quantiles[:1])
    value = float(estimate_frequencies(np.float64(observed), channel)) + shift
    return Share(
        group=group,
        name=name,
        people=int(of.people[row]),
        reports=int(of.reports[row]),
        value=min(max(value, low), high),
        low=low,
        high=high,
        low_together=together[0],
        high_together=together[1],
        low_reporters=low_reporters,
        high_reporters=high_reporters,
        assisted=assisted,
    )


def _narrows(predicted: float, unseen: float, left: float, channel: SymmetricChannel) -> bool:
    """Return whether a model is expected to make an interval narrower, by what is predicted and not by what is found.

    Args:
        predicted: mean prediction for all people of the group.
        unseen: part of the variance between people that is due to who reports.
        left: part of that variance that the model leaves unexplained.
        channel: the channel that the reports went through.
    """
    keep, other = float(channel.keep), float(channel.other)
    noise = predicted * keep * (1 - keep) + (1 - predicted) * other * (1 - other)
    between = float(channel.gain) ** 2 * unseen * predicted * (1 - predicted)
    return noise + left * between < _WORTH**2 * (noise + between)
