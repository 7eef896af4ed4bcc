r"""Reports that honest people would hardly ever send, whatever their records are.

A mechanism that protects people protects liars too: someone who invents a record and randomizes it cannot be told
from someone who has that record. What can be told is a report that was *not* randomized. Each test here bounds how
often honest reports fail it, for every possible record, by the mechanism's own probabilities:

- *copies*: k equal feature reports among n have probability at most :math:`\binom{n}{k} p^{k-1}`, where p is the
  probability of the likeliest report given its own record;
- *patterns*: the number of features that agree with a fixed pattern exceeds t with probability at most
  :math:`\exp(-d\,KL(t/d \,\|\, \mu/d))`, where :math:`\mu` is its mean for a record that *is* the pattern (Hoeffding;
  sampling m of d features makes the agreements negatively associated);
- *labels*: a label report has a p-value given its neighbours' reports. A report is never less likely than the
  channel's `other`, so no level below it flags anyone: at a small epsilon, labels cannot be screened one by one;
- *rare values*: no value is reported by less than a share `other`, whoever holds it; fewer mean that many did not
  randomize. This says nothing about who.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import binom

from veilgraph.graph import PerturbedGraph
from veilgraph.privacy.mechanisms import GRRFS, SymmetricChannel
from veilgraph.privacy.mechanisms.feature_sampling import mean_over_subsets

LEVEL = 0.01
LABEL_LEVEL = 0.05


@dataclass(frozen=True, kw_only=True)
class Suspicion:
    """What one test found.

    Attributes:
        kind: "copies", "patterns", "labels" or "rare values".
        sentence: for a person.
        flagged: reports that failed.
        expected: how many honest reports would fail at most, on average.
    """

    kind: str
    sentence: str
    flagged: int
    expected: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Screening:
    """Which reports failed which test.

    Attributes:
        reports: nodes whose whole report is implausible.
        labels: nodes whose label is implausible among its neighbours'.
        suspicions: the tests that found something.
    """

    reports: NDArray[np.bool_] = field(repr=False)
    labels: NDArray[np.bool_] = field(repr=False)
    suspicions: Sequence[Suspicion]

    def exclude(self, perturbed: PerturbedGraph) -> PerturbedGraph:
        """The graph without what failed: masked, as if it had never been reported."""
        return replace(
            perturbed,
            has_features=perturbed.has_features & ~self.reports,
            has_label=perturbed.has_label & ~self.reports & ~self.labels,
        )


def screen(perturbed: PerturbedGraph, *, level: float = LEVEL, label_level: float = LABEL_LEVEL) -> Screening:
    """Test all reports.

    Args:
        perturbed: the reports.
        level: probability that any honest report fails for copies, patterns or rare values, each.
        label_level: probability that an honest label fails.
    """
    copied, patterned = copies(perturbed, level), patterns(perturbed, level)
    implausible = copied | patterned
    unlikely = (label_p_values(perturbed, ignoring=implausible) <= label_level) & perturbed.has_label & ~implausible
    labels = int((perturbed.has_label & ~implausible).sum())
    found = [
        Suspicion(
            kind="copies",
            sentence="Feature reports that equal too many others to have been randomized one by one.",
            flagged=int(copied.sum()),
            expected=level,
        ),
        Suspicion(
            kind="patterns",
            sentence="Feature reports that follow one pattern more closely than any record's would.",
            flagged=int(patterned.sum()),
            expected=level,
        ),
        Suspicion(
            kind="labels",
            sentence="Labels that are unlikely among their neighbours' labels; some honest ones always are.",
            flagged=int(unlikely.sum()),
            expected=label_level * labels,
        ),
        *rare_values(perturbed, level),
    ]
    return Screening(reports=implausible, labels=unlikely, suspicions=[s for s in found if s.flagged])


def copies(perturbed: PerturbedGraph, level: float) -> NDArray[np.bool_]:
    """Reports in groups of equals that are larger than chance allows."""
    flagged = np.zeros(perturbed.graph.num_nodes, dtype=np.bool_)
    nodes = np.flatnonzero(perturbed.has_features)
    if not isinstance(perturbed.feature_mechanism, GRRFS) or len(nodes) < 2:
        return flagged
    _, group, size = np.unique(perturbed.features[nodes], axis=0, return_inverse=True, return_counts=True)
    smallest = smallest_implausible_group(perturbed.feature_mechanism, len(nodes), level)
    flagged[nodes] = size[group.ravel()] >= smallest
    return flagged


def smallest_implausible_group(mechanism: GRRFS, reports: int, level: float) -> float:
    r"""The least k with :math:`\binom{n}{k} p^{k-1} \le level`; infinity where there is none.

    >>> smallest_implausible_group(GRRFS((2,) * 53, sampled=10, epsilon=1.0), 2000, 0.01)
    2.0
    """
    likeliest = _log_likeliest(mechanism)
    for k in range(2, reports + 1):
        log_ways = math.lgamma(reports + 1) - math.lgamma(k + 1) - math.lgamma(reports - k + 1)
        if log_ways + (k - 1) * likeliest <= math.log(level):
            return float(k)
    return math.inf


def _log_likeliest(mechanism: GRRFS) -> float:
    """ln of the probability that a report equals its record, which no report of any record exceeds."""
    factors = [float(r.domain_size * r.channel.keep) for r in mechanism.responses]
    mean: float = mean_over_subsets(factors, mechanism.sampled, one=1.0)
    return math.log(mean) - math.fsum(map(math.log, mechanism.domain_sizes))


def patterns(perturbed: PerturbedGraph, level: float) -> NDArray[np.bool_]:
    """Reports that agree too well with the lowest, highest, commonest or rarest code of every feature."""
    flagged = np.zeros(perturbed.graph.num_nodes, dtype=np.bool_)
    mechanism, nodes = perturbed.feature_mechanism, np.flatnonzero(perturbed.has_features)
    if not isinstance(mechanism, GRRFS) or len(nodes) < 2:
        return flagged
    reports = perturbed.features[nodes].astype(np.int64)
    candidates = list(_patterns(reports, mechanism.domain_sizes))
    most = largest_plausible_agreement(mechanism, level / (len(nodes) * len(candidates)))
    for pattern in candidates:
        flagged[nodes] |= (reports == pattern).sum(axis=1) > most
    return flagged


def _patterns(reports: NDArray[np.int64], sizes: tuple[int, ...]) -> Iterator[NDArray[np.int64]]:
    counts = [np.bincount(column, minlength=size) for column, size in zip(reports.T, sizes, strict=True)]
    yield np.zeros(len(sizes), dtype=np.int64)
    yield np.array(sizes) - 1
    yield np.array([count.argmax() for count in counts])
    yield np.array([count.argmin() for count in counts])


def largest_plausible_agreement(mechanism: GRRFS, level: float) -> float:
    """How many of d features can agree with a pattern before an honest report would do so with less than `level`.

    >>> largest_plausible_agreement(GRRFS((2,) * 53, sampled=10, epsilon=1.0), 1e-6)
    46.0
    """
    d = mechanism.num_features
    mean = math.fsum(float(mechanism.channel(i).keep) for i in range(d))
    for agreeing in range(math.floor(mean) + 1, d + 1):
        if -d * _divergence(agreeing / d, mean / d) <= math.log(level):
            return float(agreeing - 1)
    return float(d)


def _divergence(a: float, b: float) -> float:
    """KL of two coins."""
    parts = ((a, b), (1 - a, 1 - b))
    return math.fsum(x * math.log(x / y) for x, y in parts if x > 0)


def label_p_values(perturbed: PerturbedGraph, *, ignoring: NDArray[np.bool_]) -> NDArray[np.float64]:
    """How likely a label report that fits no better would be, if a node is like its neighbours; 1 without a label.

    The distribution of a node's report is estimated from the reports within two hops, its own excepted, and the
    overall one. It is never below the channel's `other`.
    """
    graph, classes = perturbed.graph, perturbed.schema.num_classes
    reported = perturbed.has_label & ~ignoring
    codes = np.where(reported, perturbed.labels, 0)
    one_hot = np.eye(classes)[codes] * reported[:, None]
    if not reported.any():
        return np.ones(graph.num_nodes)
    sources, targets = graph.edge_index
    shape = (graph.num_nodes, graph.num_nodes)
    adjacency = sparse.csr_array((np.ones(len(sources)), (sources, targets)), shape=shape)
    near = adjacency @ one_hot
    # Walks of two steps that come back are the node's own report again.
    around = near + adjacency @ near - graph.degrees[:, None] * one_hot
    overall = one_hot.sum(axis=0) / one_hot.sum()
    expected = (around + classes * overall) / (around.sum(axis=1, keepdims=True) + classes)
    expected = _at_least(expected, float(perturbed.label_mechanism.channel.other))
    own = expected[np.arange(graph.num_nodes), perturbed.labels]
    p_values = np.where(expected <= own[:, None] * (1 + 1e-9), expected, 0).sum(axis=1)
    return np.where(perturbed.has_label, p_values, 1.0)


def _at_least(rows: NDArray[np.float64], floor: float) -> NDArray[np.float64]:
    """Distributions with no entry below `floor`: what is above it gives way in proportion."""
    raised = np.maximum(rows - floor, 0)
    total = raised.sum(axis=1, keepdims=True)
    free = 1 - floor * rows.shape[1]
    return np.asarray(floor + free * np.where(total > 0, raised / np.where(total > 0, total, 1), 1 / rows.shape[1]))


def rare_values(perturbed: PerturbedGraph, level: float) -> list[Suspicion]:
    """Codes that are reported less often than the channel alone would make them."""
    tests = [("the label", perturbed.labels[perturbed.has_label], perturbed.label_mechanism.channel)]
    if isinstance(mechanism := perturbed.feature_mechanism, GRRFS):
        columns = perturbed.features[perturbed.has_features].T
        names = perturbed.schema.feature_names
        tests += [(f"'{names[i]}'", column, mechanism.channel(i)) for i, column in enumerate(columns)]
    codes = sum(channel.domain_size for _, _, channel in tests)
    rare = [name for name, column, channel in tests if _is_too_rare(column, channel, level / codes)]
    if not rare:
        return []
    some = ", ".join(rare[:5]) + (" and more" if len(rare) > 5 else "")
    sentence = (
        f"Values reported more rarely than the mechanism alone would: many reports of {some} were not randomized."
    )
    return [Suspicion(kind="rare values", sentence=sentence, flagged=len(rare), expected=level)]


def _is_too_rare(codes: NDArray[np.int64], channel: SymmetricChannel, level: float) -> bool:
    counts = np.bincount(codes, minlength=channel.domain_size)
    return bool(binom.cdf(counts.min(), len(codes), float(channel.other)) < level)
