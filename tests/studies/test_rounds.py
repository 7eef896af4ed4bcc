"""The study of rounds: what a simulated series becomes."""

from __future__ import annotations

import numpy as np
from studies.rounds import simulate_rounds

from veilgraph.datasets import csbm
from veilgraph.graph import Split
from veilgraph.privacy.accounting import guarantee_of
from veilgraph.privacy.mechanisms import NOT_ASKED, LongitudinalFeatures, LongitudinalGRR
from veilgraph.privacy.mechanisms.round_evidence import NO_REPORT

PRIVATE = csbm(300, num_features=5, seed=0)
SPLIT = Split.random(300, seed=0)


def test_rounds_become_one_class_for_each_labelled_node_that_all_reports_name_better_than_one() -> None:
    series = LongitudinalGRR(PRIVATE.schema.num_classes, 8.0, 1.0, rounds=12, values=2)
    found = {
        latest: simulate_rounds(PRIVATE, series, SPLIT, rng=np.random.default_rng(0), latest=latest)
        for latest in (True, False)
    }
    for perturbed in found.values():
        assert (perturbed.has_label == SPLIT.labelled).all()
        assert (perturbed.labels[SPLIT.test] == NO_REPORT).all()
        assert perturbed.guarantee.rounds is not None
        right = float((perturbed.named_classes().argmax(axis=1) == PRIVATE.labels)[SPLIT.labelled].mean())
        keep, people = float(perturbed.label_mechanism.channel.keep), int(SPLIT.labelled.sum())
        assert abs(right - keep) < 5 * (keep * (1 - keep) / people) ** 0.5
    assert found[False].label_mechanism.channel.keep > found[True].label_mechanism.channel.keep


def test_features_in_rounds_become_one_code_of_each_sampled_feature() -> None:
    series = LongitudinalGRR(PRIVATE.schema.num_classes, 8.0, 1.0, rounds=6)
    features = LongitudinalFeatures(PRIVATE.schema.domain_sizes, 2, 8.0, 2.0, rounds=6)
    perturbed = simulate_rounds(PRIVATE, series, SPLIT, features=features, finished=4, rng=np.random.default_rng(0))
    asked = perturbed.features != NOT_ASKED
    assert (asked.sum(axis=1) == 2).all()
    assert perturbed.feature_rounds is not None
    assert (perturbed.feature_rounds[:, 4:] == NOT_ASKED).all()
    assert isinstance(perturbed.feature_mechanism, LongitudinalFeatures)
    assert perturbed.feature_mechanism.people == (0, 0, 0, PRIVATE.graph.num_nodes)
    for i in range(PRIVATE.schema.num_features):
        said, true = perturbed.features[asked[:, i], i], PRIVATE.features[asked[:, i], i]
        keep = float(perturbed.feature_mechanism.channel(i).keep)
        assert abs(float((said == true).mean()) - keep) < 5 * (keep * (1 - keep) / len(true)) ** 0.5
    assert perturbed.guarantee.terms == guarantee_of(features, series).terms
