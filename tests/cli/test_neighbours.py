"""`veilgraph neighbours` from end to end, on the smallest embedded graph."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path

import pytest

import veilgraph.experiments.neighbour_planner as planner_module
from tests.support.neighbour_collection import PEOPLE, SIZE, Series, as_collection, collected
from veilgraph.campaign import Campaign
from veilgraph.campaign.asked import turn_of
from veilgraph.campaign.neighbours.wave import series_of
from veilgraph.campaign.series_folder import wave_path
from veilgraph.cli import main
from veilgraph.datasets import PrivateGraph
from veilgraph.experiments.neighbour_design import NeighbourDesign
from veilgraph.experiments.neighbour_planner import plan_neighbours
from veilgraph.privacy.mechanisms import NeighbourhoodClass

Capture = pytest.CaptureFixture[str]


def test_a_run_writes_a_page_with_floor_ceiling_and_every_relation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    run = ["run", "--private-neighbours", "--dataset=patients", "--set=edge_epsilon=4", "--seeds=1"]
    assert main([*run, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    folder = tmp_path / "runs" / "patients-neighbours-y2"
    assert result["folder"] == str(folder.relative_to(tmp_path))
    assert list(result["answers"]) == ["histogram", "class", "list"]
    assert list(result["levels"]) == ["label_alone", "control", "public_graph"]
    (of_list,) = result["answers"]["list"]
    assert of_list["guarantee"]["neighbours"]["lists"]["any_lists"] == "not private"
    assert of_list["epsilon_user_level"] == result["answers"]["histogram"][0]["epsilon_user_level"] == "not private"
    assert of_list["guarantee"]["neighbours"]["lists"]["one_relationship"] == pytest.approx(8, abs=1e-6)
    assert (len(of_list["accuracies"]), round(of_list["false_neighbours"], 2)) == (1, 0.18)
    assert result["answers"]["class"][0]["guarantee"]["neighbours"]["lists"]["any_lists"] == pytest.approx(4, abs=1e-6)
    assert result["answers"]["histogram"][0]["guarantee"]["neighbours"]["lists"]["any_lists"] == "not private"
    page = (folder / "report.html").read_text(encoding="utf-8")
    for part in (
        "if the graph were public",
        "Own label alone",
        "Whole lists are not protected",
        "any two lists",
        "Randomized list (protects one entry)",
        "0.2 false neighbours for each person",
        "<svg",
    ):
        assert part in page
    assert main(run) == 0  # everything is known already
    said = " ".join(capsys.readouterr().out.split())
    assert "from lists" in said
    assert "(one seed) for the control" in said
    assert said.count("One seed: the spread is not known.") == 2  # with the table, and with the levels
    assert main([*run, "--set=epsilon_y=1", f"--out={folder}"]) == 2
    assert "choose another folder" in capsys.readouterr().err


def test_a_run_spends_a_feature_budget_and_prints_it_beside_the_lists(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "out"
    run = [
        "run",
        "--private-neighbours",
        "--dataset=patients",
        "--set=edge_epsilon=4",
        "--seeds=1",
        "--set=first_seed=3",
    ]
    assert main([*run, "--set=epsilon_x=1", "--set=sampled=2", f"--out={folder}", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["epsilon_x"], result["sampled"], result["seeds"]) == (1.0, 2, [3])
    assert list(result["levels"]) == ["label_alone", "label_and_features", "control", "public_graph"]
    point = result["answers"]["histogram"][0]
    assert point["guarantee"]["user_level"]["features"] == pytest.approx(2, abs=1e-6)
    assert point["guarantee"]["neighbours"]["lists_and_record"]["one_entry"] == pytest.approx(8, abs=1e-6)
    sentences = " ".join(point["guarantee_in_words"])
    for part in ("(features 2.0000, label 2.0000)", "Attribute level", "One entry", "8.0000 if the rest of the record"):
        assert part in sentences
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Own label and features alone" in page
    assert "2 times 1 for features" in page
    assert main([*run, "--set=epsilon_x=1", f"--out={tmp_path / 'other'}"]) == 2
    assert "belong together" in capsys.readouterr().err


def by_label(design: NeighbourDesign, private: PrivateGraph, people: int, seed: int) -> float:
    """Pretend that a design reaches more the more its label spends, and a list a little more than a histogram."""
    return design.epsilon_y / 10 + 0.01 * (design.answer == "list")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan without simulations."""
    monkeypatch.setattr(planner_module, "plan_neighbours", partial(plan_neighbours, simulate=by_label))


def told(capsys: Capture) -> str:
    """Return what was printed, with single spaces."""
    return " ".join(capsys.readouterr().out.split())


PLAN = ["plan", "--private-neighbours", "--epsilon=4", "--set=people=120", "--set=degree=8", "--set=classes=2"]


@pytest.mark.usefixtures("quick")
def test_a_plan_recommends_the_better_of_histogram_and_list_and_how_to_collect_it(capsys: Capture) -> None:
    assert main([*PLAN, "--set=homophily=0.9", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    best = found["recommended"]
    assert best == found["designs"][0]
    assert (best["answer"], best["epsilon_y"], best["edge_epsilons"]) == ("list", 3, [1])
    assert best["list"]["false_neighbours"] == pytest.approx(120 / (1 + math.e) ** 2)
    assert best["list"]["names"] == pytest.approx((8 * math.e + 112) / (1 + math.e))
    assert found["as_good"]["answer"] == "histogram"  # a point is within what simulations can judge
    assert found["homophilies"] == [0.9]
    assert (found["drawn_people"], found["seed"], found["within_noise"]) == (120, 0, [])
    assert (best["accuracies"], best["standard_errors"]) == ([pytest.approx(0.31)], [pytest.approx(0)])
    assert best["simulations"] == found["floor"]["simulations"] == 5
    assert {each["simulations"] for each in found["designs"]} == {1, 2, 5}
    # Two classes, and 30 silent people in each of 5 draws: a standard error of 4.1 points.
    assert found["floor"]["accuracies"] == [pytest.approx(0.5, abs=4 * 0.041)]
    assert found["download_bytes"] == {"table": None, "people": 411}
    label, wave = found["next"]
    assert "veilgraph init FOLDER --people people.csv --set contacts=list --epsilon 3 " in label
    assert "veilgraph open-round FOLDER --epsilon 1 " in wave
    assert main(PLAN) == 0
    said = told(capsys)
    for part in (
        "Recommended: label 3, then randomized list: 1.",
        "Whole lists are not protected.",
        "One entry, two neighbour lists, one with a neighbour more: epsilon = 1.0000",
        "Simulations cannot tell histogram in 1 wave: 1 with label 3 from it",
        "Designs: epsilons with their relation",
        "any two",
        "one entry of a list",
        "the label alone (the floor)",
        "mean ± standard error over the runs of a row, on drawn graphs of 120 people, seed 0.",
        "A design with fewer runs was behind in these",
        "A device downloads 411 bytes",
        "A report names 36 people on average",
        "8.7 false neighbours for each person",
        "Features are left out: each that a person answers would cost",
        *found["next"],
    ):
        assert part in said


@pytest.mark.usefixtures("quick")
def test_a_plan_for_many_people_says_why_no_list_was_tried(capsys: Capture) -> None:
    many = ["plan", "--private-neighbours", "--epsilon=4", "--set=people=10000000", "--set=degree=8", "--set=classes=2"]
    assert main(many) == 0
    said = told(capsys)
    assert "No list was tried: there are 10,000,000 people, and lists are reported among at most 50,000." in said
    assert "downloads 51,250,099 bytes for the first wave" in said
    assert "Each later wave takes 20,000,059 bytes." in said
    assert main([*many, "--set=answer=list"]) == 2
    assert "no list is worth a try: there are 10,000,000 people" in capsys.readouterr().err


@pytest.mark.usefixtures("quick")
def test_a_plan_for_any_two_lists_tries_classes_alone(capsys: Capture) -> None:
    plan = [*PLAN, "--set=answer=class"]
    assert main([*plan, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {each["answer"] for each in found["designs"]} == {"class"}
    assert (found["as_good"], found["no_list"]) == (None, None)
    assert found["recommended"]["edge_epsilons"] == [1]
    assert [each["title"] for each in found["within_noise"]] == [
        "class in 2 waves, one for each person: 1",
        "class in 4 waves, one for each person: 1",
    ]
    assert main(plan) == 0
    said = told(capsys)
    assert "any two lists" in said
    assert "As good, within what 5 simulations can tell" in said
    assert "class in 4 waves, one for each person: 1 with label 3." in said
    assert found["download_bytes"] == {"table": 294, "people": 411}
    assert main([*plan, "--set=epsilon_x=0.5", "--set=sampled=2"]) == 0
    said = told(capsys)
    assert "2 features at 0.5 each" in said
    assert "The features cost 1 of the total at user level (any two records)." in said
    assert "A series asks for no features: this design can be simulated, and not collected." in said
    assert main([*plan, "--set=epsilon_x=0.5", "--set=sampled=2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["recommended"]["guarantee"]["user_level"]["features"] == pytest.approx(1, abs=1e-6)
    assert found["without_features"]["accuracies"] > found["recommended"]["accuracies"]
    assert found["next"] is None
    assert main([*PLAN, "--set=answer=lists"]) == 2
    assert "choose histogram, class or list" in capsys.readouterr().err


def test_a_plan_in_turn_says_how_to_collect_it(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def prefers_turns(design: NeighbourDesign, private: PrivateGraph, people: int, seed: int) -> float:
        return float(len(design.edge_epsilons))

    monkeypatch.setattr(planner_module, "plan_neighbours", partial(plan_neighbours, simulate=prefers_turns))
    assert main([*PLAN, "--set=answer=class"]) == 0
    said = told(capsys)
    assert "Recommended: label 1, then class in 4 waves, one for each person: 3." in said
    assert "Any lists, two neighbour lists of any length: epsilon = 3.0000 for 1 wave" in said
    assert "A device downloads 705 bytes for the one wave that it answers" in said
    assert "Each later wave" not in said
    assert main([*PLAN, "--set=answer=class", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["recommended"] == found["designs"][0]
    assert found["recommended"]["in_turn"]
    _, first, *later = found["next"]
    assert "open-round FOLDER --epsilon 3 --turns 4 " in first
    assert later == [first.replace(" --turns 4", "")] * 3  # a series keeps the number
    assert all(each in said for each in found["next"])


def publish(series: Series, contacts: str) -> list[str]:
    """Return the command that publishes the next wave of a series in its folder."""
    return ["open-round", str(as_collection(series, contacts)), "--epsilon=4", "--closes=2100-01-01"]


def test_a_wave_in_turns_says_whose_turn_it_is(tmp_path: Path, capsys: Capture) -> None:
    command = publish(collected(tmp_path, []), "class")
    assert main([*command, "--turns=1"]) == 2
    assert "turns" in capsys.readouterr().err
    answering = sum(turn_of(name, 4) == 1 for name in PEOPLE.names)
    assert 0 < answering < SIZE
    assert main([*command, "--turns=4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["wave"], found["turns"], found["asked"]) == (1, 4, answering)
    assert found["guarantee"]["neighbours"]["lists"]["any_lists"] == pytest.approx(4, abs=1e-6)
    assert series_of(Campaign.from_json(wave_path(tmp_path / "waves", 1).read_bytes()).asked).turns == 4
    wave_path(tmp_path / "waves", 1).unlink()
    assert main([*command, "--turns=4"]) == 0
    assert f"one of 4 waves, and this is the turn of {answering} of {SIZE} people." in told(capsys)


def test_without_turns_everybody_is_asked_and_a_later_wave_begins_none(tmp_path: Path, capsys: Capture) -> None:
    command = [*publish(collected(tmp_path, [NeighbourhoodClass(3, 2.0)]), "histogram"), "--json"]
    assert main([*command, "--turns=4"]) == 2
    assert "is said with the first wave" in capsys.readouterr().err
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["wave"], found["turns"], found["asked"]) == (2, None, SIZE)


def test_a_wave_of_lists_is_published_without_a_table(tmp_path: Path, capsys: Capture) -> None:
    command = publish(collected(tmp_path, []), "list")
    assert main([*command, "--cap=3"]) == 2
    assert (
        "cap is for histograms: the class protects lists of any length, randomized lists none"
        in capsys.readouterr().err
    )
    assert main([*command, "--turns=4"]) == 2
    assert "a list is the only wave of its series, for everybody" in capsys.readouterr().err
    assert main(command) == 0
    said = told(capsys)
    assert "need the file of people alone" in said
    assert "It is the only wave of the series." in said
    assert "one with a neighbour more: epsilon = 4.0000 for 1 wave" in said
    assert "table" not in said
    assert [path.suffix for path in sorted((tmp_path / "waves").iterdir())].count(".beliefs") == 0
