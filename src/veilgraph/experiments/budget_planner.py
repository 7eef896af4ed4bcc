"""Plan of a collection: how to spend a total epsilon, what each alternative costs, and which accuracy to expect."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from veilgraph.campaign.once import check_device_limits
from veilgraph.datasets import PrivateGraph
from veilgraph.datasets.csbm import draw_features
from veilgraph.errors import BudgetError, CampaignError, RunError
from veilgraph.evaluation import accuracy
from veilgraph.experiments.label_fields import LabelFields, assortativity, divide
from veilgraph.experiments.simulation import feature_rng, label_rng, randomize_labels, simulated_collection
from veilgraph.graph import Graph, PublicAttributes, Split
from veilgraph.graph.clustering import cluster
from veilgraph.models.base import FitTask
from veilgraph.models.registry import find_method
from veilgraph.models.veil import Veil
from veilgraph.privacy.accounting import Guarantee, guarantee_of
from veilgraph.privacy.epsilon import check_epsilon
from veilgraph.privacy.mechanisms import GRR, GRRFS, JointGRR
from veilgraph.privacy.mechanisms.registry import LabelOnce, best_label_mechanism
from veilgraph.privacy.notebook_table import html_table
from veilgraph.privacy.plain_text import counted
from veilgraph.privacy.schema import FeatureSchema
from veilgraph.progress import Progress, no_progress
from veilgraph.reconstruct.attribute_components import smoothed_components
from veilgraph.reconstruct.operators import operators_of

LABEL_SHARES = (0.75, 0.5, 0.25, 0.1)
"""Candidate shares of the total for the label, where features are asked for too."""

NUM_SCENARIOS = 19
"""Scenarios of the interval: a 20th independent draw is outside the range of 19 others with probability 10%."""

NUM_COMPARED = 5
"""Scenarios in which all candidates are compared."""

TOLD_SHARE = 0.5
"""Share of the people whose answers follow public columns, where simulations show what these columns add."""

_NEAREST = 5
"""Scenarios that tell what to expect at one assortativity."""

FEATURE_SIGNALS = (0.0, 0.3)
"""Range of the dependence of features on the class, from 0 (none) to 1 (entirely)."""

_TOLD_SIZE = 8
"""Effective number of components of public columns that a simulated answer follows."""

_GRR_FS_SHARE = 0.5
_VALIDATION_SHARE = 1 / 3
_NEGLIGIBLE_LOSS = 0.005
"""Accuracy, as a fraction. A candidate within this loss is as good as another."""
MAX_ENTRIES = 2**25
"""Size of a simulation: messages of belief propagation, and values of features. Larger graphs are simulated in part."""
_NODES_PER_CLASS = 4
"""Nodes for each class that a part of a graph has at least."""

FeatureMechanism = JointGRR | GRRFS
Range = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One draw of what cannot be known before a collection.

    Attributes:
        homophily: share of edges that join two people of one class.
        assortativity: the homophily above chance, from 0 to 1.
        largest_class: share of the largest class.
        feature_signal: dependence of features on the class, from 0 (none) to 1 (entirely).
        accuracy: accuracy of the recommended candidate.
    """

    homophily: float
    assortativity: float
    largest_class: float
    feature_signal: float
    accuracy: float


@dataclass(frozen=True)
class ScenarioGroup:
    """Scenarios that have something in common, with the range of what differs between them."""

    scenarios: tuple[Scenario, ...]

    @property
    def accuracy(self) -> Range:
        """Range of the accuracy of the recommended candidate."""
        return _range_of([scenario.accuracy for scenario in self.scenarios])

    @property
    def largest_class(self) -> Range:
        """Range of the share of the largest class, which guessing it for everybody would reach."""
        return _range_of([scenario.largest_class for scenario in self.scenarios])

    @property
    def homophily(self) -> Range:
        """Range of the homophily."""
        return _range_of([scenario.homophily for scenario in self.scenarios])

    @property
    def assortativity(self) -> Range:
        """Range of the assortativity."""
        return _range_of([scenario.assortativity for scenario in self.scenarios])


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One way to spend an epsilon.

    Attributes:
        features: feature mechanism; None for a collection without features.
        label: label mechanism.
        accuracies: accuracy in each scenario of the comparison.
    """

    features: FeatureMechanism | None
    label: LabelOnce
    accuracies: tuple[float, ...] = ()

    @property
    def guarantee(self) -> Guarantee:
        """Privacy guarantee of a report."""
        return guarantee_of(self.features, self.label)

    @property
    def title(self) -> str:
        """What is asked, in a few words."""
        sets = self.label.set_size
        label = f"sets of {sets} of {self.label.domain_size} classes" if sets > 1 else "GRR"
        if self.features is None:
            return f"label alone by {label}"
        asked = f"{self.features.sampled} of {counted(self.features.num_features, 'feature')}"
        return f"label by {label}, {asked} by {self.features.title}"

    def loss_to(self, other: Candidate) -> tuple[float, float]:
        """Return the mean accuracy that is lost in comparison with another candidate, and its standard error."""
        losses = [theirs - own for theirs, own in zip(other.accuracies, self.accuracies, strict=True)]
        error = statistics.stdev(losses) / math.sqrt(len(losses)) if len(losses) > 1 else 0.0
        return statistics.mean(losses), error


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A recommended way to spend a total epsilon, with everything that it was chosen from.

    Attributes:
        recommended: the recommended candidate.
        candidates: all candidates that were compared.
        scenarios: all scenarios, by assortativity.
        assumptions: assumptions of the simulations, in sentences.
        told: accuracies of the recommended candidate in some scenarios where answers of half of the people follow
            public columns, with these columns and without them; None if nothing is public.
    """

    recommended: Candidate
    candidates: tuple[Candidate, ...]
    scenarios: tuple[Scenario, ...]
    assumptions: tuple[str, ...]
    told: tuple[tuple[float, ...], tuple[float, ...]] | None = None

    def _repr_html_(self) -> str:
        low, high = self.expected_accuracy
        facts: dict[str, object] = {
            "recommended": self.recommended.title,
            "expected accuracy, 90 % interval": f"{low:.0%} to {high:.0%}",
        }
        for group in self.thirds:
            facts["... at assortativity {:.2f} to {:.2f}".format(*group.assortativity)] = (
                "{:.0%} to {:.0%}, largest class {:.0%} to {:.0%}".format(*group.accuracy, *group.largest_class)
            )
        privacy = self.recommended.guarantee.in_words(theorem_1=False)[:1]
        return html_table("Plan", facts, notes=[*privacy, *self.assumptions])

    @property
    def all_scenarios(self) -> ScenarioGroup:
        """All scenarios as one group."""
        return ScenarioGroup(self.scenarios)

    @property
    def expected_accuracy(self) -> Range:
        """A 90% interval: from the lowest accuracy of the scenarios to the highest."""
        return self.all_scenarios.accuracy

    @property
    def thirds(self) -> tuple[ScenarioGroup, ...]:
        """Three groups of scenarios: those with low assortativity first."""
        groups = np.array_split(np.arange(len(self.scenarios)), min(3, len(self.scenarios)))
        return tuple(ScenarioGroup(tuple(self.scenarios[i] for i in group)) for group in groups)

    def near(self, assortativity: float) -> ScenarioGroup:
        """Return the scenarios whose assortativity is nearest."""
        nearest = sorted(self.scenarios, key=lambda each: abs(each.assortativity - assortativity))
        return ScenarioGroup(tuple(nearest[:_NEAREST]))


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """One collection to simulate.

    Attributes:
        private: simulated records on the public graph.
        candidate: mechanisms of the collection.
        label_share: share of the nodes that report a label.
        seed: seed of the split and the reports.
    """

    private: PrivateGraph
    candidate: Candidate
    label_share: float
    seed: int


Simulate = Callable[[Sequence[Trial]], Sequence[float]]
"""Returns the accuracy of each trial; see `simulated_accuracies`."""


@dataclass(frozen=True, kw_only=True)
class Beliefs:
    """What is known about people before they are asked.

    Attributes:
        label_share: share of the nodes that will report a label.
        homophily: range of the homophily, if something is known about it. Default: each assortativity from 0 to the
            largest that the graph allows is equally likely.
        feature_signal: range of the dependence of features on the class.
        public: columns about the nodes that are known without asking; None if there are none.
    """

    label_share: float = 0.75
    homophily: Range | None = None
    feature_signal: Range = FEATURE_SIGNALS
    public: PublicAttributes | None = None

    def __post_init__(self) -> None:
        if not 0 < self.label_share <= 1:
            raise RunError(f"label_share is {self.label_share}: it must be above 0 and at most 1")
        for name, bounds in (("homophily", self.homophily or (0.0, 1.0)), ("feature_signal", self.feature_signal)):
            if not 0 <= bounds[0] <= bounds[1] <= 1:
                raise RunError(f"{name} is {bounds[0]:g} to {bounds[1]:g}: give numbers in 0..1, the lower one first")


UNKNOWN = Beliefs()
"""Nothing is known about the homophily."""


def plan_collection(
    graph: Graph,
    schema: FeatureSchema,
    *,
    total_epsilon: float,
    beliefs: Beliefs = UNKNOWN,
    seed: int = 0,
    simulate: Simulate | None = None,
    max_entries: int = MAX_ENTRIES,
    progress: Progress = no_progress,
) -> Plan:
    """Find out how to spend a total user-level epsilon, from public information alone.

    Collections are simulated on the public graph itself, with labels that nobody has: draws from `LabelFields`. Class
    shares, homophily and the dependence of features on the class vary between scenarios. All candidates are compared
    in some of the scenarios. The one that asks for least is recommended, unless another one is clearly better. Its
    accuracies in all scenarios give the interval.

    Args:
        graph: the public graph.
        schema: features and classes to collect; without features, the label alone is planned.
        total_epsilon: user-level epsilon of a whole report, any two records.
        beliefs: what is known about people before they are asked.
        seed: seed of the simulations.
        simulate: simulates collections; default: `simulated_accuracies`.
        max_entries: size of a simulation above which a part of the graph is simulated.
        progress: called with the current step, the number of finished simulations, and the number of all.
    """
    simulate = simulated_accuracies if simulate is None else simulate
    if math.isinf(check_epsilon(total_epsilon)):
        raise RunError(f"total_epsilon is {total_epsilon}: without a limit there is nothing to divide")
    offered = _candidates(schema, total_epsilon)
    candidates = [*offered, *_at_half(schema, total_epsilon)]
    part, known = _simulated_on(graph, beliefs.public, schema, seed, max_entries)
    progress("labels on the graph", 0, 1)
    scenarios = _draw_scenarios(part, schema, beliefs, seed)
    compared = [round((i + 0.5) * NUM_SCENARIOS / NUM_COMPARED - 0.5) for i in range(NUM_COMPARED)]
    told = [] if known is None else [scenarios[number].told(known, seed + number) for number in compared]
    total = len(compared) * len(candidates) + NUM_SCENARIOS - len(compared) + 2 * len(told)

    def trial(drawn: _Drawn, number: int, candidate: Candidate) -> Trial:
        records = drawn.records(schema if candidate.features else schema.label_alone, seed + number)
        return Trial(private=records, candidate=candidate, label_share=beliefs.label_share, seed=seed + number)

    def run(what: str, wanted: Sequence[tuple[_Drawn, int, Candidate]], done: int) -> list[float]:
        found: list[float] = []
        size = 2 * max(2, torch.get_num_threads())
        for start in range(0, len(wanted), size):
            progress(what, done + start, total)
            found.extend(simulate([trial(*each) for each in wanted[start : start + size]]))
        return found

    pairs = [(scenarios[number], number, each) for number in compared for each in candidates]
    results = np.reshape(run("comparing designs", pairs, 0), (len(compared), len(candidates)))
    candidates = [
        replace(each, accuracies=tuple(column)) for each, column in zip(candidates, results.T.tolist(), strict=True)
    ]
    recommended = recommend(candidates[: len(offered)])
    accuracies = dict(zip(compared, recommended.accuracies, strict=True))
    others = [number for number in range(NUM_SCENARIOS) if number not in accuracies]
    found = run("expected accuracy", [(scenarios[number], number, recommended) for number in others], len(pairs))
    accuracies |= zip(others, found, strict=True)
    both = [
        run(
            "public columns", [(each, number, recommended) for number, each in zip(compared, drawn, strict=True)], total
        )
        for drawn in ([told, [replace(each, public=None) for each in told]] if told else [])
    ]
    progress("done", total, total)
    return Plan(
        recommended=recommended,
        candidates=tuple(candidates),
        scenarios=tuple(drawn.scenario(accuracies[number]) for number, drawn in enumerate(scenarios)),
        assumptions=tuple(_assumptions(graph, part, schema, scenarios, beliefs)),
        told=(tuple(both[0]), tuple(both[1])) if both else None,
    )


def recommend(candidates: Sequence[Candidate]) -> Candidate:
    """Return the first candidate to which the best one is not clearly superior.

    Clearly superior means: by more than half a point on average over the scenarios, and by more than two standard
    errors of the paired differences. Candidates come in the order of what they ask of people, least first.
    """
    best = max(candidates, key=lambda each: statistics.mean(each.accuracies))

    def clearly_worse(each: Candidate) -> bool:
        loss, error = each.loss_to(best)
        return loss > max(_NEGLIGIBLE_LOSS, 2 * error)

    return next(each for each in candidates if not clearly_worse(each))


def _candidates(schema: FeatureSchema, total: float) -> list[Candidate]:
    """Return designs of a campaign at this total, least first; last the label by GRR, to compare it with sets."""
    sizes, classes = schema.domain_sizes, schema.num_classes
    label = best_label_mechanism(classes, total)
    found = [Candidate(features=None, label=label)]
    divisions = [(share, JointGRR.best) for share in LABEL_SHARES] + [(_GRR_FS_SHARE, _grr_fs)]
    for share, mechanism in divisions if sizes else ():
        with suppress(BudgetError, CampaignError):  # too little for these domains, or too much for a phone
            check_device_limits(features := mechanism(sizes, total * (1 - share)))
            found.append(Candidate(features=features, label=best_label_mechanism(classes, total * share)))
    if label.set_size > 1:
        found.append(Candidate(features=None, label=GRR(classes, total)))
    return found


def _at_half(schema: FeatureSchema, total: float) -> list[Candidate]:
    """Return the label alone at half the total, to show what the other half buys; nothing if that is too little."""
    try:
        return [Candidate(features=None, label=best_label_mechanism(schema.num_classes, total / 2))]
    except BudgetError:
        return []


def _grr_fs(sizes: Sequence[int], epsilon: float) -> GRRFS:
    """Return GRR-FS with the m whose estimates have the least variance: all features."""
    return GRRFS(tuple(sizes), sampled=len(sizes), epsilon=epsilon / len(sizes))


def _simulated_on(
    graph: Graph, public: PublicAttributes | None, schema: FeatureSchema, seed: int, max_entries: int
) -> tuple[Graph, PublicAttributes | None]:
    """Return the graph of the simulations, or a part of it, and the public columns of its nodes.

    Simulated labels follow who is linked, and nothing else that is known about links: it is left out.
    """
    nodes = _part(graph, schema, seed, max_entries)
    if nodes is None:
        return replace(graph, links=None), public
    part = replace(graph, links=None).renumbered(np.where(nodes, nodes.cumsum() - 1, -1), None, int(nodes.sum()))
    return part, None if public is None else public.select(nodes)


def _part(graph: Graph, schema: FeatureSchema, seed: int, max_entries: int) -> NDArray[np.bool_] | None:
    """Return the nodes of the cluster with most edges, [nodes]; None if simulations on the whole graph are fast."""
    size = 12 * graph.num_edges * schema.num_classes + graph.num_nodes * schema.num_features
    most = graph.num_nodes // (_NODES_PER_CLASS * schema.num_classes)
    if (clusters := min(-(-size // max_entries), most)) <= 1:
        return None
    parts = cluster(graph, clusters, seed=seed)
    first, second = graph.edges
    within = parts[first] == parts[second]
    return np.asarray(parts == np.bincount(parts[first[within]]).argmax())


@dataclass(frozen=True, kw_only=True, eq=False)
class _Drawn:
    """A scenario with its labels [nodes], and the public columns that predictions read."""

    graph: Graph
    labels: NDArray[np.int64]
    feature_signal: float
    public: PublicAttributes | None = None

    def records(self, schema: FeatureSchema, seed: int) -> PrivateGraph:
        features = draw_features(self.labels, schema, self.feature_signal, np.random.default_rng([seed, 3]))
        return PrivateGraph(
            name="simulated records",
            graph=self.graph,
            schema=schema,
            features=features,
            labels=self.labels,
            public=self.public,
        )

    def told(self, public: PublicAttributes, seed: int) -> _Drawn:
        """Return the scenario in which half of the people have the class that a random function of columns gives."""
        rng = np.random.default_rng([seed, 5])
        columns = smoothed_components(public, operators_of(self.graph, torch.device("cpu")), 0).shrunk(_TOLD_SIZE)
        shares = np.bincount(self.labels) / len(self.labels)
        strengths = columns.double().numpy() @ rng.standard_normal((columns.shape[1], len(shares)))
        follows = rng.random(len(self.labels)) < TOLD_SHARE
        return replace(self, labels=np.where(follows, divide(strengths, shares), self.labels), public=public)

    @property
    def homophily(self) -> float:
        first, second = self.graph.edges
        return float((self.labels[first] == self.labels[second]).mean())

    @cached_property
    def assortativity(self) -> float:
        return assortativity(self.graph, self.labels)

    def scenario(self, accuracy: float) -> Scenario:
        largest = float(np.bincount(self.labels).max() / len(self.labels))
        return Scenario(
            homophily=self.homophily,
            assortativity=self.assortativity,
            largest_class=largest,
            feature_signal=self.feature_signal,
            accuracy=accuracy,
        )


def _draw_scenarios(graph: Graph, schema: FeatureSchema, beliefs: Beliefs, seed: int) -> list[_Drawn]:
    """Draw scenarios, one for each of as many equally likely ranges, and sort them by assortativity."""
    fields, rng = LabelFields(graph=graph, num_classes=schema.num_classes, seed=seed), np.random.default_rng([seed, 4])
    drawn = []
    for quantile in (np.arange(NUM_SCENARIOS) + rng.random(NUM_SCENARIOS)) / NUM_SCENARIOS:
        if beliefs.homophily is None:
            labels = fields.draw(rng, wanted=fields.largest_assortativity * quantile)
        else:
            low, high = beliefs.homophily
            labels = fields.draw(rng, homophily=low + quantile * (high - low))
        signal = float(rng.uniform(*beliefs.feature_signal)) if schema.num_features else 0.0
        drawn.append(_Drawn(graph=graph, labels=labels, feature_signal=signal))
    return sorted(drawn, key=lambda each: each.assortativity)


def simulated_accuracies(trials: Sequence[Trial]) -> Sequence[float]:
    """Return the accuracy of Veil in each trial, for people who report no label. Trials are fitted together."""
    tasks = [_task(trial) for trial in trials]
    for _ in Veil.fit_together(tasks):
        pass
    return [_score(trial, task) for trial, task in zip(trials, tasks, strict=True)]


def _task(trial: Trial) -> FitTask[Veil]:
    private, share, seed = trial.private, trial.label_share, trial.seed
    split = Split.random(
        private.graph.num_nodes, seed=seed, train=(1 - _VALIDATION_SHARE) * share, validation=_VALIDATION_SHARE * share
    )
    label, features = trial.candidate.label, trial.candidate.features
    labels = randomize_labels(private, label, split, rng=label_rng(seed))
    reports = None if features is None else features.randomize(private.features, rng=feature_rng(seed))
    perturbed = simulated_collection(private, split, label, labels, features, reports)
    return FitTask(method=Veil(seed=seed, device="auto"), perturbed=perturbed, split=split)


def _score(trial: Trial, task: FitTask[Veil]) -> float:
    unseen = task.split.test if task.split.test.any() else task.split.labelled
    return accuracy(task.method.predict(), trial.private, unseen)


def _range_of(numbers: Sequence[float]) -> Range:
    return min(numbers), max(numbers)


def _percents(bounds: Range) -> str:
    """Return a range of shares as text, or the share where both ends read the same."""
    return " to ".join(dict.fromkeys(f"{end:.0%}" for end in bounds))


def _assumptions(
    graph: Graph,
    part: Graph,
    schema: FeatureSchema,
    scenarios: Sequence[_Drawn],
    beliefs: Beliefs,
) -> Iterator[str]:
    whole = part.num_nodes == graph.num_nodes
    where = "Simulated on your graph" if whole else f"Simulated on a part of your graph, {part.num_nodes:,} nodes"
    yield f"{where}: {NUM_SCENARIOS} draws of labels that vary smoothly over it, mixed with chance."
    drawn = _percents(_range_of([each.homophily for each in scenarios]))
    joined = f"edges join people of one of the {schema.num_classes} classes, whose sizes are random"
    if beliefs.homophily is None:
        yield f"It is unknown how many {joined}: {drawn} in the draws."
    else:
        believed = _percents(beliefs.homophily)
        yield f"As you said, {believed} of {joined}. The graph and chance made it {drawn} in the draws."
    if schema.num_features:
        signals = _percents(_range_of([each.feature_signal for each in scenarios]))
        yield (
            f"Each of the {schema.num_features} features follows the class with a probability of {signals}, and is "
            "random otherwise."
        )
    everyone = "everyone reports features if asked, " if schema.num_features else ""
    yield f"{beliefs.label_share:.0%} of people report a label, {everyone}and nobody lies."
    yield f"Predictions are those of {find_method('veil').title}, for people who report no label."
