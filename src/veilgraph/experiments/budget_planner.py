"""Plan of a collection: how to divide a total epsilon between label and features, and which accuracy to expect."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.errors import RunError
from veilgraph.evaluation import accuracy
from veilgraph.experiments.simulation import feature_rng, label_rng, randomize_labels, simulated_collection
from veilgraph.graph import Graph, Split
from veilgraph.models.registry import find_method
from veilgraph.privacy.accounting import Guarantee, guarantee_of
from veilgraph.privacy.epsilon import check_epsilon
from veilgraph.privacy.mechanisms import GRR, JointGRR
from veilgraph.privacy.schema import FeatureSchema
from veilgraph.progress import Progress, no_progress

LABEL_SHARES = (1.0, 0.75, 0.5, 0.25, 0.1)
"""Candidate shares of the total for the label. At 1 the collection asks for no features."""

HOMOPHILIES = (0.65, 0.85)
FEATURE_SIGNALS = (0.0, 0.3)

_METHOD = "veil"
_MAX_NODES = 1500
_DRAWS = 3
_VALIDATION_SHARE = 1 / 3
_NEGLIGIBLE_REGRET = 0.005
"""Accuracy, as a fraction. Among candidates within this regret, the one that asks for least is recommended."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Assumptions about what cannot be known before a collection.

    Attributes:
        homophily: share of edges that join two people of one class.
        feature_signal: dependence of features on the class, from 0 (none) to 1 (entirely).
    """

    homophily: float
    feature_signal: float


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One division of the total, with its accuracy in each scenario.

    Attributes:
        label_share: share of the total for the label.
        features: feature mechanism; None for a collection without features.
        label: label mechanism.
        accuracies: mean accuracy over draws, [scenarios].
        spreads: standard deviation of the accuracy between draws, [scenarios].
    """

    label_share: float
    features: JointGRR | None
    label: GRR
    accuracies: tuple[float, ...]
    spreads: tuple[float, ...]

    @property
    def guarantee(self) -> Guarantee:
        """Privacy guarantee of a report."""
        return guarantee_of(self.features, self.label)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A recommended division of the total, with everything that it was chosen from.

    Attributes:
        recommended: the candidate with minimax regret over the scenarios.
        candidates: all candidates.
        scenarios: scenarios of the simulations.
        assumptions: assumptions of the simulations, in sentences.
    """

    recommended: Candidate
    candidates: tuple[Candidate, ...]
    scenarios: tuple[Scenario, ...]
    assumptions: tuple[str, ...]

    @property
    def expected_accuracy(self) -> tuple[float, float]:
        """Range of accuracy from the worst scenario to the best, wider by two standard deviations on each side."""
        pairs = list(zip(self.recommended.accuracies, self.recommended.spreads, strict=True))
        return max(0.0, min(mean - 2 * spread for mean, spread in pairs)), min(1.0, max(m + 2 * s for m, s in pairs))


Score = Callable[[PrivateGraph, JointGRR | None, GRR, float, int], float]
"""Returns the accuracy of one simulated collection; see `simulated_accuracy`."""


def plan_collection(
    graph: Graph,
    schema: FeatureSchema,
    *,
    total_epsilon: float,
    label_share: float = 0.75,
    homophilies: Sequence[float] = HOMOPHILIES,
    feature_signals: Sequence[float] = FEATURE_SIGNALS,
    label_shares: Sequence[float] = LABEL_SHARES,
    seed: int = 0,
    score: Score | None = None,
    progress: Progress = no_progress,
) -> Plan:
    """Divide a total user-level epsilon between label and features, from public information alone.

    The feature mechanism is the one with the least variance at each budget, from the declared domains. Each division
    is simulated on block models with the classes and features of the schema. They have the graph's mean degree and its
    number of nodes, up to a limit. Homophily and feature signal cannot be known before a collection, so a range of them
    is simulated. The recommended division has the smallest maximal regret over these scenarios (minimax regret). Among
    divisions that are equally good, it is the one that asks for least. Without features, the label has all of it.

    Args:
        graph: the public graph.
        schema: features and classes to collect.
        total_epsilon: user-level epsilon of a whole report, any two records.
        label_share: share of the nodes that will report a label.
        homophilies: homophilies to simulate.
        feature_signals: feature signals to simulate.
        label_shares: candidate shares of the total for the label.
        seed: seed of the simulations.
        score: simulates one collection; default: `simulated_accuracy`.
        progress: called with the scenario, the number of finished simulations, and the number of all simulations.
    """
    score = simulated_accuracy if score is None else score
    if math.isinf(check_epsilon(total_epsilon)):
        raise RunError(f"total_epsilon is {total_epsilon}: without a limit there is nothing to divide")
    if not 0 < label_share <= 1:
        raise RunError(f"label_share is {label_share}: it must be above 0 and at most 1")
    if not schema.num_features:
        feature_signals, label_shares = (0.0,), (1.0,)
    scenarios = tuple(
        Scenario(homophily=homophily, feature_signal=signal)
        for homophily, signal in itertools.product(homophilies, feature_signals)
    )
    mechanisms = [_mechanisms(schema, total_epsilon, share) for share in label_shares]
    total, done = len(scenarios) * len(mechanisms), 0
    outcomes: list[list[tuple[float, float]]] = [[] for _ in mechanisms]
    for scenario in scenarios:
        models = [_block_model(graph, schema, scenario, seed + draw) for draw in range(_DRAWS)]
        for found, (features, label) in zip(outcomes, mechanisms, strict=True):
            progress(f"homophily {scenario.homophily:g}, signal {scenario.feature_signal:g}", done, total)
            results = [score(model, features, label, label_share, seed + i) for i, model in enumerate(models)]
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
        for share, (features, label), found in zip(label_shares, mechanisms, outcomes, strict=True)
    )
    return Plan(
        recommended=recommend(candidates),
        candidates=candidates,
        scenarios=scenarios,
        assumptions=_assumptions(graph, schema, scenarios, label_share),
    )


def recommend(candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate with the smallest maximal regret; among equally good ones, the first.

    The regret of a candidate in a scenario is the best accuracy of that scenario minus its own. Candidates come in
    the order of what they ask of people, least first.
    """
    best = [max(accuracies) for accuracies in zip(*(each.accuracies for each in candidates), strict=True)]
    regrets = [max(top - own for top, own in zip(best, each.accuracies, strict=True)) for each in candidates]
    return next(
        each for each, regret in zip(candidates, regrets, strict=True) if regret <= min(regrets) + _NEGLIGIBLE_REGRET
    )


def _mechanisms(schema: FeatureSchema, total: float, label_share: float) -> tuple[JointGRR | None, GRR]:
    label = GRR(schema.num_classes, total * label_share)
    if label_share == 1:
        return None, label
    return JointGRR.best(schema.domain_sizes, epsilon=total * (1 - label_share)), label


def _block_model(graph: Graph, schema: FeatureSchema, scenario: Scenario, seed: int) -> PrivateGraph:
    nodes = min(graph.num_nodes, _MAX_NODES)
    return csbm(
        nodes,
        num_classes=schema.num_classes,
        mean_degree=min(2 * graph.num_edges / graph.num_nodes, nodes / 4),
        homophily=scenario.homophily,
        num_features=schema.num_features,
        feature_signal=scenario.feature_signal,
        domain_size=_typical_domain_size(schema),
        seed=seed,
    )


def simulated_accuracy(
    model: PrivateGraph, features: JointGRR | None, label: GRR, label_share: float, seed: int
) -> float:
    """Return the accuracy of Veil on one draw of reports of a block model.

    Args:
        model: the block model.
        features: feature mechanism; None for a collection without features.
        label: label mechanism.
        label_share: share of the nodes that report a label.
        seed: seed of the split and the reports.
    """
    train, validation = (1 - _VALIDATION_SHARE) * label_share, _VALIDATION_SHARE * label_share
    split = Split.random(model.graph.num_nodes, seed=seed, train=train, validation=validation)
    labels = randomize_labels(model, label, split, rng=label_rng(seed))
    if features is None:
        perturbed = simulated_collection(model, split, label, labels)
    else:
        mechanism = JointGRR.best(model.schema.domain_sizes, epsilon=features.privacy_loss.user_level)
        reports = mechanism.randomize(model.features, rng=feature_rng(seed))
        perturbed = simulated_collection(model, split, label, labels, mechanism, reports)
    unseen = split.test if split.test.any() else split.labelled
    method = find_method(_METHOD).make({"seed": seed})
    return accuracy(method.fit(perturbed, split).predict(), model, unseen)


def _typical_domain_size(schema: FeatureSchema) -> int:
    return round(statistics.median(schema.domain_sizes)) if schema.domain_sizes else 2


def _assumptions(
    graph: Graph, schema: FeatureSchema, scenarios: Sequence[Scenario], label_share: float
) -> tuple[str, ...]:
    homophilies = sorted({scenario.homophily for scenario in scenarios})
    signals = sorted({scenario.feature_signal for scenario in scenarios})
    nodes = min(graph.num_nodes, _MAX_NODES)
    features = (
        f"All {schema.num_features} features have {_typical_domain_size(schema)} values; a feature follows the class "
        f"with a probability between {signals[0]:.0%} and {signals[-1]:.0%} and is random otherwise.",
        f"{label_share:.0%} of people report a label, everyone reports features if asked, and nobody lies.",
    )
    alone = (f"{label_share:.0%} of people report a label, and nobody lies.",)
    return (
        f"Block models of {nodes:,} nodes with the graph's mean degree, {2 * graph.num_edges / graph.num_nodes:.1f}; "
        "degrees and class sizes are random.",
        f"Between {homophilies[0]:.0%} and {homophilies[-1]:.0%} of edges join people of one of the "
        f"{schema.num_classes} classes.",
        *(features if schema.num_features else alone),
        f"Predictions are those of {find_method(_METHOD).title}, for people who report no label.",
    )
