"""The study of poisoned reports: lies are possible reports, and push what they are said to push."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from studies.poison import ATTACKS, COLLECTIONS, PLACEMENTS, inject, measure

from veilgraph.datasets import csbm
from veilgraph.experiments import simulate
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.frequency import count_named, estimate_frequencies
from veilgraph.privacy.mechanisms import GRR, LabelMechanism, SubsetSelection

NODES, TARGET = 2000, 3
HOSTILE = np.arange(NODES) % 10 == 0


def attacked(attack: str, mechanism: LabelMechanism) -> tuple[PerturbedGraph, PerturbedGraph]:
    """Return honest reports, and reports of which a tenth are lies about `TARGET`."""
    private = csbm(NODES, num_classes=mechanism.domain_size, num_features=4, seed=0)
    split = Split.random(NODES, seed=0, train=0.6, validation=0.2)
    budget = PrivacyBudget(epsilon_x=1.0, sampled=2, epsilon_y=mechanism.epsilon)
    honest = simulate(private, budget, split, rng=np.random.default_rng(0), label=lambda *_: mechanism)
    return honest, ATTACKS[attack](honest, private, HOSTILE, TARGET, np.random.default_rng(1))


@pytest.mark.parametrize("mechanism", [GRR(7, 1.0), SubsetSelection(7, 1.0), SubsetSelection(18, 1.0)], ids=str)
@pytest.mark.parametrize("attack", ["constant", "copies", "labels"])
def test_liars_who_do_not_randomize_name_the_target_and_nobody_else_changes(
    attack: str, mechanism: LabelMechanism
) -> None:
    honest, lies = attacked(attack, mechanism)
    mechanism.check_reports(lies.labels[lies.has_label])
    liars = HOSTILE & lies.has_label
    named = mechanism.named(lies.labels[liars])
    assert named[:, TARGET].all()
    assert np.array_equal(lies.labels[~liars], honest.labels[~liars])
    # All liars agree on a set, unless its other classes are random.
    assert (named == named[0]).all() == (attack != "labels" or mechanism.set_size == 1)


@pytest.mark.parametrize("mechanism", [GRR(7, 1.0), SubsetSelection(7, 1.0), SubsetSelection(18, 1.0)], ids=str)
def test_liars_move_the_estimate_of_the_target_as_the_formula_says(mechanism: LabelMechanism) -> None:
    """A share f of liars stands for f (1 - other) / gain without randomizing, and for f with it.

    The reports of all others are the same before and after, so that the liars' own reports are the only error.
    """
    for attack, reach in (("labels", (1 - mechanism.channel.other) / mechanism.channel.gain), ("invented", 1)):
        honest, lies = attacked(attack, mechanism)
        sent, liars = honest.has_label, HOSTILE & honest.has_label
        means = [count_named(each.labels[sent], mechanism) / sent.sum() for each in (honest, lies)]
        before, after = (estimate_frequencies(mean, mechanism.channel)[TARGET] for mean in means)
        share = liars.sum() / sent.sum()
        truth = 1 / mechanism.domain_size
        # A report that names a class or not has a variance of 1/4 at most; two of them where liars randomize.
        error = np.sqrt(2 * liars.sum() / 4) / sent.sum() / float(mechanism.channel.gain)
        assert after - before == pytest.approx(share * (float(reach) - truth), abs=4 * error)


@pytest.mark.parametrize("name", ["label-sets", "label-grr"])
def test_a_draw_scores_all_methods_with_and_without_screening(name: str) -> None:
    private = csbm(400, num_classes=5, num_features=0, homophily=0.9, seed=0)
    row = measure(private, COLLECTIONS[name], "labels", 0.1, 0)
    scores = {f"{method}{screened}" for method in ("veil", "control") for screened in ("", "_screened")}
    assert set(row) == scores | {"found", "wrongly_found", "contamination"}
    assert row["wrongly_found"] == 0
    assert row["veil"] > 20


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_placements_choose_different_reporting_nodes(placement: str) -> None:
    honest, _ = attacked("labels", GRR(7, 1.0))
    quiet = np.arange(NODES) % 2 == 0
    some = replace(honest, has_features=np.zeros(NODES, dtype=np.bool_), has_label=honest.has_label & ~quiet)
    chosen = PLACEMENTS[placement](some, 100, np.random.default_rng(0))
    assert len(set(chosen.tolist())) == 100
    assert some.has_label[chosen].all()


def test_a_region_is_closer_together_than_random_nodes() -> None:
    honest, _ = attacked("labels", GRR(7, 1.0))
    within = {}
    for placement in ("region", "random"):
        chosen = PLACEMENTS[placement](honest, 100, np.random.default_rng(0))
        within[placement] = np.isin(honest.graph.edges, chosen).all(axis=0).sum()
    # Breadth-first order joins each node to one before it. Random nodes have both ends of an edge by chance alone.
    chance = honest.graph.num_edges * (100 / NODES) ** 2
    assert within["region"] >= 99
    assert within["random"] == pytest.approx(chance, abs=4 * chance**0.5)


def test_injected_nodes_name_the_target_and_join_victims_alone() -> None:
    honest, _ = attacked("labels", SubsetSelection(7, 1.0))
    victims = np.arange(50)
    larger = inject(honest, victims, TARGET, np.random.default_rng(0))
    new = np.arange(larger.graph.num_nodes) >= NODES
    assert new.sum() == 50
    assert larger.label_mechanism.named(larger.labels[new])[:, TARGET].all()
    added = larger.graph.edges[:, new[larger.graph.edges].any(axis=0)]
    assert np.isin(added.min(axis=0), victims).all()
    assert larger.graph.num_edges == honest.graph.num_edges + added.shape[1]
    assert np.array_equal(larger.labels[:NODES], honest.labels)
