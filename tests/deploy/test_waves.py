"""A series of waves, from the store to predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.trained import train_files
from tests.support.wave_series import WAVES, WaveSeries
from veilgraph.campaign import Report
from veilgraph.campaign.assemble import perturbed_graph, reports_of
from veilgraph.deploy import Model, predict_nodes
from veilgraph.errors import CampaignError
from veilgraph.privacy.mechanisms import NOT_ASKED, LongitudinalFeatures, WaveEvidence


@pytest.fixture(scope="module", params=["label", "features"])
def series(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> WaveSeries:
    return WaveSeries(tmp_path_factory.mktemp("series"), features=request.param == "features")


@pytest.mark.parametrize("waves", ["all", "latest"])
def test_reports_of_all_waves_survive_their_assembly(series: WaveSeries, waves: str) -> None:
    perturbed = perturbed_graph(series.campaign, series.graph, reversed(series.reports), waves=waves)
    np.testing.assert_array_equal(perturbed.labels, series.codes)
    evidence = perturbed.label_mechanism
    assert isinstance(evidence, WaveEvidence)
    assert evidence.latest == (waves == "latest")
    assert sorted(map(Report.to_json, reports_of(perturbed, series.campaign))) == sorted(
        map(Report.to_json, series.reports)
    )
    asked = perturbed.feature_mechanism
    if isinstance(asked, LongitudinalFeatures):
        assert asked.latest == (waves == "latest")
        np.testing.assert_array_equal(perturbed.features, asked.evidence(series.columns))
        assert (perturbed.features[perturbed.has_features] != NOT_ASKED).sum(axis=1).tolist() == [5] * int(
            perturbed.has_features.sum()
        )
    assert perturbed.guarantee == series.campaign.guarantee


def test_another_choice_of_waves_is_refused(series: WaveSeries) -> None:
    with pytest.raises(CampaignError, match="waves is 'first': choose all or latest"):
        perturbed_graph(series.campaign, series.graph, series.reports, waves="first")


def test_a_model_of_a_series_is_trained_saved_and_predicts_alike(series: WaveSeries, tmp_path: Path) -> None:
    for waves in ("all", "latest"):
        model = train_files(
            series.store,
            series.folder / "campaign.json",
            series.folder / "edges.csv",
            nodes=series.folder / "nodes.csv",
            out=tmp_path / waves,
            waves=waves,
            card=False,
            device="cpu",
        )
        assert model.facts["waves"] == waves
        assert model.facts["guarantee"]["series"]["waves"] == WAVES
        loaded = Model.load(tmp_path / waves, device="cpu")
        assert set(loaded.reports()) == set(series.reports)
        for store in (None, series.store):
            found = predict_nodes(loaded, series.graph, store=store)
            assert found.nodes == tuple(series.names)
            np.testing.assert_array_equal(found.probabilities.argmax(axis=1), model.method.predict())
