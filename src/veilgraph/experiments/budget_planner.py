"""How to collect: which share of a total epsilon for the label, which for features, and what accuracy to expect."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.errors import RunError
from veilgraph.evaluation import accuracy
from veilgraph.experiments.simulation import collect, feature_rng, label_rng, randomize_labels
from veilgraph.graph import Graph, Split
from veilgraph.models import Veil
from veilgraph.privacy.accounting import Guarantee, guarantee_of
from veilgraph.privacy.epsilon import check_epsilon
from veilgraph.privacy.mechanisms import GRR, GRRFS, JointGRR
from veilgraph.privacy.schema import FeatureSchema

LABEL_SHARES = (1.0, 0.75, 0.5, 0.25, 0.1)
"""Of the total, for the label: the candidates. At 1 no features are asked for."""

HOMOPHILIES = (0.65, 0.85)
FEATURE_SIGNALS = (0.0, 0.3)

_MOST_NODES = 1500
_DRAWS = 3
_VALIDATION_SHARE = 1 / 3
_AS_GOOD = 0.005
"""Shares of accuracy: candidates that are so close are the same to us, and the one that asks for least is taken."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What nobody knows before a collection, assumed.

    Attributes:
        homophily: the share of edges between people of one class.
        feature_signal: how far a feature depends on the class: 0 not at all, 1 entirely.
    """

    homophily: float
    feature_signal: float


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A way to divide the total, and what it gave in each scenario.

    Attributes:
        label_share: of the total.
        features: the feature mechanism, or None where no features are asked for.
        label: the label mechanism.
        accuracies: mean accuracy over draws, in the order of the scenarios.
        spreads: standard deviations between draws.
    """

    label_share: float
    features: JointGRR | None
    label: GRR
    accuracies: tuple[float, ...]
    spreads: tuple[float, ...]

    @property
    def guarantee(self) -> Guarantee:
        """What a person spends."""
        return guarantee_of(self.features, self.label)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A recommendation.

    Attributes:
        recommended: the candidate whose greatest loss to the best candidate of a scenario is least.
        candidates: all of them.
        scenarios: that they were tried in.
        assumptions: in words.
    """

    recommended: Candidate
    candidates: tuple[Candidate, ...]
    scenarios: tuple[Scenario, ...]
    assumptions: tuple[str, ...]

    @property
    def expected_accuracy(self) -> tuple[float, float]:
        """From the worst scenario to the best, two standard deviations between draws further each way."""
        pairs = list(zip(self.recommended.accuracies, self.recommended.spreads, strict=True))
        return max(0.0, min(mean - 2 * spread for mean, spread in pairs)), min(1.0, max(m + 2 * s for m, s in pairs))


def plan_collection(
    graph: Graph,
    schema: FeatureSchema,
    *,
    total_epsilon: float,
    label_share: float = 0.75,
    homophilies: Sequence[float] = HOMOPHILIES,
    feature_signals: Sequence[float] = FEATURE_SIGNALS,
    seed: int = 0,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Plan:
    """Divide a total user-level epsilon between the label and features, from public information alone.

    The mechanism for the features is the one with the least variance at each budget, from the declared domains. Each
    division is then tried on block models with the graph's number of nodes (up to a limit) and mean degree, the
    schema's classes and features, over a range of what cannot be known before: how much classes cling together,
    and how much features say. The division is recommended whose greatest regret over these scenarios is least; of
    those that are as good, the one that asks for least.

    Args:
        graph: the public graph.
        schema: what would be asked.
        total_epsilon: of a whole report, any two records.
        label_share: of the nodes, that will report a label.
        homophilies: to try.
        feature_signals: to try.
        seed: of the simulations.
        progress: told what is done, how much, and of how much.
    """
    if math.isinf(check_epsilon(total_epsilon)):
        raise RunError(f"total_epsilon is {total_epsilon}: without a limit there is nothing to divide")
    if not 0 < label_share <= 1:
        raise RunError(f"label_share is {label_share}: it must be above 0 and at most 1")
    scenarios = tuple(
        Scenario(homophily=homophily, feature_signal=signal)
        for homophily, signal in itertools.product(homophilies, feature_signals)
    )
    mechanisms = [_mechanisms(schema, total_epsilon, share) for share in LABEL_SHARES]
    total, done = len(scenarios) * len(mechanisms), 0
    outcomes: list[list[tuple[float, float]]] = [[] for _ in mechanisms]
    for scenario in scenarios:
        models = [_block_model(graph, schema, scenario, seed + draw) for draw in range(_DRAWS)]
        for found, (features, label) in zip(outcomes, mechanisms, strict=True):
            progress(f"homophily {scenario.homophily:g}, signal {scenario.feature_signal:g}", done, total)
            results = [_try(model, features, label, label_share, seed + i) for i, model in enumerate(models)]
            found.append((statistics.mean(results), statistics.stdev(results)))
            done += 1
    progress("done", total, total)
    candidates = tuple(
        Candidate(
            label_share=share,
            features=features,
            label=label,
            accuracies=tuple(mean for mean, _ in found),
            spreads=tuple(spread for _, spread in found),
        )
        for share, (features, label), found in zip(LABEL_SHARES, mechanisms, outcomes, strict=True)
    )
    return Plan(
        recommended=recommend(candidates),
        candidates=candidates,
        scenarios=scenarios,
        assumptions=_assumptions(graph, schema, scenarios, label_share),
    )


def recommend(candidates: Sequence[Candidate]) -> Candidate:
    """The candidate with the least greatest regret; of those that are as good, the first (features cost people more).

    The regret of a candidate in a scenario is what it loses there to the best candidate of that scenario.
    """
    best = [max(accuracies) for accuracies in zip(*(each.accuracies for each in candidates), strict=True)]
    regrets = [max(top - own for top, own in zip(best, each.accuracies, strict=True)) for each in candidates]
    return next(each for each, regret in zip(candidates, regrets, strict=True) if regret <= min(regrets) + _AS_GOOD)


def _mechanisms(schema: FeatureSchema, total: float, label_share: float) -> tuple[JointGRR | None, GRR]:
    label = GRR(schema.num_classes, total * label_share)
    if label_share == 1:
        return None, label
    return JointGRR.best(schema.domain_sizes, epsilon=total * (1 - label_share)), label


def _block_model(graph: Graph, schema: FeatureSchema, scenario: Scenario, seed: int) -> PrivateGraph:
    nodes = min(graph.num_nodes, _MOST_NODES)
    return csbm(
        nodes,
        num_classes=schema.num_classes,
        mean_degree=min(2 * graph.num_edges / graph.num_nodes, nodes / 4),
        homophily=scenario.homophily,
        num_features=schema.num_features,
        feature_signal=scenario.feature_signal,
        domain_size=round(statistics.median(schema.domain_sizes)),
        seed=seed,
    )


def _try(model: PrivateGraph, features: JointGRR | None, label: GRR, label_share: float, seed: int) -> float:
    """The accuracy of Veil on one draw of reports of a block model."""
    train, validation = (1 - _VALIDATION_SHARE) * label_share, _VALIDATION_SHARE * label_share
    split = Split.random(model.graph.num_nodes, seed=seed, train=train, validation=validation)
    labels = randomize_labels(model, label, split, rng=label_rng(seed))
    if features is None:
        unused = GRRFS(model.schema.domain_sizes, sampled=1, epsilon=1.0)
        perturbed = collect(model, split, label, labels, unused, None)
    else:
        mechanism = JointGRR.best(model.schema.domain_sizes, epsilon=features.privacy_loss.user_level)
        reports = mechanism.randomize(model.features, rng=feature_rng(seed))
        perturbed = collect(model, split, label, labels, mechanism, reports)
    unseen = split.test if split.test.any() else split.labelled
    return accuracy(Veil(seed=seed).fit(perturbed, split).predict(), model, unseen)


def _assumptions(
    graph: Graph, schema: FeatureSchema, scenarios: Sequence[Scenario], label_share: float
) -> tuple[str, ...]:
    homophilies = sorted({scenario.homophily for scenario in scenarios})
    signals = sorted({scenario.feature_signal for scenario in scenarios})
    nodes, domain = min(graph.num_nodes, _MOST_NODES), round(statistics.median(schema.domain_sizes))
    return (
        f"Block models of {nodes:,} nodes with the graph's mean degree, {2 * graph.num_edges / graph.num_nodes:.1f}; "
        "degrees as even, and classes as large, as chance makes them.",
        f"Between {homophilies[0]:.0%} and {homophilies[-1]:.0%} of edges join people of one of the "
        f"{schema.num_classes} classes.",
        f"All {schema.num_features} features have {domain} values; a feature follows the class with a probability "
        f"between {signals[0]:.0%} and {signals[-1]:.0%} and is random otherwise.",
        f"{label_share:.0%} of people report a label, everyone reports features if asked to, and nobody lies.",
        "Predictions are Veil's, for people who report no label.",
    )
