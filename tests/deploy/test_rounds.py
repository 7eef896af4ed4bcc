"""A series of rounds, from the store to predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.round_series import ROUNDS, RoundSeries
from tests.support.trained import train_files
from veilgraph.campaign import Report
from veilgraph.campaign.assemble import perturbed_graph, reports_of
from veilgraph.deploy import Model, predict_nodes
from veilgraph.errors import CampaignError
from veilgraph.privacy.mechanisms import NOT_ASKED, LongitudinalFeatures, RoundEvidence


@pytest.fixture(scope="module", params=["label", "features"])
def series(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RoundSeries:
    return RoundSeries(tmp_path_factory.mktemp("series"), features=request.param == "features")


@pytest.mark.parametrize("rounds", ["all", "latest"])
def test_reports_of_all_rounds_survive_their_assembly(series: RoundSeries, rounds: str) -> None:
    perturbed = perturbed_graph(series.campaign, series.graph, reversed(series.reports), rounds=rounds)
    np.testing.assert_array_equal(perturbed.labels, series.codes)
    evidence = perturbed.label_mechanism
    assert isinstance(evidence, RoundEvidence)
    assert evidence.latest == (rounds == "latest")
    assert sorted(map(Report.to_json, reports_of(perturbed, series.campaign))) == sorted(
        map(Report.to_json, series.reports)
    )
    asked = perturbed.feature_mechanism
    if isinstance(asked, LongitudinalFeatures):
        assert asked.latest == (rounds == "latest")
        np.testing.assert_array_equal(perturbed.features, asked.evidence(series.columns))
        assert (perturbed.features[perturbed.has_features] != NOT_ASKED).sum(axis=1).tolist() == [5] * int(
            perturbed.has_features.sum()
        )
    assert perturbed.guarantee == series.campaign.guarantee


def test_another_choice_of_rounds_is_refused(series: RoundSeries) -> None:
    with pytest.raises(CampaignError, match="rounds is 'first': choose all or latest"):
        perturbed_graph(series.campaign, series.graph, series.reports, rounds="first")


def test_a_model_of_a_series_is_trained_saved_and_predicts_alike(series: RoundSeries, tmp_path: Path) -> None:
    for rounds in ("all", "latest"):
        model = train_files(
            series.store,
            series.folder / "campaign.json",
            series.folder / "edges.csv",
            nodes=series.folder / "nodes.csv",
            out=tmp_path / rounds,
            rounds=rounds,
            card=False,
            device="cpu",
        )
        assert model.facts["rounds"] == rounds
        assert model.facts["guarantee"]["series"]["rounds"] == ROUNDS
        loaded = Model.load(tmp_path / rounds, device="cpu")
        assert set(loaded.reports()) == set(series.reports)
        for store in (None, series.store):
            found = predict_nodes(loaded, series.graph, store=store)
            assert found.nodes == tuple(series.names)
            np.testing.assert_array_equal(found.probabilities.argmax(axis=1), model.method.predict())
