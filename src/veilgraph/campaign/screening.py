r"""Screening for implausible reports: those that honest people would hardly ever send, whatever their records are.

A mechanism that protects people protects liars too: someone who invents a record and randomizes it cannot be
distinguished from someone who has that record. A report that was *not* randomized can be. Each test bounds how
often honest reports fail it, for every possible record, by the probabilities of the mechanism:

- *copies*: k equal feature reports among n have probability at most :math:`\binom{n}{k} p^{k-1}`, where p is the
  probability of the likeliest report given its own record;
- *patterns*: the number of features that agree with a fixed pattern exceeds t with probability at most
  :math:`\exp(-d\,KL(t/d \,\|\, \mu/d))`; :math:`\mu` is its mean for a record that *is* the pattern (Hoeffding;
  sampling m of d features makes the agreements negatively associated);
- *sets*: equal label sets are bounded as copies are. Where a report names one class, equal reports are no evidence;
- *labels*: a label report has a p-value given its neighbours' reports. It is never below the likelihood of a class
  that the report does not name, so no lower level flags anyone: at a small epsilon, labels cannot be screened one by
  one. Where a node differs from its neighbours, a test of level t fails with probability at most :math:`t\,e^\epsilon`.
  Among n honest labels some fail by chance, so only the excess is left out: those beyond the number that a binomial
  variable of n trials with probability t exceeds with probability `level`, the least likely labels first. The number
  of failures is a sum of indicators with means of at most t, and such a sum has lighter tails (Hoeffding 1956);
- *rare values*: at least a share `other` of the reports names each value, whatever the records are. A lower share means
  that many people did not randomize; it does not show who.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import bdtr, bdtrc  # scipy.stats is slow to import

from veilgraph.graph import PerturbedGraph
from veilgraph.privacy.frequency import count_named
from veilgraph.privacy.mechanisms import GRRFS, LabelMechanism, SymmetricChannel
from veilgraph.privacy.mechanisms.feature_sampling import mean_over_subsets

LEVEL = 0.01
LABEL_LEVEL = 0.05
# 8 MB for each dense array of the label test, [nodes of a block, classes].
BLOCK_ENTRIES = 2**20


@dataclass(frozen=True, kw_only=True)
class Suspicion:
    """Finding of one test.

    Attributes:
        kind: "copies", "patterns", "sets", "labels" or "rare values".
        sentence: explanation for a person.
        flagged: number of reports that failed.
        expected: upper bound of the mean number of honest reports that fail.
        beyond_chance: number of them that are left out, because honest reports would hardly ever reach that number.
    """

    kind: str
    sentence: str
    flagged: int
    expected: float
    beyond_chance: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Screening:
    """Result of all tests.

    Attributes:
        reports: mask of the nodes whose whole report is implausible, `[nodes]`.
        labels: mask of the nodes whose label is implausible, by itself or, beyond chance, among its neighbours'
            labels, `[nodes]`.
        suspicions: findings of the tests that flagged something.
    """

    reports: NDArray[np.bool_] = field(repr=False)
    labels: NDArray[np.bool_] = field(repr=False)
    suspicions: Sequence[Suspicion]

    def exclude(self, perturbed: PerturbedGraph) -> PerturbedGraph:
        """Return the graph with implausible reports masked, as if they had never been sent."""
        return replace(
            perturbed,
            has_features=perturbed.has_features & ~self.reports,
            has_label=perturbed.has_label & ~self.reports & ~self.labels,
        )


def screen(perturbed: PerturbedGraph, *, level: float = LEVEL, label_level: float = LABEL_LEVEL) -> Screening:
    """Test all reports of a graph.

    Args:
        perturbed: the graph with its reports.
        level: for each test, the probability that any honest report is left out.
        label_level: probability that one honest label fails.
    """
    copied, patterned = flag_copies(perturbed, level), flag_patterns(perturbed, level)
    implausible = copied | patterned
    equal = flag_equal_sets(perturbed, level) & ~implausible
    ignored = implausible | equal
    labels = int((perturbed.has_label & ~ignored).sum())
    unlikely, beyond = flag_unlikely_labels(perturbed, label_level, ignoring=ignored, level=level)
    found = [
        Suspicion(
            kind="copies",
            sentence="Feature reports that equal too many others to have been randomized independently.",
            flagged=int(copied.sum()),
            expected=level,
            beyond_chance=int(copied.sum()),
        ),
        Suspicion(
            kind="patterns",
            sentence="Feature reports that follow one pattern more closely than randomized records do.",
            flagged=int(patterned.sum()),
            expected=level,
            beyond_chance=int(patterned.sum()),
        ),
        Suspicion(
            kind="sets",
            sentence="Label sets that equal too many others to have been randomized independently.",
            flagged=int(equal.sum()),
            expected=level,
            beyond_chance=int(equal.sum()),
        ),
        Suspicion(
            kind="labels",
            sentence="Labels that are unlikely among their neighbours' labels; some honest ones always are.",
            flagged=int(unlikely.sum()),
            expected=label_level * labels,
            beyond_chance=int(beyond.sum()),
        ),
        *find_rare_values(perturbed, level),
    ]
    return Screening(reports=implausible, labels=equal | beyond, suspicions=[s for s in found if s.flagged])


def flag_copies(perturbed: PerturbedGraph, level: float) -> NDArray[np.bool_]:
    """Flag the reports in groups of equal reports that are larger than chance allows; return a mask `[nodes]`."""
    if not isinstance(perturbed.feature_mechanism, GRRFS):
        return np.zeros(perturbed.graph.num_nodes, dtype=np.bool_)
    return _flag_groups(perturbed.features, perturbed.has_features, perturbed.feature_mechanism, level)


def flag_equal_sets(perturbed: PerturbedGraph, level: float) -> NDArray[np.bool_]:
    """Flag the label sets in groups of equal sets that are larger than chance allows; return a mask `[nodes]`."""
    if perturbed.label_mechanism.set_size == 1:
        return np.zeros(perturbed.graph.num_nodes, dtype=np.bool_)
    return _flag_groups(perturbed.labels, perturbed.has_label, perturbed.label_mechanism, level)


def _flag_groups(
    reports: NDArray[Any], reported: NDArray[np.bool_], mechanism: GRRFS | LabelMechanism, level: float
) -> NDArray[np.bool_]:
    flagged = np.zeros(len(reports), dtype=np.bool_)
    nodes = np.flatnonzero(reported)
    if len(nodes) >= 2:
        _, group, size = np.unique(reports[nodes], axis=0, return_inverse=True, return_counts=True)
        flagged[nodes] = size[group.ravel()] >= smallest_implausible_group(mechanism, len(nodes), level)
    return flagged


def smallest_implausible_group(mechanism: GRRFS | LabelMechanism, reports: int, level: float) -> float:
    r"""Return the least k with :math:`\binom{n}{k} p^{k-1} \le level`, or infinity.

    >>> smallest_implausible_group(GRRFS((2,) * 53, sampled=10, epsilon=1.0), 2000, 0.01)
    2.0
    >>> from veilgraph.privacy.mechanisms import SubsetSelection
    >>> smallest_implausible_group(SubsetSelection(18, 1.0), 5000, 0.01)
    8.0
    """
    likeliest = _log_likeliest(mechanism)
    for k in range(2, reports + 1):
        log_ways = math.lgamma(reports + 1) - math.lgamma(k + 1) - math.lgamma(reports - k + 1)
        if log_ways + (k - 1) * likeliest <= math.log(level):
            return float(k)
    return math.inf


def _log_likeliest(mechanism: GRRFS | LabelMechanism) -> float:
    """Return ln of the probability of the likeliest report: one that equals its record, or a set that holds it."""
    if not isinstance(mechanism, GRRFS):
        # Any report will do: each is likeliest for the classes that it names.
        report = mechanism.randomize(np.zeros(1, dtype=np.int64), rng=np.random.default_rng(0))
        return max(float(mechanism.log_likelihood(report, (c,))[0]) for c in range(mechanism.domain_size))
    factors = [float(r.domain_size * r.channel.keep) for r in mechanism.responses]
    mean: float = mean_over_subsets(factors, mechanism.sampled, one=1.0)
    return math.log(mean) - math.fsum(map(math.log, mechanism.domain_sizes))


def flag_patterns(perturbed: PerturbedGraph, level: float) -> NDArray[np.bool_]:
    """Flag the reports that agree too well with the lowest, highest, commonest or rarest code of every feature."""
    flagged = np.zeros(perturbed.graph.num_nodes, dtype=np.bool_)
    mechanism, nodes = perturbed.feature_mechanism, np.flatnonzero(perturbed.has_features)
    if not isinstance(mechanism, GRRFS) or len(nodes) < 2:
        return flagged
    reports = perturbed.features[nodes].astype(np.int64)
    candidates = list(_candidate_patterns(reports, mechanism.domain_sizes))
    most = largest_plausible_agreement(mechanism, level / (len(nodes) * len(candidates)))
    for pattern in candidates:
        flagged[nodes] |= (reports == pattern).sum(axis=1) > most
    return flagged


def _candidate_patterns(reports: NDArray[np.int64], sizes: tuple[int, ...]) -> Iterator[NDArray[np.int64]]:
    counts = [np.bincount(column, minlength=size) for column, size in zip(reports.T, sizes, strict=True)]
    yield np.zeros(len(sizes), dtype=np.int64)
    yield np.array(sizes) - 1
    yield np.array([count.argmax() for count in counts])
    yield np.array([count.argmin() for count in counts])


def largest_plausible_agreement(mechanism: GRRFS, level: float) -> float:
    """Return the most features in which an honest report agrees with a pattern, up to a probability of `level`.

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
    """Return the Kullback-Leibler divergence of two Bernoulli distributions."""
    parts = ((a, b), (1 - a, 1 - b))
    return math.fsum(x * math.log(x / y) for x, y in parts if x > 0)


def flag_unlikely_labels(
    perturbed: PerturbedGraph, label_level: float, *, ignoring: NDArray[np.bool_], level: float = LEVEL
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Flag the label reports whose p-value is at most `label_level`, and the part of them that is beyond chance.

    Args:
        perturbed: the graph with its reports.
        label_level: probability that one honest label fails.
        ignoring: mask of reports that are left out of the test, `[nodes]`.
        level: probability that any honest label is beyond chance.

    Returns:
        Mask of the reports that fail, and mask of the least likely ones among them, as many as are too many, `[nodes]`.
    """
    failing, beyond = np.zeros((2, perturbed.graph.num_nodes), dtype=np.bool_)
    if float(_scaled_likelihood(perturbed.label_mechanism).other) > label_level:  # no p-value is below it
        return failing, beyond
    tested = perturbed.has_label & ~ignoring
    p_values = label_p_values(perturbed, ignoring=ignoring)
    failing = (p_values <= label_level) & tested
    nodes = np.flatnonzero(failing)
    excess = len(nodes) - most_failures(int(tested.sum()), label_level, level)
    if excess > 0:
        beyond[nodes[np.argsort(p_values[nodes], kind="stable")[:excess]]] = True
    return failing, beyond


def most_failures(reports: int, label_level: float, level: float) -> int:
    """Return the number of failing labels that honest reports exceed with a probability of at most `level`.

    267 of 5,340 honest labels fail a test of 5 % on average, and hardly ever more than 305:

    >>> most_failures(5340, 0.05, 0.01)
    305
    """
    return bisect_left(range(reports), True, key=lambda count: float(bdtrc(count, reports, label_level)) <= level)


def label_p_values(
    perturbed: PerturbedGraph, *, ignoring: NDArray[np.bool_], block_entries: int = BLOCK_ENTRIES
) -> NDArray[np.float64]:
    r"""Return the p-value of each label report under the hypothesis that a node is like its neighbours, `[nodes]`.

    The p-value is the probability of naming no class that is likelier than all classes that the report names. How
    likely a class is to be named is estimated from the reports within two hops, without the node's own, and from all
    reports. No probability is below the channel's `other`. Nodes without a label have the p-value 1.

    Let B be the b classes that are likelier, :math:`\pi` the shares of the classes, and a and a + g the two values of
    the likelihood. All :math:`\binom{k-b}{w}` sets without a class of B together have the probability

    .. math:: \frac{\binom{k-b}{w} a + \binom{k-b-1}{w-1} g\,(1 - \pi_B)}{\binom{k-1}{w-1}}

    For GRR this is the probability of all reports that are at most as likely. A p-value is never below a, the
    likelihood of a class that is not named: which other classes complete a set is chance, and no evidence.

    Args:
        perturbed: the graph with its reports.
        ignoring: mask of reports that are left out of the distributions, `[nodes]`.
        block_entries: largest number of entries of a dense array; nodes are processed in blocks. No result depends
            on it.
    """
    graph, classes = perturbed.graph, perturbed.schema.num_classes
    reported = perturbed.has_label & ~ignoring
    p_values = np.ones(graph.num_nodes)
    if not reported.any():
        return p_values
    mechanism, senders = perturbed.label_mechanism, np.flatnonzero(reported)
    rows = max(1, block_entries // classes)
    named = _named(perturbed.labels, reported, mechanism, rows)
    sources, targets = graph.edge_index
    shape = (graph.num_nodes, graph.num_nodes)
    adjacency = sparse.csr_array((np.ones(len(sources), dtype=np.int32), (sources, targets)), shape=shape)
    near = adjacency @ named
    overall = count_named(perturbed.labels[senders], mechanism) / len(senders)
    constants, slopes = _probabilities_of_avoiding(mechanism)
    size, least = mechanism.set_size, float(_scaled_likelihood(mechanism).other)
    for start in range(0, graph.num_nodes, rows):
        block = slice(start, start + rows)
        # Walks of two steps that return to the node count its own report: subtract them.
        around = (near[block] + adjacency[block] @ near).toarray()
        around -= graph.degrees[block, None] * named[block].toarray()
        expected = (around + classes * overall) / (around.sum(axis=1, keepdims=True) / size + classes)
        expected = _at_least(expected, float(mechanism.channel.other), size)
        own = np.where(mechanism.named(perturbed.labels[block]), expected, 0).max(axis=1, keepdims=True)
        left = expected <= own * (1 + 1e-9)
        # A node without a report names no class; its p-value is 1.
        likelier = np.minimum(classes - np.count_nonzero(left, axis=1), classes - size)
        exact = constants[likelier] + slopes[likelier] * np.where(left, expected, 0).sum(axis=1)
        p_values[block] = np.maximum(exact, least)
    return np.where(perturbed.has_label, p_values, 1.0)


def _named(labels: NDArray[Any], reported: NDArray[np.bool_], mechanism: LabelMechanism, rows: int) -> sparse.csr_array:
    """Return which classes each report names, [nodes, classes], made in blocks of rows; no class without a report."""
    blocks = (slice(start, start + rows) for start in range(0, len(labels), rows))
    parts = [sparse.csr_array(mechanism.named(labels[b]) & reported[b, None], dtype=np.int32) for b in blocks]
    whole: sparse.csr_array = sparse.vstack(parts, format="csr")
    return whole


def _probabilities_of_avoiding(mechanism: LabelMechanism) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Return the probability that a report names none of b classes, for b = 0, 1, ..., k - w.

    It is constants[b] + slopes[b] * m, where m is the mean number of other classes that a report names.
    """
    k, w, channel, likelihood = (
        mechanism.domain_size,
        mechanism.set_size,
        mechanism.channel,
        _scaled_likelihood(mechanism),
    )
    left = k - np.arange(k - w + 1)
    # C(k - b - 1, w - 1) / C(k - 1, w - 1), factor by factor.
    ratio = np.concatenate([[1.0], np.cumprod((left[1:] - w + 1) / left[1:])])
    slopes = ratio * float(likelihood.gain / channel.gain)
    return ratio * left / w * float(likelihood.other) - slopes * left * float(channel.other), slopes


def _scaled_likelihood(mechanism: LabelMechanism) -> SymmetricChannel:
    """Return the likelihood whose `keep` is the probability that the report names the true class."""
    likelihood, keep = mechanism.likelihood, mechanism.channel.keep
    return replace(likelihood, keep=keep, other=likelihood.other * keep / likelihood.keep)


def _at_least(rows: NDArray[np.float64], floor: float, total: int) -> NDArray[np.float64]:
    """Raise the entries of rows with a given total to `floor`, and scale down the rest in proportion."""
    raised = np.maximum(rows - floor, 0)
    surplus = raised.sum(axis=1, keepdims=True)
    free = total - floor * rows.shape[1]
    return np.asarray(floor + free * (raised / np.maximum(surplus, np.finfo(np.float64).tiny)))


def find_rare_values(perturbed: PerturbedGraph, level: float) -> list[Suspicion]:
    """Find features and labels with a code that fewer reports name than the channel alone makes them."""
    labels, label_mechanism = perturbed.labels[perturbed.has_label], perturbed.label_mechanism
    tests = [("the label", count_named(labels, label_mechanism), len(labels), label_mechanism.channel)]
    if isinstance(mechanism := perturbed.feature_mechanism, GRRFS):
        columns, names = perturbed.features[perturbed.has_features].T, perturbed.schema.feature_names
        for i, (column, size) in enumerate(zip(columns, mechanism.domain_sizes, strict=True)):
            tests.append((f"'{names[i]}'", np.bincount(column, minlength=size), len(column), mechanism.channel(i)))
    codes = sum(channel.domain_size for _, _, _, channel in tests)
    rare = [
        name
        for name, counts, reports, channel in tests
        if bdtr(float(counts.min()), reports, float(channel.other)) < level / codes
    ]
    if not rare:
        return []
    some = ", ".join(rare[:5]) + (" and more" if len(rare) > 5 else "")
    sentence = f"Values that are rarer than the mechanism alone makes them: many reports of {some} were not randomized."
    return [Suspicion(kind="rare values", sentence=sentence, flagged=len(rare), expected=level, beyond_chance=0)]
