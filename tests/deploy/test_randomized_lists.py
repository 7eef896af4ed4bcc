"""A series that asks for randomized lists, from its store to predictions: Veil on the people who name each other."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.support.neighbour_collection import NAMES, PEOPLE, SIZE, Series, as_collection, collected
from tests.support.neighbour_series import CLASS
from tests.support.trained import train_files
from veilgraph.campaign.neighbours.next_wave import NextWave
from veilgraph.campaign.neighbours.wave import series_of
from veilgraph.campaign.series_folder import wave_path
from veilgraph.cli import main
from veilgraph.collector.store import ReportStore
from veilgraph.deploy import Model, TrainingOptions, complete_card, open_source, predict_nodes
from veilgraph.deploy.assess_collected import assess_collection
from veilgraph.deploy.model_card import make_card
from veilgraph.deploy.publish_wave import publish_wave, read_collection
from veilgraph.errors import CampaignError, FitError, GraphError, RunError
from veilgraph.graph import Split
from veilgraph.models import NeighbourWaves
from veilgraph.models.baselines import class_shares
from veilgraph.pages.model_card import render_card_page
from veilgraph.privacy.mechanisms import RandomizedNeighbourList

LIST = RandomizedNeighbourList(SIZE, 4.0)
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Series:
    return collected(tmp_path_factory.mktemp("lists"), [LIST])


@pytest.fixture(scope="module")
def model(series: Series) -> Model:
    return train_files(series.store, series.files[-1], PEOPLE, out=series.folder / "model", device="cpu")


def test_the_graph_has_the_pairs_who_name_each_other_and_reports_come_back_as_they_were_sent(series: Series) -> None:
    collection, perturbed = read_collection(series.store, series.documents[-1], PEOPLE, series.tables)
    true = {(i, j) for i, row in enumerate(series.lists) for j in row if i < j and i in series.lists[j]}
    found = set(zip(*perturbed.graph.edges.tolist(), strict=True))
    # Both ends keep a true entry with probability 0.96; 0.018 ** 2 of 28,680 other pairs are 9.
    assert len(found & true) > 0.9 * len(true)
    assert len(found - true) < len(series.lists)
    again = collection.perturbed(PEOPLE, collection.reports_of(perturbed))
    np.testing.assert_array_equal(again.graph.edges, perturbed.graph.edges)
    np.testing.assert_array_equal(again.neighbour_waves[0].answers, perturbed.neighbour_waves[0].answers)
    assert again.graph.names == perturbed.graph.names == NAMES
    assert perturbed.guarantee.lists is not None
    assert perturbed.guarantee.lists.one_entry == LIST.list_loss.one_entry


def test_nothing_is_believed_and_no_table_is_published_for_lists(series: Series) -> None:
    published = sorted(path.suffix for path in series.tables.iterdir())
    assert published == [".people"]
    assert series_of(series.documents[-1].asked).table is None


def test_veil_learns_from_lists_and_predicts_everybody(series: Series, model: Model) -> None:
    assert (model.method.name, model.facts["neighbour_answers"]) == ("veil", [SIZE])
    found = predict_nodes(model, PEOPLE)
    classes = [series.classes[code] for code in found.probabilities.argmax(axis=1)]
    right = [said == series.truth[name] for said, name in zip(classes, found.nodes, strict=True)]
    # Guessing gives a third; the standard error of a share of 240 people is 3 points.
    assert np.mean(right) > 0.8
    table = found.to_frame()
    assert set(table["epsilon_user_level"]) == {"not private"}
    assert np.allclose(table["epsilon_one_entry"], 4.0)


def test_a_saved_model_predicts_the_same_and_from_the_store(series: Series, model: Model) -> None:
    loaded = Model.load(series.folder / "model", device="cpu")
    kept, read = predict_nodes(loaded, PEOPLE), predict_nodes(loaded, PEOPLE, store=series.store)
    np.testing.assert_array_equal(kept.probabilities, predict_nodes(model, PEOPLE).probabilities)
    assert np.allclose(kept.probabilities, read.probabilities, atol=1e-4)
    found = complete_card(series.folder / "model", PEOPLE, device="cpu").content
    assert found["accuracy"]["model"] is not None
    with pytest.raises(GraphError, match="not among the people"):
        predict_nodes(loaded, PEOPLE, nodes=["stranger"])


def test_the_card_has_a_control_and_calls_no_edge_public(model: Model) -> None:
    found = make_card(model, model.perturbed(PEOPLE.reordered(model.nodes or ()))).content
    assert found["accuracy"]["control"] is not None
    assert found["accuracy"]["floor"] is not None
    page = render_card_page(found)
    assert "Neighbours are private" in page
    assert "people who name each other in randomized lists" in page
    assert "Pairs who name each other" in page
    assert "Edges are taken as public" not in page


def test_progress_of_lists_is_estimated_with_the_control(series: Series) -> None:
    source = open_source(series.documents[-1], PEOPLE, store=series.store)
    found = assess_collection(source, TrainingOptions(device="cpu"), now=datetime.now(UTC))
    assert found.method == "veil"
    assert found.control is not None


def test_seed_and_held_out_labels_are_free_and_other_methods_of_graphs_learn_too(
    series: Series, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"seed": 3, "hold_out": 0.2, "method": "structure_only", "device": "cpu"}
    found = train_files(series.store, series.files[-1], PEOPLE, out=tmp_path, card=False, **settings)
    assert found.facts["held_out"] > 0
    with pytest.raises(FitError, match="needs answers about private neighbours"):
        train_files(series.store, series.files[-1], PEOPLE, out=tmp_path / "other", method="neighbour_waves")
    _, perturbed = read_collection(series.store, series.documents[-1], PEOPLE, None)
    with pytest.raises(FitError, match="cannot be read: use a histogram or a class"):
        NeighbourWaves().fit(perturbed, Split.random(SIZE, seed=0, eligible=perturbed.has_label))


def test_who_withdraws_has_no_pair_and_is_in_no_later_model(tmp_path: Path) -> None:
    series = collected(tmp_path, [LIST])
    store = ReportStore.administer(series.store)
    store.withdrawals.withdraw(series.documents[0].id, NAMES[0], now=0.0)
    store.close()
    _, perturbed = read_collection(series.store, series.documents[-1], PEOPLE, None)
    assert perturbed.graph.degrees[0] == 0
    assert not perturbed.neighbour_waves[0].has_answer[0]


def test_a_person_who_has_withdrawn_is_predicted_by_the_class_shares_and_not_on_the_card(tmp_path: Path) -> None:
    """Nothing is known about them, so that the class shares of all reports are all that can be said."""
    series = collected(tmp_path, [LIST])
    store = ReportStore.administer(series.store)
    store.withdrawals.withdraw(series.documents[0].id, NAMES[1], now=0.0)
    store.close()
    model = train_files(series.store, series.files[-1], PEOPLE, out=tmp_path / "model", device="cpu")
    _, perturbed = read_collection(series.store, series.documents[-1], PEOPLE, None)
    (row,) = predict_nodes(model, PEOPLE, nodes=[NAMES[1]]).to_frame().to_dict("records")
    people = pd.read_csv(tmp_path / "model" / "people.csv").set_index("id")
    assert NAMES[1] not in people.index  # nobody can ask who has withdrawn
    assert row["class"] == str(perturbed.schema.classes[class_shares(perturbed).argmax()])
    assert row["probability"] == pytest.approx(class_shares(perturbed).max(), abs=1e-6)


def test_lists_without_a_pair_wait_for_more(tmp_path: Path) -> None:
    series = collected(tmp_path, [LIST])
    store = ReportStore.administer(series.store)
    for name in NAMES[1:]:
        store.withdrawals.withdraw(series.documents[0].id, name, now=0.0)
    store.close()
    with pytest.raises(RunError, match="no two people have named each other yet: train when more have answered"):
        read_collection(series.store, series.documents[-1], PEOPLE, None)


def test_a_series_of_lists_has_one_wave(series: Series, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"tables": series.tables, "out": tmp_path / "w.json"}
    closes = datetime(2100, 1, 1, tzinfo=UTC)
    for answer in (CLASS, replace(LIST, epsilon=1.0)):
        with pytest.raises(CampaignError, match="in one wave"):
            publish_wave(series.store, series.documents[-1], PEOPLE, NextWave(answer=answer, closes=closes), **settings)
    waves = collected(tmp_path, [CLASS])
    settings |= {"tables": waves.tables}
    with pytest.raises(CampaignError, match="has one wave"):
        publish_wave(waves.store, waves.documents[-1], PEOPLE, NextWave(answer=LIST, closes=closes), **settings)
    assert not (tmp_path / "w.json").exists()


def test_the_whole_way_on_the_command_line(tmp_path: Path, capsys: Capture) -> None:
    series = collected(tmp_path, [])
    publish = ["open-round", str(as_collection(series, "list")), "--epsilon", "4", "--closes", "2100-01-01"]
    assert main([*publish, "--cap", "3"]) == 2
    capsys.readouterr()
    assert main([*publish, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["table"] is None
    wave = wave_path(tmp_path / "waves", 1)
    assert wave.exists()
    audited = ["account", "--audit", str(wave), "--set", "trials=2000", "--set", "seed=0"]
    assert main(audited) == 0
    assert "Not refuted" in capsys.readouterr().out
    assert main(["account", "--epsilon-y", "2", "--set", "neighbours=list", "--set", "edge_epsilon=4"]) == 0
    told = capsys.readouterr().out
    assert "one with a neighbour more: epsilon = 4.0000" in told
    assert "Whole lists are not protected." in told
