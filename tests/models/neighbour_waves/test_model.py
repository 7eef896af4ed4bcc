"""Classes from answers about private neighbours: no edge, no true value, and honest probabilities."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from veilgraph.datasets import csbm
from veilgraph.errors import FitError, GraphError
from veilgraph.experiments.private_neighbours import simulate_neighbour_waves
from veilgraph.graph import PerturbedGraph, PublicAttributes, Split
from veilgraph.models import NeighbourWaves
from veilgraph.models.neighbour_waves.public_evidence import public_evidence
from veilgraph.privacy.accounting import Released
from veilgraph.privacy.belief_table import BeliefTable, finest_scale
from veilgraph.privacy.mechanisms import GRR, JointGRR, NeighbourhoodClass, NeighbourhoodHistogram

PRIVATE = csbm(400, num_classes=3, mean_degree=12, num_features=0, seed=0)
SPLIT = Split.random(400, seed=0)
LABEL = GRR(3, 2.0)
HISTOGRAMS = [NeighbourhoodHistogram(3, epsilon, finest_scale(3)) for epsilon in (1.0, 3.0)]


@pytest.fixture(scope="module")
def collected() -> tuple[PerturbedGraph, NeighbourWaves]:
    return simulate_neighbour_waves(PRIVATE, SPLIT, LABEL, HISTOGRAMS, seed=0)


def correct(method: NeighbourWaves) -> float:
    return method.score(PRIVATE.labels, nodes=SPLIT.test)


def test_answers_tell_what_silence_hides(collected: tuple[PerturbedGraph, NeighbourWaves]) -> None:
    perturbed, method = collected
    floor = NeighbourWaves().fit(replace(perturbed, neighbour_waves=()), SPLIT)
    one_wave = NeighbourWaves().fit(replace(perturbed, neighbour_waves=perturbed.neighbour_waves[:1]), SPLIT)
    # 100 silent people: five standard errors of a share are at most 0.25.
    assert correct(method) > correct(floor) + 0.25
    assert correct(method) >= correct(one_wave)


def test_the_server_holds_no_edge_and_its_guarantee_has_every_wave(
    collected: tuple[PerturbedGraph, NeighbourWaves],
) -> None:
    perturbed, method = collected
    assert perturbed.graph.num_edges == 0
    assert perturbed.guarantee.lists is not None
    assert perturbed.guarantee.lists.one_entry == pytest.approx(4, abs=1e-9)
    assert method.epsilon_spent(perturbed.guarantee) == np.inf  # whole lists are not protected by histograms
    assert method.unmet_graph(has_edges=False) is None


def test_a_prediction_is_the_one_without_the_own_report_times_its_likelihood(
    collected: tuple[PerturbedGraph, NeighbourWaves],
) -> None:
    """It holds for all who teach no network: their report judges the prediction without it, or there is none."""
    perturbed, method = collected
    channel, without = perturbed.label_mechanism.likelihood, method.predict_without_own_report(perturbed)
    likelihood = np.where(perturbed.named_classes(), float(channel.keep), float(channel.other))
    expected = np.where(perturbed.has_label[:, None], without * likelihood, without)
    expected /= expected.sum(axis=1, keepdims=True)
    untaught = method.quiet(perturbed) | ~perturbed.has_label
    assert untaught.sum() > 100
    np.testing.assert_allclose(method.predict_proba()[untaught], expected[untaught], atol=1e-5)
    # Others are judged by the network of their fold, and predicted by all five.
    assert not np.allclose(method.predict_proba()[~untaught], expected[~untaught], atol=1e-3)


def test_a_saved_model_predicts_the_same_for_the_same_answers(
    collected: tuple[PerturbedGraph, NeighbourWaves], tmp_path: Path
) -> None:
    perturbed, method = collected
    method.save(tmp_path)
    loaded = NeighbourWaves.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(), method.predict_proba())
    np.testing.assert_allclose(loaded.predict_proba(perturbed), method.predict_proba(), atol=1e-6)
    with pytest.raises(FitError, match="there are none"):
        loaded.predict_proba(replace(perturbed, neighbour_waves=()))
    with pytest.raises(FitError, match="learned from other waves"):
        loaded.predict_proba(replace(perturbed, neighbour_waves=perturbed.neighbour_waves[:1]))


def test_reports_of_quiet_people_are_in_no_table(collected: tuple[PerturbedGraph, NeighbourWaves]) -> None:
    perturbed, method = collected
    quiet = method.quiet(perturbed)
    assert 0.05 < quiet.sum() / perturbed.has_label.sum() < 0.2
    changed = perturbed.labels.copy()
    changed[quiet] = (changed[quiet] + 1) % 3
    unheard = replace(perturbed, labels=changed, neighbour_waves=())
    first, second = (
        NeighbourWaves().fit(each, SPLIT).next_table(each) for each in (replace(perturbed, neighbour_waves=()), unheard)
    )
    # Class shares are estimated from all reports, so beliefs may move by a unit, but nobody becomes known.
    np.testing.assert_array_equal(first.codes == 0, second.codes == 0)
    assert (first.codes[quiet] == 0).all()
    assert set(method.unused_reports(perturbed).nodes) == set(np.flatnonzero(quiet))


def test_a_table_sharpens_what_is_believed_and_holds_no_report_of_a_quiet_person(
    collected: tuple[PerturbedGraph, NeighbourWaves],
) -> None:
    perturbed, method = collected
    quiet, table = method.quiet(perturbed), method.next_table(perturbed)
    changed = perturbed.labels.copy()
    changed[quiet] = (changed[quiet] + 1) % 3
    assert method.next_table(replace(perturbed, labels=changed)).codes.tolist() == table.codes.tolist()
    beliefs = (method.predict_without_own_report(perturbed) / method.prior_) ** 3
    expected = BeliefTable.of(beliefs / beliefs.sum(axis=1, keepdims=True), known=np.ones(400, dtype=np.bool_))
    unheard = quiet | ~perturbed.has_label
    np.testing.assert_array_equal(table.codes[unheard], expected.codes[unheard])


def test_people_who_answer_nothing_have_their_report_and_the_prior(
    collected: tuple[PerturbedGraph, NeighbourWaves],
) -> None:
    perturbed, _ = collected
    first = perturbed.neighbour_waves[0]
    half = np.arange(400) % 2 == 0
    partial = replace(perturbed, neighbour_waves=(replace(first, has_answer=half),))
    method = NeighbourWaves().fit(partial, SPLIT)
    silent = ~half & ~perturbed.has_label
    np.testing.assert_allclose(method.predict_proba()[silent], np.tile(method.prior_, (silent.sum(), 1)), atol=1e-6)


def test_in_turn_each_person_spends_one_wave() -> None:
    waves = [NeighbourhoodClass(3, 2.0)] * 2
    perturbed, method = simulate_neighbour_waves(PRIVATE, SPLIT, LABEL, waves, seed=0, in_turn=True)
    answered = np.stack([wave.has_answer for wave in perturbed.neighbour_waves])
    assert (answered.sum(axis=0) == 1).all()
    assert perturbed.guarantee.total_user_level == pytest.approx(4, abs=1e-9)
    assert correct(method) > 0.5


def test_a_wave_of_other_people_or_classes_is_refused(collected: tuple[PerturbedGraph, NeighbourWaves]) -> None:
    perturbed, _ = collected
    wave = perturbed.neighbour_waves[0]
    with pytest.raises(GraphError, match="a mask of shape"):
        replace(wave, has_answer=wave.has_answer[1:])
    with pytest.raises(GraphError, match="the answers are about 4 classes"):
        replace(wave, mechanism=NeighbourhoodClass(4, 1.0))


TOLD = csbm(600, num_classes=3, mean_degree=6, homophily=0.5, num_features=16, feature_signal=0.9, seed=0)
TOLD_SPLIT = Split.random(600, seed=0)
FEATURES = JointGRR.best(TOLD.schema.domain_sizes, 6.0)


@pytest.fixture(scope="module")
def told() -> tuple[PerturbedGraph, NeighbourWaves]:
    return simulate_neighbour_waves(TOLD, TOLD_SPLIT, LABEL, HISTOGRAMS, seed=0, features=FEATURES)


def without_features(perturbed: PerturbedGraph) -> PerturbedGraph:
    return replace(perturbed, has_features=np.zeros(600, dtype=np.bool_), feature_mechanism=None)


def test_features_that_tell_the_class_are_used(told: tuple[PerturbedGraph, NeighbourWaves]) -> None:
    perturbed, method = told
    alone = NeighbourWaves().fit(without_features(perturbed), TOLD_SPLIT)
    assert method.feature_factor_ > 0
    assert alone.feature_factor_ == 0
    scores = [each.score(TOLD.labels, nodes=TOLD_SPLIT.test) for each in (method, alone)]
    # 150 silent people: a difference of shares has a standard error of at most sqrt(1/150) = 0.082.
    assert scores[0] > scores[1] + 0.082


def test_features_are_used_without_any_answer(told: tuple[PerturbedGraph, NeighbourWaves]) -> None:
    first = replace(told[0], neighbour_waves=())
    method = NeighbourWaves().fit(first, TOLD_SPLIT)
    table = method.next_table(first)
    assert method.feature_factor_ > 0
    assert (table.codes != 0).mean() > 0.95  # also of people who are silent or quiet; a uniform belief has no code
    alone = without_features(first)
    known = NeighbourWaves().fit(alone, TOLD_SPLIT).next_table(alone).codes != 0
    assert not known[~alone.has_label].any()


def test_permuted_features_are_left_out_and_change_nothing(told: tuple[PerturbedGraph, NeighbourWaves]) -> None:
    perturbed = replace(told[0], neighbour_waves=())
    expected = NeighbourWaves().fit(without_features(perturbed), TOLD_SPLIT)
    opened = 0
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(600)
        method = NeighbourWaves().fit(replace(perturbed, features=perturbed.features[order]), TOLD_SPLIT)
        opened += (used := method.feature_factor_ > 0)
        assert used or np.array_equal(method.predict_proba(), expected.predict_proba())
    # With one weight that is not negative, chance gains more than one nat in 8 % of cases: 8 of 20 is one in 10,000.
    assert opened < 8


def test_the_guarantee_adds_features_label_and_waves(told: tuple[PerturbedGraph, NeighbourWaves]) -> None:
    perturbed, method = told
    guarantee = perturbed.guarantee
    assert guarantee.features_user_level == pytest.approx(6, abs=1e-9)
    assert guarantee.lists is not None
    stated: dict[str, Any] = guarantee.as_dict()
    both = stated["neighbours"]["lists_and_record"]
    assert both["one_entry"] == pytest.approx(12, abs=1e-3)
    assert any("12.0000 if the rest of the record differs as well" in each for each in guarantee.in_words())
    assert method.epsilon_spent(guarantee) == np.inf
    classes = guarantee.about(Released.FEATURES, Released.LABEL)
    assert method.epsilon_spent(classes) == pytest.approx(8, abs=1e-9)


def test_a_saved_model_reads_features_again(told: tuple[PerturbedGraph, NeighbourWaves], tmp_path: Path) -> None:
    perturbed, method = told
    method.save(tmp_path)
    loaded = NeighbourWaves.load(tmp_path)
    assert loaded.feature_factor_ == method.feature_factor_
    np.testing.assert_allclose(loaded.predict_proba(perturbed), method.predict_proba(), atol=1e-6)
    silent = loaded.predict_proba(without_features(perturbed))
    assert not np.allclose(silent, method.predict_proba())


def test_answers_that_teach_nothing_are_left_out(collected: tuple[PerturbedGraph, NeighbourWaves]) -> None:
    perturbed, _ = collected
    rng = np.random.default_rng(0)
    shuffled = tuple(replace(wave, answers=rng.permutation(wave.answers)) for wave in perturbed.neighbour_waves)
    method = NeighbourWaves().fit(replace(perturbed, neighbour_waves=shuffled), SPLIT)
    assert method.factor_ == 0
    assert np.allclose(method.predict_without_own_report(perturbed), method.prior_, atol=1e-6)


def test_public_attributes_join_the_answers(collected: tuple[PerturbedGraph, NeighbourWaves], tmp_path: Path) -> None:
    perturbed, without = collected
    told = PublicAttributes.from_codes(PRIVATE.labels[:, None].astype(np.int64), [3])
    known = replace(perturbed, public=told)
    method = NeighbourWaves().fit(known, SPLIT)
    assert method.public_factor_ > 0
    assert correct(method) > correct(without)
    assert (method.next_table(known).codes > 0).all()  # something is known of the silent, too
    method.save(tmp_path / "model")
    again = NeighbourWaves.load(tmp_path / "model")
    assert np.allclose(again.predict_proba(known), method.predict_proba(), atol=1e-6)
    with pytest.raises(FitError, match="give the same columns"):
        method.predict_proba(perturbed)


def test_public_attributes_that_say_nothing_change_nothing(collected: tuple[PerturbedGraph, NeighbourWaves]) -> None:
    perturbed, without = collected
    noise = PublicAttributes.from_codes(np.random.default_rng(1).integers(4, size=(400, 1)), [4])
    method = NeighbourWaves().fit(replace(perturbed, public=noise), SPLIT)
    assert method.public_factor_ == 0
    assert np.array_equal(method.predict_proba(), without.predict_proba())


def test_the_own_report_is_not_in_what_public_attributes_say(
    collected: tuple[PerturbedGraph, NeighbourWaves],
) -> None:
    perturbed, _ = collected
    told = PublicAttributes.from_codes(PRIVATE.labels[:, None].astype(np.int64), [3])
    folds = np.where(perturbed.has_label, np.arange(400) % 5, -1)
    node = int(np.flatnonzero(perturbed.has_label)[0])
    labels = perturbed.labels.copy()
    labels[node] = (labels[node] + 1) % 3
    before, after = (
        public_evidence(replace(perturbed, labels=each), told, folds)[node] for each in (perturbed.labels, labels)
    )
    # the prior is of all reports, and one of 300 moves it by 1 % at most
    assert np.allclose(before - before.mean(), after - after.mean(), atol=0.05)
