"""Honest reports pass, whatever the records are; reports that were not randomized do not."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from veilgraph.campaign.screening import (
    LABEL_LEVEL,
    find_rare_values,
    flag_copies,
    flag_equal_sets,
    flag_patterns,
    flag_unlikely_labels,
    label_p_values,
    largest_plausible_agreement,
    most_failures,
    screen,
    smallest_implausible_group,
)
from veilgraph.datasets import csbm
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import GRR, GRRFS, LabelMechanism, SubsetSelection
from veilgraph.privacy.schema import FeatureSchema

BUDGET = PrivacyBudget(epsilon_x=1.0, epsilon_y=3.0, sampled=10)


@pytest.fixture(scope="module")
def honest() -> PerturbedGraph:
    private = csbm(2000, seed=0)
    split = Split.random(2000, seed=0, train=0.7, validation=0.3)
    return simulate(private, BUDGET, split, rng=np.random.default_rng(0))


def of_records(records: np.ndarray, mechanism: GRRFS, seed: int) -> PerturbedGraph:
    """Everyone reports; labels do not matter."""
    nodes = len(records)
    ring = np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes])
    return PerturbedGraph(
        graph=Graph.from_edges(ring, nodes),
        schema=FeatureSchema.binary(records.shape[1], classes=["a", "b"]),
        features=mechanism.randomize(records, rng=np.random.default_rng(seed)),
        labels=np.zeros(nodes, dtype=np.int64),
        has_features=np.ones(nodes, dtype=np.bool_),
        has_label=np.zeros(nodes, dtype=np.bool_),
        feature_mechanism=mechanism,
        label_mechanism=GRR(2, 1.0),
    )


def label_reports(mechanism: LabelMechanism, labels: np.ndarray, graph: Graph, seed: int) -> PerturbedGraph:
    """Everyone reports the label alone."""
    nodes = graph.num_nodes
    return PerturbedGraph(
        graph=graph,
        schema=FeatureSchema.binary(0, classes=[f"c{i}" for i in range(mechanism.domain_size)]),
        features=np.zeros((nodes, 0), dtype=np.uint8),
        labels=mechanism.randomize(labels, rng=np.random.default_rng(seed)),
        has_features=np.zeros(nodes, dtype=np.bool_),
        has_label=np.ones(nodes, dtype=np.bool_),
        feature_mechanism=None,
        label_mechanism=mechanism,
    )


@pytest.mark.parametrize("sampled", [1, 5, 20])
def test_people_who_all_hold_the_same_extreme_record_are_not_flagged(sampled: int) -> None:
    """The worst case for copies and patterns: every record is the pattern. 50 draws at level 0.01 each."""
    mechanism = GRRFS((2,) * 20, sampled=sampled, epsilon=1.0)
    records = np.ones((200, 20), dtype=np.uint8)
    accused = [
        bool(flag_copies(p, 0.01).any() or flag_patterns(p, 0.01).any())
        for p in (of_records(records, mechanism, seed) for seed in range(50))
    ]
    # At most Binomial(50, 0.02): five or more have probability below 0.004.
    assert sum(accused) < 5


def test_a_group_of_copies_or_a_constant_report_is_flagged_and_nobody_else(honest: PerturbedGraph) -> None:
    features = honest.features.copy()
    features[:20] = features[0]
    flagged = flag_copies(replace(honest, features=features), 0.01)
    assert flagged[:20].all()
    assert not flagged[20:].any()
    features[7] = 1
    flagged = flag_patterns(replace(honest, features=features), 0.01)
    assert flagged.nonzero()[0].tolist() == [7]


def test_where_reports_have_few_values_no_number_of_copies_is_implausible() -> None:
    mechanism = GRRFS((2,), sampled=1, epsilon=6.0)
    assert smallest_implausible_group(mechanism, 100, 0.01) == float("inf")
    assert largest_plausible_agreement(mechanism, 0.01) == 1


def test_the_bound_on_agreement_holds_by_simulation() -> None:
    mechanism = GRRFS((2,) * 30, sampled=6, epsilon=2.0)
    reports = mechanism.randomize(np.ones((100_000, 30), dtype=np.uint8), rng=np.random.default_rng(0))
    agreeing = reports.sum(axis=1)
    for level in (0.1, 0.01, 0.001):
        # Hoeffding is a bound: the share is well below the level, so no allowance is needed.
        assert (agreeing > largest_plausible_agreement(mechanism, level)).mean() <= level


def test_honest_labels_fail_at_their_level_at_most(honest: PerturbedGraph) -> None:
    none = np.zeros(honest.graph.num_nodes, dtype=np.bool_)
    p_values = label_p_values(honest, ignoring=none)
    reported = int(honest.has_label.sum())
    for level in (0.05, 0.1):
        failing = int(((p_values <= level) & honest.has_label).sum())
        # Three standard deviations of a binomial.
        assert failing <= level * reported + 3 * np.sqrt(reported * level * (1 - level))


@pytest.mark.parametrize("homophily", [0.9, 0.6])
@pytest.mark.parametrize("mechanism", [SubsetSelection(18, 3.0), SubsetSelection(7, 3.0, size=2)], ids=str)
def test_honest_label_sets_fail_at_their_level_at_most(mechanism: SubsetSelection, homophily: float) -> None:
    nodes, level = 2000, 0.05
    private = csbm(nodes, num_classes=mechanism.domain_size, homophily=homophily, seed=0)
    failing = 0
    for seed in range(5):
        reports = label_reports(mechanism, private.labels, private.graph, seed)
        failing += int((label_p_values(reports, ignoring=np.zeros(nodes, dtype=np.bool_)) <= level).sum())
    assert float(mechanism.likelihood.other) < level  # or nobody could fail
    assert 0 < failing <= 5 * nodes * level + 3 * np.sqrt(5 * nodes * level * (1 - level))


@pytest.mark.parametrize("mechanism", [GRR(18, 3.0), SubsetSelection(18, 3.0)], ids=str)
def test_where_neighbours_say_nothing_the_level_grows_by_e_to_the_epsilon_at_most(mechanism: LabelMechanism) -> None:
    private, level = csbm(2000, num_classes=18, homophily=1 / 18, seed=0), 0.05
    reports = label_reports(mechanism, private.labels, private.graph, 0)
    failing = float((label_p_values(reports, ignoring=np.zeros(2000, dtype=np.bool_)) <= level).mean())
    assert 0 < failing <= level * np.exp(mechanism.epsilon)


@pytest.mark.parametrize(
    "mechanism",
    [GRR(5, 2.0), SubsetSelection(5, 4.0, size=2), SubsetSelection(5, 6.0, size=3), SubsetSelection(4, 0.5)],
    ids=str,
)
def test_a_p_value_is_the_probability_of_naming_no_likelier_class(mechanism: GRR | SubsetSelection) -> None:
    """By enumeration of all reports, for the class shares that the neighbours' reports suggest."""
    classes, channel = mechanism.domain_size, mechanism.channel
    private = csbm(60, num_classes=classes, seed=0)
    reports = label_reports(mechanism, private.labels, private.graph, 0)
    ignored = np.arange(60) % 7 == 0
    found = label_p_values(reports, ignoring=ignored, block_entries=7 * classes)
    named = mechanism.named(reports.labels)
    sent = named * ~ignored[:, None]
    adjacency = np.zeros((60, 60))
    adjacency[tuple(private.graph.edge_index)] = 1
    around = adjacency @ sent + adjacency @ (adjacency @ sent) - private.graph.degrees[:, None] * sent
    overall = sent.sum(axis=0) / (~ignored).sum()
    expected = (around + classes * overall) / (around.sum(axis=1, keepdims=True) / mechanism.set_size + classes)
    raised = np.maximum(expected - float(channel.other), 0)
    shares = raised / raised.sum(axis=1, keepdims=True)
    chances = {
        report: np.array([float(mechanism.probability(report, (c,))) for c in range(classes)])
        for report in mechanism.reports()
    }
    for node in range(60):
        best = shares[node][named[node]].max()
        exact = sum(
            shares[node] @ chance
            for report, chance in chances.items()
            if max(shares[node][c] for c in report) <= best + 1e-9
        )
        assert found[node] == pytest.approx(max(exact, float(mechanism.likelihood.other)), rel=1e-6)


def p_values_of_dense_arrays(perturbed: PerturbedGraph, ignored: np.ndarray) -> np.ndarray:
    """Return the p-values by their definition, with arrays of all nodes and classes at once."""
    graph, classes = perturbed.graph, perturbed.schema.num_classes
    one_hot = np.eye(classes)[perturbed.labels] * (perturbed.has_label & ~ignored)[:, None]
    adjacency = np.zeros((graph.num_nodes, graph.num_nodes))
    adjacency[tuple(graph.edge_index)] = 1
    near = adjacency @ one_hot
    around = near + adjacency @ near - graph.degrees[:, None] * one_hot
    overall = one_hot.sum(axis=0) / one_hot.sum()
    expected = (around + classes * overall) / (around.sum(axis=1, keepdims=True) + classes)
    other = float(perturbed.label_mechanism.channel.other)
    raised = np.maximum(expected - other, 0)
    total = raised.sum(axis=1, keepdims=True)
    shares = np.where(total > 0, raised / np.where(total > 0, total, 1), 1 / classes)
    expected = other + (1 - other * classes) * shares
    own = expected[np.arange(graph.num_nodes), perturbed.labels]
    p_values = np.where(expected <= own[:, None] * (1 + 1e-9), expected, 0).sum(axis=1)
    return np.where(perturbed.has_label, p_values, 1.0)


@pytest.mark.parametrize("block_entries", [1, 1000, 10**9])
def test_blocks_of_nodes_give_the_same_p_values_bit_for_bit(honest: PerturbedGraph, block_entries: int) -> None:
    ignored = np.arange(honest.graph.num_nodes) % 7 == 0
    found = label_p_values(honest, ignoring=ignored, block_entries=block_entries)
    assert np.array_equal(found, p_values_of_dense_arrays(honest, ignored))


def test_many_classes_need_little_memory() -> None:
    """A dense array of 20,000 nodes and 2,000 classes would have 320 MB; several were made."""
    nodes, classes, rng = 20_000, 2_000, np.random.default_rng(0)
    mechanism = GRRFS((2,), sampled=1, epsilon=1.0)
    perturbed = PerturbedGraph(
        graph=Graph.from_edges(rng.integers(nodes, size=(2, 60_000)), nodes),
        schema=FeatureSchema.binary(1, classes=[f"class {i}" for i in range(classes)]),
        features=np.zeros((nodes, 1), dtype=np.uint8),
        labels=rng.integers(classes, size=nodes),
        has_features=np.zeros(nodes, dtype=np.bool_),
        has_label=np.ones(nodes, dtype=np.bool_),
        feature_mechanism=mechanism,
        label_mechanism=GRR(classes, 3.0),
    )
    tracemalloc.start()
    try:
        screen(perturbed)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100e6


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("classes", [7, 18])
def test_no_label_set_is_flagged_below_what_the_likelihood_allows(epsilon: float, classes: int) -> None:
    """At such an epsilon, honest or not, no set of classes is implausible at 5 %."""
    mechanism = SubsetSelection(classes, epsilon)
    private = csbm(500, num_classes=classes, seed=0)
    reports = label_reports(mechanism, private.labels, private.graph, 0)
    least = float(mechanism.likelihood.other)
    assert LABEL_LEVEL < least <= label_p_values(reports, ignoring=np.zeros(500, dtype=np.bool_)).min()
    assert not screen(reports).labels.any()


def test_no_label_is_flagged_below_what_the_channel_allows(honest: PerturbedGraph) -> None:
    none = np.zeros(honest.graph.num_nodes, dtype=np.bool_)
    other = float(honest.label_mechanism.channel.other)
    assert label_p_values(honest, ignoring=none).min() >= other * (1 - 1e-9)
    assert not screen(honest, label_level=other * 0.99).labels.any()


def test_labels_against_their_neighbourhood_are_flagged_where_the_channel_allows_it() -> None:
    """Close-knit classes and little noise; with more of either, such labels are nothing unusual."""
    private = csbm(2000, homophily=0.97, seed=0)
    budget = replace(BUDGET, epsilon_y=5.0)
    split = Split.random(2000, seed=0, train=0.7, validation=0.3)
    clean = simulate(private, budget, split, rng=np.random.default_rng(0))
    hostile = np.arange(2000) % 50 == 0
    labels = np.where(hostile, (clean.labels + 2) % clean.schema.num_classes, clean.labels)
    found, _ = flag_unlikely_labels(replace(clean, labels=labels), 0.1, ignoring=np.zeros(2000, dtype=np.bool_))
    assert found[hostile].mean() > 0.5
    assert found[~hostile].mean() < 0.1


def test_label_sets_against_their_neighbourhood_are_flagged_where_the_likelihood_allows_it() -> None:
    """As above, with sets of two classes: every fiftieth node names two classes that are not its own."""
    mechanism = SubsetSelection(8, 5.0, size=2)
    private = csbm(2000, num_classes=8, homophily=0.97, seed=0)
    clean = label_reports(mechanism, private.labels, private.graph, 0)
    hostile = np.arange(2000) % 50 == 0
    lies = mechanism.encode([((y + 2) % 8, (y + 3) % 8) for y in private.labels.tolist()])
    labels = np.where(hostile[:, None], lies, clean.labels)
    found, _ = flag_unlikely_labels(replace(clean, labels=labels), 0.1, ignoring=np.zeros(2000, dtype=np.bool_))
    assert found[hostile].mean() > 0.5
    assert found[~hostile].mean() < 0.1


def test_the_number_of_failures_that_chance_explains_is_exact() -> None:
    """Enumerated: more than the returned number has a probability of at most the level, one less does not."""
    for reports, label_level, level in ((1, 0.05, 0.01), (40, 0.05, 0.01), (200, 0.1, 0.3), (0, 0.05, 0.01)):
        most = most_failures(reports, label_level, level)
        assert binom.sf(most, reports, label_level) <= level
        assert most == 0 or binom.sf(most - 1, reports, label_level) > level


@pytest.mark.parametrize("homophily", [0.95, 0.6, 0.4])
@pytest.mark.parametrize("mechanism", [GRR(4, 4.0), GRR(4, 7.0), SubsetSelection(18, 3.0)], ids=str)
def test_hardly_any_honest_collection_loses_a_label(mechanism: LabelMechanism, homophily: float) -> None:
    """Ten collections at 1 % each: two or more have probability below 0.005. Where classes stay together, some fail."""
    private = csbm(600, num_classes=mechanism.domain_size, homophily=homophily, seed=0)
    drawn = [screen(label_reports(mechanism, private.labels, private.graph, seed)) for seed in range(10)]
    assert sum(bool(screening.labels.any()) for screening in drawn) < 2
    assert homophily < 0.9 or any(screening.suspicions for screening in drawn)


def test_labels_are_left_out_as_far_as_they_are_beyond_chance() -> None:
    """A sixth of all nodes joined close-knit groups by three edges each, and names another group's class."""
    groups, honest, liars, mechanism = 8, 100, 20, GRR(8, 7.0)
    rng, nodes = np.random.default_rng(0), 8 * 120
    labels = np.arange(nodes) // (honest + liars)
    hostile = np.arange(nodes) % (honest + liars) >= honest
    starts = labels * (honest + liars)
    inside = [(v, starts[v] + rng.integers(honest)) for v in range(nodes) for _ in range(3 if hostile[v] else 20)]
    graph = Graph.from_edges(np.array([edge for edge in inside if edge[0] != edge[1]]).T, nodes)
    clean = label_reports(mechanism, labels, graph, 0)
    lies = (labels + rng.integers(1, groups, size=nodes)) % groups
    screening = screen(replace(clean, labels=np.where(hostile, lies, clean.labels)))
    (found,) = screening.suspicions
    assert found.beyond_chance == found.flagged - most_failures(nodes, LABEL_LEVEL, 0.01) > 30
    assert int(screening.labels.sum()) == found.beyond_chance
    # An honest label is another class with probability 0.6 %: about 5 against 160 lies.
    assert hostile[screening.labels].mean() > 0.8
    left = screening.exclude(clean).has_label
    assert np.array_equal(left, ~screening.labels)


@pytest.mark.parametrize(
    "mechanism", [SubsetSelection(18, 1.0), SubsetSelection(5, 1.0), SubsetSelection(4, 0.5)], ids=str
)
def test_people_of_one_class_send_equal_sets_no_more_often_than_allowed(mechanism: SubsetSelection) -> None:
    """The worst case: every set that holds the class is equally likely, and likelier than any other record makes it."""
    labels, level, draws = np.zeros(300, dtype=np.int64), 0.05, 200
    ring = of_records(np.ones((300, 1), dtype=np.uint8), GRRFS((2,), sampled=1, epsilon=1.0), 0).graph
    flagged = sum(
        bool(flag_equal_sets(label_reports(mechanism, labels, ring, seed), level).any()) for seed in range(draws)
    )
    assert flagged <= binom.isf(1e-4, draws, level)
    equal = mechanism.encode([range(mechanism.set_size)] * 300)
    assert flag_equal_sets(replace(label_reports(mechanism, labels, ring, 0), labels=equal), level).all()


def test_liars_who_agree_on_a_set_are_flagged_and_hardly_anyone_else() -> None:
    """40 of 2,000 people send the same 6 of 18 classes, which honest people send with probability 1e-4 at most."""
    mechanism, private = SubsetSelection(18, 1.0), csbm(2000, num_classes=18, seed=0)
    reports = label_reports(mechanism, private.labels, private.graph, 0)
    labels = reports.labels.copy()
    labels[:40] = mechanism.encode([(0, 2, 3, 5, 8, 13)])
    screening = screen(replace(reports, labels=labels))
    assert screening.labels[:40].all()
    # Mean 0.19 of 1,960: four or more have probability below 1e-4.
    assert screening.labels[40:].sum() < 4
    assert [suspicion.kind for suspicion in screening.suspicions] == ["sets"]
    left = screening.exclude(replace(reports, labels=labels))
    assert not left.has_label[:40].any()


@pytest.mark.parametrize("mechanism", [GRR(5, 1.0), SubsetSelection(5, 1.0), SubsetSelection(18, 0.5)], ids=str)
def test_a_class_that_nobody_has_is_called_too_rare_at_most_at_the_stated_rate(
    mechanism: GRR | SubsetSelection,
) -> None:
    """The worst case: everyone has class 0. 300 collections at 5 %; liars who avoid a class are noticed."""
    labels, level, draws = np.zeros(200, dtype=np.int64), 0.05, 300
    ring = of_records(np.ones((200, 1), dtype=np.uint8), GRRFS((2,), sampled=1, epsilon=1.0), 0).graph
    collections = (label_reports(mechanism, labels, ring, seed) for seed in range(draws))
    assert sum(bool(find_rare_values(each, level)) for each in collections) <= binom.isf(1e-4, draws, level)
    avoided = label_reports(mechanism, labels, ring, 0)
    lie = mechanism.encode([range(mechanism.set_size)]) if isinstance(mechanism, SubsetSelection) else 0
    assert find_rare_values(replace(avoided, labels=np.where(True, lie, avoided.labels)), level)


def test_values_that_nobody_reports_are_noticed(honest: PerturbedGraph) -> None:
    assert find_rare_values(honest, 0.01) == []
    labels = np.where(np.arange(2000) % 20 > 0, 0, honest.labels)
    (found,) = find_rare_values(replace(honest, labels=labels), 0.01)
    assert "the label were" in found.sentence
    ones = np.ones_like(honest.features)
    for rare in (5, 6):
        features = np.where(np.arange(ones.shape[1]) < rare, ones, honest.features)
        (found,) = find_rare_values(replace(honest, features=features), 0.01)
        assert found.flagged == rare
        assert ("' and more were not randomized" in found.sentence) is (rare > 5)


def test_honest_reports_leave_nothing_but_the_expected_labels(honest: PerturbedGraph) -> None:
    screening = screen(honest)
    assert not screening.reports.any()
    assert {suspicion.kind for suspicion in screening.suspicions} <= {"labels"}


def test_implausible_reports_are_masked(honest: PerturbedGraph) -> None:
    features = honest.features.copy()
    features[:5] = 1
    screening = screen(replace(honest, features=features))
    left = screening.exclude(honest)
    assert not left.has_features[:5].any()
    assert not left.has_label[:5].any()
    assert left.has_features[5:].all()
    assert int(honest.has_label.sum() - left.has_label.sum()) == int(
        (screening.labels | screening.reports)[honest.has_label].sum()
    )


def test_an_empty_collection_is_not_suspicious(honest: PerturbedGraph) -> None:
    nobody = np.zeros(honest.graph.num_nodes, dtype=np.bool_)
    assert screen(replace(honest, has_features=nobody, has_label=nobody)).suspicions == []


def test_a_report_is_tested_against_four_patterns_and_pays_for_each() -> None:
    """The chance that any of n honest reports agrees too well with any of four patterns is at most the level."""
    mechanism, nodes, level = GRRFS((2,) * 40, sampled=10, epsilon=1.0), 100, 0.01
    most, for_one = (largest_plausible_agreement(mechanism, level / (nodes * tests)) for tests in (4, 1))
    assert for_one < most
    records = np.random.default_rng(0).integers(0, 2, (nodes, 40)).astype(np.uint8)
    for agreeing, flagged in ((most, []), (most + 1, [7])):
        reports = records.copy()
        reports[7] = np.arange(40) >= agreeing
        perturbed = replace(of_records(records, mechanism, 0), features=reports)
        assert flag_patterns(perturbed, level).nonzero()[0].tolist() == flagged
