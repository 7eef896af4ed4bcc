"""A series of rounds on a device: permanent answers, one report for each round, in Python and in the browser."""

from __future__ import annotations

import json
import random
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.browser_module import in_node, needs_node
from tests.support.campaigns import BEFORE, MONTHLY, ScriptedWords, campaign, classes
from tests.support.device import remember, rounds_of
from veilgraph.campaign import Campaign, Report
from veilgraph.client import DrawnReport, answered, answering, verify
from veilgraph.client.series import Memory
from veilgraph.errors import CampaignError, DomainError, RunError
from veilgraph.privacy.mechanisms import RoundEvidence

SERIES = {
    "twelve rounds, two values": MONTHLY,
    "one value": campaign(classes(3), epsilon_y=1.0, rounds=6, values=1, round_epsilon=2.0),
    "as many values as classes": campaign(classes(3), epsilon_y=0.5, rounds=4, values=3),
    "one round": campaign(classes(2), epsilon_y=3.0, rounds=1, values=2),
    "most rounds": campaign(classes(4), epsilon_y=2.0, rounds=36, values=2, round_epsilon=0.25),
    "a large epsilon": campaign(classes(18), epsilon_y=20.0, rounds=5, values=3, round_epsilon=30.0),
}
by_name = pytest.mark.parametrize("name", SERIES)
LIMIT = 1e6


def at(series: Campaign, number: int, version: int | None = None) -> Campaign:
    return replace(series, notice=replace(series.notice, open_round=number, version=version or number))


def mechanism(series: Campaign) -> RoundEvidence:
    assert isinstance(series.label_mechanism, RoundEvidence)
    return series.label_mechanism


def histories(series: Campaign, count: int = 40) -> list[tuple[list[int], list[int]]]:
    """Return random histories with words, half of which are those at which a decision turns."""
    rng, made = random.Random(1), mechanism(series)
    tables = made.permanent.table, made.round.table
    turns = [edge + step for table in tables for edge in (table.true, table.true + table.other) for step in (-1, 0)]
    turns = [word for word in [0, 2**53 - 1, *turns] if 0 <= word < 2**53]
    return [
        (
            [rng.randrange(made.domain_size) for _ in range(made.rounds)],
            [rng.choice(turns) if rng.random() < 0.5 else rng.getrandbits(53) for _ in range(2 * made.rounds)],
        )
        for _ in range(count)
    ]


def by_the_package(series: Campaign, values: list[int], words: list[int]) -> tuple[list[int], int]:
    rng = ScriptedWords(list(words))
    (reports,) = mechanism(series).randomize(np.array([values]), rng=rng).tolist()
    return reports, len(rng.left)


@by_name
def test_the_same_words_make_the_same_reports_in_the_package_and_the_client(name: str) -> None:
    series = SERIES[name]
    questions = [
        verify(at(series, number).to_json(), max_epsilon=LIMIT, now=BEFORE)
        for number in range(1, mechanism(series).rounds + 1)
    ]
    for values, words in histories(series):
        left, memory = iter(words), Memory()
        for question, value in zip(questions, values, strict=True):
            memory = remember(question, memory, None, value, word=left.__next__)
        assert (list(memory.reports.values()), len(list(left))) == by_the_package(series, values, words)
        assert len(memory.answers) <= mechanism(series).values


@needs_node
def test_the_same_words_make_the_same_reports_in_the_browser() -> None:
    items, expected = [], []
    for series in SERIES.values():
        for values, words in histories(series, count=12):
            documents = [at(series, number).to_json() for number in range(1, len(values) + 1)]
            items.append({"campaigns": documents, "values": values, "words": words})
            reports, left = by_the_package(series, values, words)
            expected.append({"result": {"reports": reports, "consumed": len(words) - left}})
    assert in_node("rounds", items) == expected


@by_name
def test_the_client_computes_the_stated_guarantee_by_itself(name: str) -> None:
    series, loss = SERIES[name], mechanism(SERIES[name]).series_loss
    question = verify(series.to_json(), max_epsilon=LIMIT, now=BEFORE)
    for key, epsilon in rounds_of(question).costs.items():
        assert float(epsilon) == pytest.approx(getattr(loss, key), rel=1e-12)
    assert float(question.epsilon) == pytest.approx(loss.any_histories, rel=1e-12)


@needs_node
def test_the_browser_computes_the_stated_guarantee_by_itself() -> None:
    for series, reply in zip(
        SERIES.values(), in_node("verify", [each.to_json() for each in SERIES.values()]), strict=True
    ):
        assert reply["result"]["epsilon"] == pytest.approx(mechanism(series).series_loss.any_histories, rel=1e-9)


def answer(series: Campaign, label: str | None, store: Path, **settings: Any) -> DrawnReport:
    given: dict[str, Any] = {"node": "u", "max_epsilon": 9.0, "now": BEFORE} | settings
    return answering.answer(series.to_json(), {"label": label}, store=store, **given)


def test_each_round_is_drawn_once_and_all_cost_once(tmp_path: Path) -> None:
    for number in range(1, 13):
        report = answer(at(MONTHLY, number), "c1", tmp_path)
        assert Report.parse(report, MONTHLY).number == number
        assert answer(at(MONTHLY, number), "c4", tmp_path) == report, "the round was drawn again"
    (kept,) = answered(tmp_path)
    assert float(kept.epsilon) == pytest.approx(mechanism(MONTHLY).series_loss.any_histories)
    memory = json.loads(next(tmp_path.glob("*.memory.json")).read_text())
    assert len(memory["answers"]) == 1, "values of calls that drew nothing were read"
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_cost_of_all_rounds_is_refused_before_the_first(tmp_path: Path) -> None:
    for record in ("c1", "not a class"):  # the record is not read
        with pytest.raises(CampaignError, match="above"):
            answer(MONTHLY, record, tmp_path, max_epsilon=mechanism(MONTHLY).series_loss.any_histories - 0.01)
    assert answered(tmp_path) == ()


def test_a_device_goes_on_after_more_values_than_the_series_answers(tmp_path: Path) -> None:
    for number, label in enumerate(["c0", "c1", "c2", "c3", "c4", "c0"], start=1):
        answer(at(MONTHLY, number), label, tmp_path)
    memory = json.loads(next(tmp_path.glob("*.memory.json")).read_text())
    assert set(memory["answers"]) == {"0", "1"}
    assert memory["current"] == 0
    assert len(memory["reports"]) == 6


def test_a_round_may_be_left_out_and_an_earlier_one_is_over(tmp_path: Path) -> None:
    answer(at(MONTHLY, 3, 1), "c1", tmp_path)
    first = answer(at(MONTHLY, 5, 2), "c1", tmp_path)
    with pytest.raises(CampaignError, match="round 4 is over"):
        answer(at(MONTHLY, 4, 3), "c1", tmp_path)
    assert answer(at(MONTHLY, 5, 4), "c1", tmp_path) == first
    with pytest.raises(CampaignError, match="no round"):
        answer(replace(MONTHLY, notice=replace(MONTHLY.notice, open_round=None, version=5)), "c1", tmp_path)


def test_a_label_that_is_left_out_or_unknown_is_refused_and_nothing_is_kept(tmp_path: Path) -> None:
    for label in (None, "c7171"):
        with pytest.raises(DomainError) as refusal:
            answer(MONTHLY, label, tmp_path)
        assert "7171" not in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


def test_without_its_memory_a_device_draws_nothing_again(tmp_path: Path) -> None:
    answer(MONTHLY, "c1", tmp_path)
    (path,) = tmp_path.glob("*.memory.json")
    whole = path.read_text()
    damaged = [
        None,
        "",
        "{}",
        whole.replace('"current":1', '"current":2'),
        whole.replace('"1":', '"13":'),
        whole.replace('"answers":{"1"', '"answers":{"9"'),
        "[]",
        whole[:-5],
    ]
    for i, text in enumerate(damaged):
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)
        for number in (1, 2):
            with pytest.raises(RunError, match="damaged"):
                answer(at(MONTHLY, number, 2 * i + number), "c1", tmp_path)
    path.write_text(whole)
    answer(at(MONTHLY, 2, 2 * len(damaged)), "c1", tmp_path)


def test_a_crash_before_the_cost_is_recorded_keeps_the_permanent_answer(tmp_path: Path) -> None:
    """The memory is written before the report; a device that stops between draws nothing again."""
    report = answer(MONTHLY, "c1", tmp_path)
    (tmp_path / f"{MONTHLY.id}.json").unlink()
    assert answer(MONTHLY, "c3", tmp_path) == report


@needs_node
def test_the_browser_keeps_a_series_as_python_does() -> None:
    rounds = [1, 1, 2, 3, 4, 3, 5]
    labels = ["c0", "c4", "c1", "c2", "c0", "c0", "c9"]
    requests = [
        {"campaign": at(MONTHLY, number, version).to_json(), "record": {"label": label}, "node": "u", "maxEpsilon": 9}
        for number, version, label in zip(rounds, [1, 1, 2, 3, 4, 5, 6], labels, strict=True)
    ]
    (reply,) = in_node("sequence", [{"requests": requests}])
    replies, kept = reply["result"]["replies"], reply["result"]["kept"]
    assert replies[0] == replies[1]
    assert replies[3] == replies[5], "an answered round was drawn again"
    assert "not a declared value" in replies[6]["error"]
    reports = [Report.parse(each["result"], MONTHLY) for each in replies[:6]]
    assert [report.number for report in reports] == rounds[:6]
    memory = json.loads(kept[f"veilgraph-memory:{MONTHLY.id}:u"])
    assert set(memory["answers"]) == {"0", "1"}
    assert memory["current"] == 0
    assert set(memory["reports"]) == {"1", "2", "3", "4"}
    assert reply["result"]["spent"] == pytest.approx(mechanism(MONTHLY).series_loss.any_histories)
    planted = {place: text for place, text in kept.items() if "memory" not in place}
    (reply,) = in_node("sequence", [{"planted": planted, "requests": requests[-1:]}])
    assert "damaged" in reply["result"]["replies"][0]["error"]


def test_a_report_says_which_rounds_its_device_remembers(tmp_path: Path) -> None:
    """From the folder, too: after it was lost, or with an older copy, the rounds are missing."""
    first = answer(MONTHLY, "c1", tmp_path / "device")
    later = answer(at(MONTHLY, 3), "c2", tmp_path / "device")
    anew = answer(at(MONTHLY, 3), "c2", tmp_path / "new")
    assert [first.rounds, later.rounds, anew.rounds] == [{1}, {1, 3}, {3}]
    assert answer(at(MONTHLY, 3), "c4", tmp_path / "device").rounds == {1, 3}
    stores = (tmp_path / "device", tmp_path / "new", tmp_path / "none", None)
    assert [DrawnReport.read(later.text, store).rounds for store in stores] == [{1, 3}, {3}, set(), set()]
    (kept,) = (tmp_path / "new").glob("*.memory.json")
    kept.write_text("{}")
    with pytest.raises(RunError, match="damaged"):
        DrawnReport.read(later.text, tmp_path / "new")
