"""Features in a series of rounds on a device: the same ones in every round, from permanent answers."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.client.test_rounds import LIMIT, at
from tests.support.browser_module import in_node, needs_node
from tests.support.campaigns import BEFORE, ScriptedWords, campaign
from tests.support.campaigns import FEATURES_AND_LABEL as BOTH
from tests.support.campaigns import SCHEMA_IN_ROUNDS as SCHEMA
from tests.support.device import remember, rounds_of
from tests.support.forgeries import rewritten
from veilgraph.campaign import Campaign, Report
from veilgraph.client import answered, answering, verify
from veilgraph.client.question import Question
from veilgraph.client.series import Memory
from veilgraph.client.words import Answers
from veilgraph.errors import CampaignError, RunError
from veilgraph.privacy.epsilon import HistoryRelation
from veilgraph.privacy.mechanisms import LongitudinalFeatures
from veilgraph.privacy.schema import FeatureSchema

FEATURES_ALONE = campaign(SCHEMA, epsilon_x=1.0, sampled=2, rounds=6, values=2)
SERIES = {
    "features alone": FEATURES_ALONE,
    "features and label": BOTH,
    "all features, one value": campaign(SCHEMA, epsilon_x=0.5, sampled=4, epsilon_y=1.0, rounds=5, values=1),
    "more values than some features have": campaign(SCHEMA, epsilon_x=2.0, sampled=3, rounds=4, values=4),
    "merged columns": campaign(
        FeatureSchema.binary(7, classes=["x", "y"], group=2), epsilon_x=1.0, sampled=2, epsilon_y=1.0, rounds=3
    ),
}
by_name = pytest.mark.parametrize("name", SERIES)
RECORD = {"smokes": "yes", "colour": "blue", "age": 33, "drinks": "no", "label": "b"}


def mechanism(series: Campaign) -> LongitudinalFeatures:
    assert isinstance(series.feature_mechanism, LongitudinalFeatures)
    return series.feature_mechanism


def questions(series: Campaign) -> list[Question]:
    rounds = range(1, mechanism(series).rounds + 1)
    return [verify(at(series, number).to_json(), max_epsilon=LIMIT, now=BEFORE) for number in rounds]


def histories(series: Campaign, count: int = 30) -> list[tuple[list[list[int]], list[int]]]:
    """Return random histories with words, half of which are those at which a decision turns."""
    rng, made = random.Random(1), mechanism(series)
    tables = [t for each in made.series.values() for t in (each.permanent.table, each.round.table)]
    turns = [edge + step for t in tables for edge in (t.true, t.true + t.other) for step in (-1, 0)]
    turns = [word for word in [0, 2**53 - 1, *turns] if 0 <= word < 2**53]
    needed = 2 * made.num_features * (made.rounds + 1) + 2 * made.rounds
    return [
        (
            [[rng.randrange(size) for size in made.domain_sizes] for _ in range(made.rounds)],
            [rng.choice(turns) if rng.random() < 0.5 else rng.getrandbits(53) for _ in range(needed)],
        )
        for _ in range(count)
    ]


def reported(memory: Memory, size: int) -> list[list[int | None]]:
    """Return the features of each round that was answered."""
    return [
        [memory.features[i].reports[number] if i in memory.features else None for i in range(size)]
        for number in sorted(memory.rounds)
    ]


@pytest.mark.parametrize("name", ["features alone", "more values than some features have"])
def test_the_same_words_make_the_same_reports_in_the_package_and_the_client(name: str) -> None:
    series = SERIES[name]
    made, asked = mechanism(series), questions(series)
    for history, words in histories(series):
        left, memory = iter(words), Memory()
        for question, values in zip(asked, history, strict=True):
            memory = remember(question, memory, tuple(values), None, word=left.__next__)
        rng = ScriptedWords(list(words))
        drawn = made.randomize(np.array(history).reshape(1, -1), rng=rng).reshape(made.rounds, -1).tolist()
        expected = [[None if code == -1 else code for code in number] for number in drawn]
        assert reported(memory, made.num_features) == expected
        assert len(list(left)) == len(rng.left)


def answers(series: Campaign, history: list[list[int]], rng: random.Random) -> list[tuple[Answers, Any]]:
    """Return features and label of each round; some are left out."""
    made, label = mechanism(series), series.label_mechanism
    return [
        (
            tuple(None if rng.random() < 0.2 else value for value in values),
            None if label is None or rng.random() < 0.2 else rng.randrange(label.domain_size),
        )
        for values in history[: made.rounds]
    ]


@needs_node
def test_the_same_words_make_the_same_reports_in_python_and_in_the_browser() -> None:
    items, expected, rng = [], [], random.Random(2)
    for series in SERIES.values():
        asked = questions(series)
        documents = [at(series, number).to_json() for number in range(1, len(asked) + 1)]
        for history, words in histories(series, count=10):
            left, memory, given = iter(words), Memory(), answers(series, history, rng)
            for question, (features, label) in zip(asked, given, strict=True):
                memory = remember(question, memory, features, label, word=left.__next__)
            features_of, labels = [list(features) for features, _ in given], [label for _, label in given]
            items.append({"campaigns": documents, "features": features_of, "values": labels, "words": words})
            kept = {str(i): list(feature.reports.values()) for i, feature in memory.features.items()}
            consumed = len(words) - len(list(left))
            said = {"reports": list(memory.reports.values()), "features": kept, "consumed": consumed}
            expected.append({"result": said})
    assert in_node("rounds", items) == expected


@by_name
def test_the_client_computes_the_stated_guarantee_by_itself(name: str) -> None:
    series = SERIES[name]
    question = verify(series.to_json(), max_epsilon=LIMIT, now=BEFORE)
    for key, epsilon in rounds_of(question).costs.items():
        assert float(epsilon) == pytest.approx(series.guarantee.epsilon(HistoryRelation[key.upper()]), rel=1e-12)
    assert float(question.epsilon) == pytest.approx(series.guarantee.total_user_level, rel=1e-12)
    assert Campaign.from_json(series.to_json()) == series


@needs_node
def test_the_browser_computes_the_stated_guarantee_by_itself() -> None:
    for series, reply in zip(
        SERIES.values(), in_node("verify", [each.to_json() for each in SERIES.values()]), strict=True
    ):
        assert reply["result"]["epsilon"] == pytest.approx(series.guarantee.total_user_level, rel=1e-9)


def test_features_by_grr_are_refused_outside_a_series() -> None:
    once = campaign(SCHEMA, epsilon_x=1.0, sampled=2, epsilon_y=2.0)
    with pytest.raises(CampaignError):
        verify(rewritten(once, features__mechanism="grr"), max_epsilon=LIMIT, now=BEFORE)
    with pytest.raises(CampaignError):
        Campaign.from_json(rewritten(once, features__mechanism="grr"))


def answer(series: Campaign, store: Path, number: int, version: int = 0, **record: object) -> dict[str, Any]:
    document = at(series, number, version or number).to_json()
    return answering.answer(document, RECORD | record, node="u", store=store, max_epsilon=99.0, now=BEFORE)


def asked(report: dict[str, Any]) -> list[int]:
    return [i for i, code in enumerate(report["features"]) if code is not None]


def remembered(store: Path) -> dict[str, Any]:
    return dict(json.loads(next(store.glob("*.memory.json")).read_text()))


def test_every_round_reports_the_same_features_from_one_permanent_answer_for_each_value(tmp_path: Path) -> None:
    reports = [answer(BOTH, tmp_path, number) for number in range(1, 13)]
    assert len({tuple(asked(report)) for report in reports}) == 1
    assert [Report.parse(report, BOTH).number for report in reports] == list(range(1, 13))
    memory = remembered(tmp_path)
    assert sorted(map(int, memory["features"])) == asked(reports[0])
    assert all(len(feature["answers"]) == 1 for feature in memory["features"].values())
    (kept,) = answered(tmp_path)
    assert float(kept.epsilon) == pytest.approx(BOTH.guarantee.total_user_level)


def test_an_answered_round_is_not_drawn_again_and_its_record_is_not_read(tmp_path: Path) -> None:
    first = answer(BOTH, tmp_path, 1)
    before = remembered(tmp_path)
    assert answer(BOTH, tmp_path, 1, colour="not a colour") == first
    assert remembered(tmp_path) == before


def test_a_feature_that_is_left_out_has_one_permanent_answer_of_its_own(tmp_path: Path) -> None:
    """So leaving out for twelve rounds costs what a value costs that never changes, and nobody can tell."""
    none: dict[str, Any] = {"smokes": None, "colour": None, "age": None, "drinks": None}
    for number in (1, 2, 3):
        answer(BOTH, tmp_path, number, **none)
    answer(BOTH, tmp_path, 4)  # a second value of each
    answer(BOTH, tmp_path, 5, smokes="no", colour="red", age=70, drinks="yes")  # a third one is no change
    for i, feature in remembered(tmp_path)["features"].items():
        size = mechanism(BOTH).domain_sizes[int(i)]
        assert set(feature["answers"]) == {str(size), str([1, 2, 1, 0][int(i)])}
        assert len(feature["reports"]) == 5


@pytest.mark.parametrize("size", [2, 3])
def test_the_permanent_answer_of_what_is_left_out_is_uniform(size: int) -> None:
    question = questions(FEATURES_ALONE)[0]
    features = rounds_of(question).features
    assert features is not None
    series = next(each for each in features.series if each.permanent.domain_size == size)
    for drawn in range(2 * size):
        words = iter([drawn, 0])
        memory = series.answer(Memory(), None, 1, words.__next__)
        assert memory.answers == {size: drawn % size}
        assert memory.reports == {1: drawn % size}


def test_a_label_that_is_left_out_is_visible_and_the_round_counts_as_answered(tmp_path: Path) -> None:
    first = answer(BOTH, tmp_path, 1, label=None)
    assert first["label"] is None
    assert Report.parse(first, BOTH).features is not None
    assert answer(BOTH, tmp_path, 1) == first
    assert answer(BOTH, tmp_path, 2)["label"] is not None


def damages(whole: dict[str, Any]) -> Sequence[dict[str, Any]]:
    kept = whole["features"]
    first, *others = kept
    free = next(i for i in map(str, range(4)) if i not in kept)
    return [
        {key: value for key, value in whole.items() if key != "features"},
        whole | {"features": {i: kept[i] for i in others}},
        whole | {"features": kept | {free: kept[first]}},
        whole | {"features": kept | {first: kept[first] | {"reports": {}}}},
        whole | {"features": kept | {first: kept[first] | {"reports": {"1": 9}}}},
        whole | {"features": kept | {first: kept[first] | {"current": 9}}},
        whole | {"features": kept | {first: kept[first] | {"reports": {"2": 0}}}},
    ]


@needs_node
def test_the_browser_keeps_a_series_as_python_does() -> None:
    left_out = dict.fromkeys(("smokes", "colour", "age", "drinks"))
    records = [RECORD | left_out, RECORD, RECORD | {"label": None}, RECORD | {"label": None}, RECORD | {"age": 999}]
    requests = [
        {"campaign": at(BOTH, number, version).to_json(), "record": record, "node": "u", "maxEpsilon": 99}
        for number, version, record in zip([1, 1, 2, 3, 4], [1, 1, 2, 3, 4], records, strict=True)
    ]
    (reply,) = in_node("sequence", [{"requests": requests}])
    replies, kept = reply["result"]["replies"], reply["result"]["kept"]
    assert replies[0] == replies[1], "an answered round was drawn again"
    assert "'age' must be a number" in replies[4]["error"]
    reports = [each["result"] for each in replies[:4]]
    assert [Report.parse(each, BOTH).number for each in reports] == [1, 1, 2, 3]
    assert len({tuple(asked(each)) for each in reports}) == 1
    assert [each["label"] is None for each in reports] == [False, False, True, True]
    place = f"veilgraph-memory:{BOTH.id}:u"
    memory = json.loads(kept[place])
    for i, feature in memory["features"].items():
        size = mechanism(BOTH).domain_sizes[int(i)]
        assert set(feature["answers"]) == {str(size), str([1, 2, 1, 0][int(i)])}
    assert reply["result"]["spent"] == pytest.approx(BOTH.guarantee.total_user_level)
    again = [requests[-1] | {"record": RECORD}]
    others = {key: text for key, text in kept.items() if key != place}
    damaged = [{place: json.dumps(each, sort_keys=True, separators=(",", ":"))} for each in damages(memory)]
    planted = [others, *(others | text for text in damaged), kept]
    outcomes = in_node("sequence", [{"planted": each, "requests": again} for each in planted])
    *refused, accepted = [each["result"]["replies"][0] for each in outcomes]
    assert all("damaged" in each["error"] for each in refused)
    assert "result" in accepted


def test_without_its_memory_a_device_draws_nothing_again(tmp_path: Path) -> None:
    answer(BOTH, tmp_path, 1)
    (path,) = tmp_path.glob("*.memory.json")
    whole = path.read_text()
    for i, damaged in enumerate(damages(json.loads(whole))):
        path.write_text(json.dumps(damaged))
        with pytest.raises(RunError, match="damaged"):
            answer(BOTH, tmp_path, 2, 2 + i)
    path.write_text(whole)
    answer(BOTH, tmp_path, 2, 20)
