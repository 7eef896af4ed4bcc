"""A series about private neighbours from its store to predictions, without an edge at any time."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.neighbour_collection import NAMES, PEOPLE, SIZE, Series, as_collection, collected
from tests.support.neighbour_series import CLASS, CLOSES, HISTOGRAM, first_document
from tests.support.trained import train_files
from veilgraph.campaign import Campaign
from veilgraph.campaign.assessment import Assessment
from veilgraph.campaign.neighbours.collection import NeighbourCollection
from veilgraph.campaign.neighbours.next_wave import NextWave
from veilgraph.campaign.neighbours.people_file import PeopleFile
from veilgraph.campaign.neighbours.series import read_table_file, table_path
from veilgraph.campaign.neighbours.wave import series_of
from veilgraph.campaign.report import Report
from veilgraph.campaign.series_folder import wave_path
from veilgraph.cli import main
from veilgraph.collector.store import ReportStore
from veilgraph.deploy import Model, TrainingOptions, complete_card, open_source, predict_nodes
from veilgraph.deploy.assess_collected import assess_collection
from veilgraph.deploy.model_card import make_card
from veilgraph.deploy.publish_wave import publish_wave, read_collection
from veilgraph.errors import CampaignError, FitError, GraphError, ReportError, RunError, StoreError
from veilgraph.graph import Graph
from veilgraph.pages.model_card import render_card_page
from veilgraph.privacy.belief_table import BeliefTable

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Series:
    return collected(tmp_path_factory.mktemp("series"), [CLASS, HISTOGRAM])


@pytest.fixture(scope="module")
def model(series: Series) -> Model:
    return train_files(
        series.store, series.files[-1], PEOPLE, out=series.folder / "model", tables=series.tables, device="cpu"
    )


def test_all_waves_are_read_as_they_were_sent(series: Series) -> None:
    collection, perturbed = read_collection(series.store, series.documents[-1], PEOPLE, series.tables)
    assert perturbed.graph.num_edges == 0
    assert [int(wave.has_answer.sum()) for wave in perturbed.neighbour_waves] == [SIZE, SIZE]
    again = collection.perturbed(perturbed.graph, collection.reports_of(perturbed))
    assert (again.labels[again.has_label] == perturbed.labels[perturbed.has_label]).all()
    for one, other in zip(again.neighbour_waves, perturbed.neighbour_waves, strict=True):
        assert (one.answers == other.answers).all()


def test_people_may_come_in_any_order(series: Series) -> None:
    collection, perturbed = read_collection(series.store, series.documents[-1], PEOPLE, series.tables)
    shuffled = PEOPLE.reordered(sorted(PEOPLE.names, reverse=True))
    again = collection.perturbed(shuffled, collection.reports_of(perturbed))
    assert shuffled.names != perturbed.graph.names == again.graph.names
    assert (again.neighbour_waves[0].answers == perturbed.neighbour_waves[0].answers).all()


def test_a_model_learns_from_all_waves_and_predicts_everybody(series: Series, model: Model) -> None:
    assert model.method.name == "neighbour_waves"
    assert model.facts["neighbour_answers"] == [SIZE, SIZE]
    found = predict_nodes(model, PEOPLE)
    classes = [series.classes[code] for code in found.probabilities.argmax(axis=1)]
    right = [said == series.truth[name] for said, name in zip(classes, found.nodes, strict=True)]
    # Guessing gives a third; the standard error of a share of 240 people is 3 points.
    assert np.mean(right) > 0.6
    table = found.to_frame()
    assert set(table["epsilon_user_level"]) == {"not private"}
    assert np.allclose(table["epsilon_one_entry"], 3.0)
    assert table["reported"].all()


def test_a_saved_model_predicts_the_same_and_from_the_store(series: Series, model: Model) -> None:
    loaded = Model.load(series.folder / "model", device="cpu")
    kept, read = predict_nodes(loaded, PEOPLE), predict_nodes(loaded, PEOPLE, store=series.store)
    assert np.allclose(kept.probabilities, predict_nodes(model, PEOPLE).probabilities)
    assert np.allclose(kept.probabilities, read.probabilities, atol=1e-5)
    found = complete_card(series.folder / "model", PEOPLE, device="cpu").content
    assert found["accuracy"]["model"] is not None
    assert found["uncertain"]["by_degree"] == []
    with pytest.raises(GraphError, match="not among the people"):
        predict_nodes(loaded, PEOPLE, nodes=["stranger"])


def test_the_floor_is_the_most_frequent_class_and_there_is_no_control_without_edges(
    series: Series, model: Model
) -> None:
    """Three classes are equally frequent, so the floor is a third."""
    found = make_card(model, model.perturbed(PEOPLE.reordered(model.nodes or ()))).content
    accuracy = found["accuracy"]
    assert accuracy["control"] is None
    assert accuracy["floor"]["low"] <= 1 / 3 <= accuracy["floor"]["high"]
    assert accuracy["floor"]["reports"] == accuracy["model"]["reports"]
    assert accuracy["difference"]["low"] > 0  # two thirds of 24 people
    page = render_card_page(found)
    assert "The largest class, given for everybody" in page
    assert "nobody has one here" in page
    assert "Links of the person" not in page
    assert set(series.classes) <= {each["name"] for each in found["by_class"]}


def test_a_damaged_series_in_a_model_folder_is_refused(series: Series, model: Model, tmp_path: Path) -> None:
    saved = model.save(tmp_path / "model")
    path = tmp_path / "model" / "series.json"
    path.write_text(path.read_text().replace("To learn", "To leave", 1))
    with pytest.raises(RunError, match=r"series\.json was changed"):
        Model.load(tmp_path / "model")
    assert saved.collection is not None


def test_progress_of_a_series_is_judged_by_people_in_no_table(series: Series) -> None:
    source = open_source(series.documents[-1], PEOPLE, store=series.store, tables=series.tables)
    found = assess_collection(source, TrainingOptions(device="cpu"), now=datetime.now(UTC))
    assert found.method == "neighbour_waves"
    assert found.accuracy is not None
    assert found.control is None
    assert found.floor is not None
    assert "The largest class, given for everybody" in found.sentences[1]
    assert "is not estimated for a series" in found.sentences[-1]
    assert Assessment.from_json(found.to_json()) == found


def test_who_withdraws_is_in_no_later_table_and_no_model(tmp_path: Path) -> None:
    series = collected(tmp_path, [CLASS])
    store = ReportStore.administer(series.store)
    for name in NAMES[:2]:
        store.withdrawals.withdraw(series.documents[0].id, name, now=0.0)
    assert store.reports.count(series.documents[0].id, wave=1) == SIZE - 2
    store.close()
    _, perturbed = read_collection(series.store, series.documents[-1], PEOPLE, series.tables)
    assert not perturbed.has_label[:2].any()
    assert not perturbed.neighbour_waves[0].has_answer[:2].any()


def test_two_tables_show_who_withdrew_between_them(tmp_path: Path) -> None:
    """What page, summary and impact assessment say: of all rows, those of the people who withdrew become empty."""
    series = collected(tmp_path, [CLASS])

    def has_row(wave: Campaign) -> NDArray[np.bool_]:
        content = read_table_file(series.tables, series_of(wave.asked), people=SIZE)
        assert content is not None
        return np.asarray(BeliefTable.from_bytes(content).units().any(axis=1))

    first = has_row(series.documents[-1])
    gone = np.flatnonzero(first)[:9]
    names = PeopleFile.of(PEOPLE.names).names
    store = ReportStore.administer(series.store)
    for row in gone:
        store.withdrawals.withdraw(series.documents[0].id, names[row], now=0.0)
    store.close()
    later, _ = publish_wave(
        series.store,
        series.documents[-1],
        PEOPLE,
        NextWave(answer=CLASS, closes=CLOSES),
        tables=series.tables,
        out=tmp_path / "2.json",
    )
    assert np.flatnonzero(first & ~has_row(later)).tolist() == gone.tolist()


def test_in_turns_everybody_answers_one_wave_and_spends_the_budget_of_one(tmp_path: Path) -> None:
    series = collected(tmp_path, [CLASS, CLASS, CLASS], turns=3)
    model = train_files(series.store, series.files[-1], PEOPLE, out=tmp_path / "model", tables=series.tables)
    perturbed = model.perturbed(PEOPLE)
    assert (np.sum([wave.has_answer for wave in perturbed.neighbour_waves], axis=0) == 1).all()
    assert sum(model.facts["neighbour_answers"]) == SIZE
    spent = perturbed.guarantee.lists, model.campaign.guarantee.lists
    assert [each and each.any_lists for each in spent] == [CLASS.list_loss.any_lists] * 2
    found = predict_nodes(model, PEOPLE)
    right = [
        series.classes[code] == series.truth[name]
        for code, name in zip(found.probabilities.argmax(axis=1), found.nodes, strict=True)
    ]
    # Guessing gives a third; the standard error of a share of 240 people is 3 points.
    assert np.mean(right) > 0.5
    with pytest.raises(CampaignError, match="everybody has had a turn"):
        publish_wave(
            series.store,
            series.documents[-1],
            PEOPLE,
            NextWave(answer=CLASS, closes=CLOSES),
            tables=series.tables,
            out=tmp_path / "4",
        )


def test_a_wave_of_another_series_is_refused(series: Series, tmp_path: Path) -> None:
    other = collected(tmp_path, [HISTOGRAM], epsilon_y=3.0)
    with pytest.raises(StoreError, match="of this series"):
        read_collection(series.store, other.documents[-1], PEOPLE, other.tables)
    with pytest.raises(CampaignError, match="wave 1 of this series"):
        NeighbourCollection(documents=(series.documents[0], other.documents[1]), tables=())
    with pytest.raises(CampaignError, match="the table of wave 1"):
        NeighbourCollection(documents=series.documents[:2], tables=())
    collection, _ = read_collection(series.store, series.documents[-1], PEOPLE, series.tables)
    with pytest.raises(ReportError, match="another series"):
        collection.parse({"campaign": other.documents[1].id, "node": "p000", "answer": [1]})
    with pytest.raises(GraphError, match="not those of the series"):
        collection.perturbed(Graph.without_edges(2), [])


def test_tables_that_are_missing_or_another_are_refused(series: Series, tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="give the folder of the published waves"):
        read_collection(series.store, series.documents[-1], PEOPLE, None)
    with pytest.raises(CampaignError, match="cannot be read"):
        read_collection(series.store, series.documents[-1], PEOPLE, tmp_path)
    asked = series_of(series.documents[1].asked)
    assert asked is not None
    table_path(tmp_path, str(asked.table)).write_bytes(b"another")
    with pytest.raises(CampaignError, match="give its own table"):
        read_collection(series.store, series.documents[-1], PEOPLE, tmp_path)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"seed": 1}, "its seed is 0"),
        ({"hold_out": 0.2}, "hold_out"),
        ({"method": "veil"}, "veil needs a public graph, which"),
    ],
)
def test_settings_that_a_series_does_not_have_are_refused(
    settings: dict[str, Any], error: str, series: Series, tmp_path: Path
) -> None:
    with pytest.raises(FitError, match=error):
        train_files(series.store, series.files[-1], PEOPLE, out=tmp_path, tables=series.tables, **settings)


def test_the_whole_way_on_the_command_line(tmp_path: Path, capsys: Capture) -> None:
    series = collected(tmp_path, [CLASS])
    folder, people = as_collection(series, "class"), tmp_path / "people.csv"
    publish = ["open-round", str(folder), "--epsilon", "2", "--closes", "2100-01-01"]
    assert main([*publish, "--cap", "3"]) == 2
    capsys.readouterr()
    assert main([*publish, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    made = Campaign.from_json(wave_path(folder / "waves", 2).read_bytes())
    assert (told["id"], told["wave"], told["answers"]) == (made.id, 2, [SIZE])
    assert table_path(folder / "waves", told["table"]).exists()
    wave_path(folder / "waves", 2).unlink()
    (folder / "settings.toml").write_text('contacts = "histogram"')
    assert main([*publish, "--cap", "2"]) == 0
    assert "Wave 2 alone:" in capsys.readouterr().out
    wave_path(folder / "waves", 2).unlink()
    common = ["--store", series.store, "--graph", str(people), "--set", f"tables={folder / 'waves'}"]
    files = [str(series.files[-1]), "--out", str(tmp_path / "model")]
    assert main(["train", *common, *files, "--device", "cpu"]) == 0
    told = capsys.readouterr().out
    assert "Answers about neighbours, wave by wave: 240." in told
    assert "the largest class, given for everybody:" in " ".join(told.split())
    assert "Difference to the largest class:" in told
    assert "structure_only" not in told
    predicted = ["--model", str(tmp_path / "model"), "--graph", str(people), "--out", str(tmp_path / "p.csv")]
    assert main(["predict", *predicted, "--device", "cpu"]) == 0
    assert len((tmp_path / "p.csv").read_text().splitlines()) == SIZE + 1
    progress = ["status", str(series.files[-1]), *common, "--set", "device=cpu"]
    assert main(progress) == 0


def test_waves_are_published_one_after_the_other_into_their_folder(tmp_path: Path, capsys: Capture) -> None:
    series = collected(tmp_path, [CLASS])
    folder = as_collection(series, "histogram")
    publish = ["open-round", str(folder), "--epsilon", "2", "--closes", "2100-01-01"]
    assert main(publish) == 0
    told = capsys.readouterr().out
    assert "Wave 2 of series" in told
    assert "takes it up within seconds" in told
    made = Campaign.from_json(wave_path(folder / "waves", 2).read_bytes())
    assert series_of(made.asked).previous == series.documents[1].id
    assert main(publish) == 2
    assert "nobody has answered wave 2 yet" in capsys.readouterr().err
    assert not wave_path(folder / "waves", 3).exists()
    assert main(["train", str(folder), "--device", "cpu"]) == 0
    assert "Answers about neighbours, wave by wave: 240, 0." in capsys.readouterr().out


def test_a_table_is_the_same_in_whatever_order_people_are_read(series: Series, tmp_path: Path) -> None:
    ids = []
    for number, people in enumerate((PEOPLE, PEOPLE.reordered(PEOPLE.names[::-1]))):
        made, _ = publish_wave(
            series.store,
            series.documents[-1],
            people,
            NextWave(answer=CLASS, closes=CLOSES),
            tables=series.tables,
            out=tmp_path / f"{number}.json",
        )
        ids.append(made.id)
    assert ids[0] == ids[1]


def test_before_a_wave_is_published_nothing_is_learned_and_the_remedy_is_said(
    series: Series, tmp_path: Path, capsys: Capture
) -> None:
    first = ["--store", series.store, "--graph", str(series.folder / "people.csv")]
    train = ["train", str(series.files[0]), *first, "--out", str(tmp_path / "model")]
    for command in (["status", str(series.files[0]), *first], train):
        assert main(command) == 2
        assert "veilgraph open-round" in capsys.readouterr().err


def test_a_wave_that_would_be_closed_at_once_is_refused(series: Series, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "empty").mkdir()
    bare = replace(series, folder=tmp_path / "empty", documents=series.documents[:1])
    (bare.folder / "people.csv").write_text((series.folder / "people.csv").read_text())
    command = ["open-round", str(as_collection(bare, "histogram")), "--epsilon", "1"]
    assert main([*command, "--closes", "2020-01-01"]) == 2
    assert "closes is 2020-01-01, which is in the past" in capsys.readouterr().err
    assert main([*command, "--closes", "2100-01-01", "--turns", "1"]) == 2
    assert "--turns is 1: give 2 or more" in capsys.readouterr().err
    assert not (bare.folder / "waves").exists()


def test_a_table_needs_some_label_reports(tmp_path: Path) -> None:
    first, url = first_document(PEOPLE, epsilon_y=2.0), f"sqlite:///{tmp_path / 'reports.db'}"
    store = ReportStore.open(url)
    store.documents.register(first, now=0.0)
    store.reports.put([Report(campaign=first.id, node=name, features=None, label=0) for name in NAMES[:4]], now=0.0)
    store.close()
    with pytest.raises(RunError, match="4 people have reported a label: publish a wave when at least 5 have"):
        publish_wave(url, first, PEOPLE, NextWave(answer=HISTOGRAM, closes=CLOSES), tables=tmp_path / "tables")
