"""What leaves a device has one length for all people of a campaign, whatever they answer or leave out."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.support.browser_module import NODE, in_node
from tests.support.campaigns import BEFORE, CAMPAIGNS, CLOSES, MIXED, campaign, records
from tests.support.neighbour_lists import rows_in
from tests.support.neighbour_series import ANSWERS, LIST, NAMES, PEOPLE_FILE, TABLE, first_document, waves_of
from veilgraph.campaign import Campaign
from veilgraph.campaign.neighbours.next_wave import NextWave
from veilgraph.campaign.neighbours.people_file import people_file
from veilgraph.campaign.neighbours.wave import series_of
from veilgraph.campaign.report import Report, sent_length
from veilgraph.client import DrawnReport, Published, answer, answer_neighbours, send
from veilgraph.collector.middleware import max_report_bytes
from veilgraph.errors import DomainError, RunError, SendError
from veilgraph.graph import Graph
from veilgraph.privacy.mechanisms import RandomizedNeighbourList

SERIES = {
    "a series of features and label": campaign(MIXED, epsilon_x=1.0, sampled=2, epsilon_y=2.0, rounds=12, values=3),
    "a series of the label": campaign(MIXED, epsilon_y=2.0, rounds=3),
    "a series of all features": campaign(MIXED, epsilon_x=2.0, sampled=5, rounds=10),
}
ONCE_OR_IN_ROUNDS = CAMPAIGNS | SERIES
ABOUT_NEIGHBOURS = {name: waves_of(mechanism)[1] for name, mechanism in ANSWERS.items()} | {"list": waves_of(LIST)[1]}
# Ids of up to 256 bytes: \\u00fc is six, a character beyond U+FFFF twelve.
NODES = ("1", "u17", "ann@example.org", '"quoted\\"', "\u00fc", "\u00fc" * 42, "\U0001f4cf" * 21, "x" * 256)


def drawn(asked: Campaign, store: Path, seed: int, node: str) -> DrawnReport:
    """Return the report of a person with any answers, some of which are left out."""
    rng = random.Random(seed)
    record = next(records(asked, rng))
    for name in list(record):
        if rng.random() < 0.3 and asked.feature_mechanism is not None:
            record[name] = None
    if seed and (rounds := asked.asked.report_parts.get("round")):
        asked = asked.revise(open_round=rng.randint(1, rounds["maximum"]), note="later")
    text = asked.to_json()
    return answer(text, record, node=node, store=store / str(seed), max_epsilon=1e9, now=BEFORE)


def drawn_about_neighbours(asked: Campaign, store: Path, seed: int, node: str) -> DrawnReport:
    listed = random.Random(seed).sample(NAMES, seed % len(NAMES))
    table = None if series_of(asked.asked).table is None else TABLE.to_bytes()
    return answer_neighbours(
        Published(asked.to_json(), PEOPLE_FILE, table),
        listed,
        node=node,
        store=store / str(seed),
        max_epsilon=1e9,
        max_entry_epsilon=1e9,
        now=BEFORE,
    )


def reports_of(asked: Campaign, folder: Path) -> list[DrawnReport]:
    if asked.asked.answers:
        return [drawn_about_neighbours(asked, folder, seed, NAMES[seed % len(NAMES)]) for seed in range(12)]
    reports = []
    for seed in range(16):
        try:
            reports.append(drawn(asked, folder, seed, NODES[seed % len(NODES)]))
        except DomainError:  # everything was left out
            continue
    return reports


@pytest.mark.parametrize("name", ONCE_OR_IN_ROUNDS | ABOUT_NEIGHBOURS)
def test_all_reports_of_a_campaign_are_sent_with_one_length_that_the_server_knows(name: str, tmp_path: Path) -> None:
    asked = (ONCE_OR_IN_ROUNDS | ABOUT_NEIGHBOURS)[name]
    reports = reports_of(asked, tmp_path)
    assert len(reports) > 8
    assert {len(report.text) for report in reports} == {sent_length(asked, "u1")}
    for report in reports:
        assert report.text.isascii()
        parsed = Report.from_json(report.text, asked)
        assert parsed.to_json() == report.text.rstrip(" ")
        assert DrawnReport.read(report.text + "\n").text == report.text
        assert DrawnReport.read((report.text + "\r\n").encode()).text == report.text
    assert 2 * max(sent_length(asked, node) for node in NODES) <= max_report_bytes(asked)
    if NODE is not None:
        (reply,) = in_node("sent", [{"campaign": asked.to_json(), "reports": reports}])
        assert reply == {"result": [report.text for report in reports]}, "the browser sends the same bytes"


LONGEST: dict[str, dict[str, Any]] = {
    "many bins": {"features": [999, 1], "label": None},
    "a set of 40 of 130 classes": {"features": None, "label": list(range(90, 130))},
    "sets with a tiny epsilon": {"features": None, "label": list(range(9, 18))},
    "joint features of mixed domains": {"features": [2, None, 1, None, 2], "label": None},
    "binary": {"features": [1] * 8, "label": None},
}


@pytest.mark.parametrize("name", LONGEST)
def test_the_length_is_that_of_the_longest_report_that_the_collector_accepts(name: str) -> None:
    """With the largest codes; a part that is left out is longer than a code of one digit."""
    asked = CAMPAIGNS[name]
    text = Report.parse({"campaign": asked.id, "node": "x" * 256} | LONGEST[name], asked).to_json()
    spare = 3 * 3 if "joint" in name else 0  # the picked features, as if each were left out, too
    assert len(text) == sent_length(asked, "x" * 256) - spare


def test_the_length_of_a_randomized_list_tells_nothing_of_the_number_of_contacts(tmp_path: Path) -> None:
    """Lists of 0 to 399 of 400 people at epsilon 4: the numbers of names are correlated with them, lengths are not."""
    names = [f"u{i:03}" for i in range(400)]
    people = Graph.without_edges(400, node_ids=names)
    asked = NextWave(answer=RandomizedNeighbourList(400, 4.0), closes=CLOSES).after(
        first_document(people), people=people, table=None
    )
    wave = Published(asked.to_json(), people_file(names))
    given: dict[str, Any] = {"max_epsilon": 9, "max_entry_epsilon": 9}
    counts, lengths, named = list(range(0, 400, 21)), [], []
    for count in counts:
        report = answer_neighbours(wave, names[:count], node="u000", store=tmp_path / str(count), now=BEFORE, **given)
        lengths.append(len(report.text))
        named.append(len(rows_in(report["answer"])))
    assert np.corrcoef(counts, named)[0, 1] > 0.99
    assert len(set(lengths)) == 1, "so a correlation with the number of contacts does not exist"


def test_a_longer_id_counts_as_the_next_multiple_of_256_bytes() -> None:
    asked = CAMPAIGNS["binary"]
    length = sent_length(asked, "x")
    assert [sent_length(asked, node) - length for node in ("x" * 256, "\u00fc" * 43, "\U0001f4cf" * 256)] == [
        0,
        256,
        2816,
    ]


def test_a_report_without_its_length_is_not_sent(tmp_path: Path) -> None:
    report = drawn(CAMPAIGNS["binary"], tmp_path, 0, "u1")
    with pytest.raises(SendError, match="the report has no length"):
        send("http://127.0.0.1:1", dict(report), "token")  # type: ignore[arg-type]
    for text in ("[]", "", "{", b"\xff", "1"):
        with pytest.raises(RunError, match="it is no report"):
            DrawnReport.read(text)
    assert json.loads(report.text) == report
    assert httpx.Request("PUT", "http://a", content=report.text).headers["content-length"] == str(len(report.text))
