"""What more reports would bring: the accuracy on subsamples of the people who reported, and whose reports would help.

Reports help most where a walk from the uncertain people leads (`expected_help`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models import Method, Veil
from veilgraph.models.base import DEFAULT_MEMORY, FitTask
from veilgraph.models.unused_reports import UnusedReports
from veilgraph.models.veil.cross_fitting import max_folds
from veilgraph.privacy.estimate import Estimate
from veilgraph.progress import Progress, no_progress

ALL_SHARES = (1 / 8, 1 / 4, 1 / 2, 3 / 4)
"""Subsamples of a curve that was asked for."""

_LEAST_LABELS = 20
_MORE, _HALVES = 100, 4
_FAST, _AFFORDABLE = 2**21, 2**26
"""Entries of the messages of one fit up to which a default curve has two subsamples, and one."""


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """The method on a part of the reports, judged by all of them.

    Attributes:
        share: share of the people who reported that the fit has seen.
        learned_from: number of label reports that a prediction used, on average: the own one never counts.
        accuracy: share of right predictions.
        stated: accuracy that the probabilities of the model state.
        gain: by how much the accuracy with all reports is higher, from the same reports.
    """

    share: float
    learned_from: float
    accuracy: Estimate
    stated: float
    gain: Estimate


def default_shares(perturbed: PerturbedGraph) -> tuple[float, ...]:
    """Return the subsamples of a curve that nobody asked for: it costs about as much as the fit, or little.

    Each subsample is another fit. A graph with up to 2 million entries in its messages (edges, classes and folds) is
    fitted in a second or two, and gets two.
    """
    entries = _entries(perturbed)
    return (1 / 4, 1 / 2) if entries <= _FAST else (1 / 2,) if entries <= _AFFORDABLE else ()


def _entries(perturbed: PerturbedGraph) -> int:
    """Return the number of entries in the messages of one fit."""
    return 2 * perturbed.graph.num_edges * perturbed.schema.num_classes * (max_folds(perturbed) + 1)


def learning_curve(
    method: Method,
    perturbed: PerturbedGraph,
    judged: UnusedReports,
    shares: Sequence[float],
    *,
    seed: int = 0,
    memory: int = DEFAULT_MEMORY,
    progress: Progress = no_progress,
) -> list[CurvePoint]:
    """Fit the method to nested random subsamples of the people who reported, and judge it by all label reports.

    People outside a subsample have sent nothing, neither features nor label, and their reports judge the fit. Reports
    inside judge it too, because Veil predicts each person without their own. The last point has all reports.

    Args:
        method: the fitted method; other methods than Veil cannot leave out a person's own report, and have no curve.
        perturbed: the reports and the graph of the fit.
        judged: the reports of the fit, with predictions that did not use them.
        shares: share of the people in each subsample.
        seed: seed of the subsamples.
        memory: limit of a fit, in bytes.
        progress: called after each fit.
    """
    points = []
    for share, seen, again in fit_subsamples(method, perturbed, shares, seed=seed, memory=memory, progress=progress):
        found = judged.with_predictions(again.predict_without_own_report(seen)[judged.nodes])
        points.append(_point(share, seen, found, judged))
    return [*points, _point(1.0, perturbed, judged, judged)] if points else []


def fit_subsamples(
    method: Method,
    perturbed: PerturbedGraph,
    shares: Sequence[float],
    *,
    seed: int = 0,
    memory: int = DEFAULT_MEMORY,
    progress: Progress = no_progress,
) -> Iterator[tuple[float, PerturbedGraph, Veil]]:
    """Yield each share with the reports of its subsample and the method fitted to them; see `learning_curve`.

    Subsamples with fewer than 20 labels are left out, and other methods than Veil have none.
    """
    if not isinstance(method, Veil):
        return
    order = np.random.default_rng(seed).permutation(np.flatnonzero(perturbed.has_label | perturbed.has_features))
    for number, share in enumerate(shares):
        seen = _seen(perturbed, order[: round(share * len(order))])
        if seen.has_label.sum() < _LEAST_LABELS:
            continue
        progress(f"learning curve, {Fraction(share).limit_denominator(100)} of the reports", number, len(shares))
        yield share, seen, fit_again(method, seen, seed=seed, memory=memory)
        progress("learning curve", number + 1, len(shares))


def fit_again(method: Veil, perturbed: PerturbedGraph, *, seed: int, memory: int = DEFAULT_MEMORY) -> Veil:
    """Return a new estimator of the method with the same parameters, fitted to these reports."""
    again, labels = type(method)(**method.get_params()), perturbed.has_label
    split = Split.random(len(labels), seed=seed, train=2 / 3, validation=1 / 3, eligible=labels)
    for _ in type(again).fit_together([FitTask(method=again, perturbed=perturbed, split=split)], memory=memory):
        pass
    return again


def _seen(perturbed: PerturbedGraph, people: NDArray[np.int64]) -> PerturbedGraph:
    """Return the reports of some people alone."""
    chosen = np.zeros(perturbed.graph.num_nodes, dtype=np.bool_)
    chosen[people] = True
    return replace(perturbed, has_label=perturbed.has_label & chosen, has_features=perturbed.has_features & chosen)


def _point(share: float, seen: PerturbedGraph, found: UnusedReports, judged: UnusedReports) -> CurvePoint:
    labels, folds = int(seen.has_label.sum()), max_folds(seen)
    inside = labels / len(judged.nodes)  # reports of these people were left out with their whole fold
    return CurvePoint(
        share=share,
        learned_from=labels * (1 - inside / folds),
        accuracy=found.accuracy(),
        stated=found.stated_accuracy(),
        gain=judged.difference(found),
    )


def next_hundred(
    method: Method,
    perturbed: PerturbedGraph,
    judged: UnusedReports,
    *,
    seed: int = 0,
    memory: int = DEFAULT_MEMORY,
) -> Estimate | None:
    r"""Estimate the accuracy that another hundred label reports would add on average.

    Four times, the method is fitted to a random half of the people who reported. What is still missing is taken to fall
    as one over the square root of the number of label reports n, so that the next hundred bring

    .. math:: \frac{1 - \sqrt{n / (n + 100)}}{\sqrt 2 - 1}

    times as much as the other half. With :math:`s` the spread between the four, and :math:`e` the standard error of
    their mean :math:`d`, the interval is that part of :math:`d \pm z \sqrt{e^2 + s^2}`. Gains often shrink faster, so
    it always holds 0, and there is no point. There is no estimate for other methods than Veil, from few reports, and on
    graphs on which four fits take long.

    Args:
        method: the fitted method.
        perturbed: the reports and the graph of the fit.
        judged: the reports of the fit, with predictions that did not use them.
        seed: seed of the halves.
        memory: limit of a fit, in bytes.
    """
    if _entries(perturbed) > _FAST:
        return None
    gains = [
        judged.debiased(judged.predicted)
        - judged.debiased(again.predict_without_own_report(seen)[judged.nodes].argmax(axis=1))
        for number in range(_HALVES)
        for _, seen, again in fit_subsamples(method, perturbed, (1 / 2,), seed=seed + number, memory=memory)
    ]
    if len(gains) < _HALVES:
        return None
    terms, spread = np.mean(gains, axis=0), float(np.var([gain.mean() for gain in gains], ddof=1))
    error, labels = math.sqrt(terms.var(ddof=1) / len(terms) + spread), int(perturbed.has_label.sum())
    part = (1 - math.sqrt(labels / (labels + _MORE))) / (math.sqrt(2) - 1)
    found = Estimate.normal(part * float(terms.mean()), part * error, reports=len(terms), lowest=-1)
    return replace(found, value=None, low=min(found.low, 0.0), high=max(found.high, 0.0))


_RESTART, _STEPS = 0.3, 10


def expected_help(graph: Graph, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return a score for each node: how much uncertainty of its surroundings its report would reach, [nodes].

    Predictions weigh reports by walks on the graph. So the report of v reaches u about as much as a walk from u with
    restarts is at v (personalised PageRank). It matters as much as the prediction for u is uncertain:

    .. math:: h_v = \sum_u \bigl(1 - \max_x p_u(x)\bigr)\, \pi_u(v), \qquad
        \pi_u = 0.3\, e_u + 0.7\, A D^{-1} \pi_u

    Args:
        graph: the public graph.
        probabilities: class probabilities that use no label report of the node itself, [nodes, classes].

    >>> path = Graph.from_edges([[0, 1], [1, 2]], num_nodes=4)
    >>> expected_help(path, np.tile([0.5, 0.5], (4, 1))).round(2).tolist()
    [0.4, 0.7, 0.4, 0.15]
    """
    uncertain = 1 - probabilities.max(axis=1).astype(np.float64)
    ends, starts = graph.edge_index
    degrees = np.maximum(graph.degrees, 1)
    walks = uncertain
    for _ in range(_STEPS):
        arriving = np.bincount(ends, (walks / degrees)[starts], minlength=graph.num_nodes)
        walks = _RESTART * uncertain + (1 - _RESTART) * arriving
    return np.asarray(walks)
