"""Answers to a campaign. Each is drawn once and stored before it is returned."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from veilgraph.client.campaign import verify
from veilgraph.client.published import Beliefs, People
from veilgraph.client.question import DrawnReport, Question, other_people, to_send, wave_of
from veilgraph.client.reading import check_node
from veilgraph.client.record import PrivateList, PrivateRecord, encode, neighbour_names, randomize, withhold_details
from veilgraph.client.refusals import CampaignError, RunError
from veilgraph.client.rounds import report_of_wave
from veilgraph.client.spending import check_entries, check_sum, entry_limit_of, limit_of
from veilgraph.client.store import (
    KeptReport,
    KeptWave,
    SeenNotice,
    kept_reports,
    locked_store,
    reports_of,
    seen_now,
    write_report,
)
from veilgraph.client.words import Codes, system_word


def answer(
    campaign: str | bytes,
    record: Mapping[str, Any],
    *,
    node: str,
    store: str | os.PathLike[str],
    max_epsilon: float | None = None,
    shared_device: bool = False,
    now: datetime | None = None,
) -> DrawnReport:
    """Return the report of one person. It is drawn once and stored; later calls return the same report.

    The campaign is checked before the record is read. It is refused if it is altered or closed, or if its tables do
    not give the guarantee that it states. It is refused, too, if all reports in the store together would exceed the
    person's limit, or if the device has seen a later notice of it. One store answers a campaign once, whatever node it
    is invited as, because an organiser can invent nodes. If it holds the report of this node, the record is not read at
    all: a second draw would reveal more.

    Of a series, the open wave is answered, from permanent answers in the store. The cost of all waves is counted when
    the first is answered, whatever happens later.

    Args:
        campaign: the campaign's JSON.
        record: a raw value for each column of the schema, and the class under the label's name. None as a value leaves
            the question out: its report is pure chance, and nobody can tell. None as the class leaves the label out,
            which is visible and not protected.
        node: the person's node in the public graph.
        store: a permanent folder on the device.
        max_epsilon: the most that the person accepts for all reports in the store together: user level (any two
            records), features and label. Default: the limit that `set_limit` keeps; it is never exceeded.
        shared_device: let another person answer a campaign that this device has answered. The cost is counted again:
            if it is the same person, both reports together reveal that much.
        now: the time; default: the device's clock.

    Returns:
        The report as JSON values, for `send`.
    """
    private = PrivateRecord(record)
    del record
    question = verify(campaign, max_epsilon=float("inf") if max_epsilon is None else max_epsilon, now=now)
    if question.neighbours is not None:
        raise CampaignError("the campaign asks about neighbours: answer it with answer_neighbours (--neighbours)")
    check_node(node)
    with locked_store(Path(store)) as folder:
        limit = limit_of(folder, max_epsilon)
        drawn = reports_of(question, folder, seen_now(question.notice, now))
        if node in drawn:
            report = report_of_wave(question, drawn[node], folder, private) if question.waves else drawn[node]
            return to_send(question, report)
        if drawn and shared_device is not True:
            raise _another_node()
        check_sum(kept_reports(folder), question, limit)
        report = {"campaign": question.id, "node": node, "features": None}
        if question.waves:
            report = report_of_wave(question, report, folder, private, is_first=True)
        else:
            codes, reported = withhold_details(lambda: randomize(question, *encode(question, private.value)))
            report["features"] = None if codes is None else list(codes)
            report["label"] = list(reported) if isinstance(reported, tuple) else reported
        kept = _keep(question, report, folder, seen_now(question.notice, now), is_first=not drawn)
    return to_send(question, kept)


def answer_neighbours(
    campaign: str | bytes,
    neighbours: Iterable[str],
    *,
    table: bytes | None,
    people: bytes,
    node: str,
    store: str | os.PathLike[str],
    max_epsilon: float | None = None,
    max_entry_epsilon: float | None = None,
    shared_device: bool = False,
    unlisted: Callable[[tuple[str, ...]], None] = lambda names: None,
    now: datetime | None = None,
) -> DrawnReport:
    """Return the answer of one person to a wave about their neighbours. It is drawn once and stored, as by `answer`.

    The wave is checked before the list is read: its document, the person's turn, and its place in the series that this
    device has answered. Then come the person's limits, what is published, and whether the person is among the people.
    So no refusal that the organiser could cause depends on the list.
    A neighbour who is not among the people adds nothing, and `unlisted` is told so after the draw: a refusal would tell
    the organiser, who chooses the people, who is in the list. One id in a million passes for another one. A list above
    the cap is cut as the mechanism says.

    Args:
        campaign: the JSON of the wave's document.
        neighbours: ids of the neighbours, in any order; one that is named twice counts once. An empty list is a list.
        table: the published belief table; None for a randomized list, which has none.
        people: the published file of all people.
        node: the person's own id, which the file of people must have.
        store: a permanent folder on the device.
        max_epsilon: the most that the person accepts for all reports in the store together, as for `answer`. Lists
            count where an answer protects whole lists.
        max_entry_epsilon: the most that the person accepts for one entry of the list, over all waves in the store.
            Default: the limit that `set_limit` keeps. Without one, only answers that protect whole lists are given.
        shared_device: let another person answer a campaign that this device has answered.
        unlisted: takes the neighbours who are not among the people, once the answer is drawn and kept. They are
            private: show them to the person, and to nobody else.
        now: the time; default: the device's clock.

    Returns:
        The report as JSON values, for `send`.
    """
    private = PrivateList(neighbours)
    del neighbours
    question = verify(campaign, max_epsilon=float("inf") if max_epsilon is None else max_epsilon, now=now)
    wave = wave_of(question)
    if wave.turn_of(check_node(node)) != wave.wave:
        People.read(people, wave).check_person(node)  # a mistyped id has a turn, too: check that it exists
        raise wave.not_the_turn_of(node)
    with locked_store(Path(store)) as folder:
        limit, entry_limit = limit_of(folder, max_epsilon), entry_limit_of(folder, max_entry_epsilon)
        drawn = reports_of(question, folder, seen_now(question.notice, now))
        if node in drawn:
            return to_send(question, drawn[node])
        before = kept_reports(folder)
        _check_series(question, node, before, shared_device=shared_device is True)
        check_sum(before, question, limit)
        check_entries(before, wave.cost, entry_limit)
        known, look_up = _reader(table, people, question, node)
        private = withhold_details(lambda: PrivateList(neighbour_names(private.value)))
        reported = withhold_details(lambda: wave.mechanism.report(look_up(private.value), system_word))
        report = {"campaign": question.id, "node": node, "answer": reported}
        kept = _keep(question, report, folder, seen_now(question.notice, now), is_first=not drawn)
    unlisted(known.unlisted(private.value))
    return to_send(question, kept)


def _reader(
    table: bytes | None, people: bytes, question: Question, node: str
) -> tuple[People, Callable[[Iterable[str]], Codes]]:
    """Check what is published for a wave, and that the person is in it.

    Returns:
        The people, and the function that turns a list into what is reported: rows or sums.
    """
    wave = wave_of(question)
    if wave.table is None:
        if table is not None:
            raise CampaignError(f"wave {wave.wave} has no belief table: give table=None (leave --table out)")
        known = People.read(people, wave)
        known.check_person(node)
        return known, known.rows
    if table is None:
        raise CampaignError(f"wave {wave.wave} has a belief table, and none is given: get it, and give it, too")
    beliefs = Beliefs.read(table, people, question)
    beliefs.people.check_person(node)
    return beliefs.people, beliefs.sums


def _keep(
    question: Question, report: dict[str, Any], folder: Path, seen: SeenNotice, *, is_first: bool
) -> dict[str, Any]:
    """Store a report that was drawn now, and return it as it is stored."""
    node, wave = report["node"], question.neighbours
    hashed = "" if is_first else f".{hashlib.sha256(node.encode()).hexdigest()[:32]}"
    kept_wave = None if wave is None else KeptWave(wave.series, wave.wave, wave.cost, wave.turns, wave.people)
    path = folder / f"{question.id}{hashed}.json"
    write_report(KeptReport(path, report, question.epsilon, (seen,), question.graph, wave=kept_wave))
    if node not in (drawn := reports_of(question, folder, seen)):
        raise RunError(f"the report was removed from {folder} while it was written; nothing was sent")
    return drawn[node]


def _another_node() -> CampaignError:
    return CampaignError(
        "this device has answered the campaign as another node: one device answers a campaign once. If another "
        "person shares it, answer with shared_device=True (--shared-device), which counts the cost again"
    )


def _check_series(question: Question, node: str, before: Sequence[KeptReport], *, shared_device: bool) -> None:
    """Refuse a wave that does not continue what this device has answered.

    Each wave of a series is answered once, and of a series in turns one wave. It is in turns if this document says so
    or if one that was answered did: an organiser could change the number, or leave it out, to ask a person again.
    People and graph stay those of the first document that was answered.
    """
    wave = wave_of(question)
    for kept in before:
        earlier = None if kept.wave is None or kept.wave.series != wave.series else kept.wave
        if earlier is None and kept.report["campaign"] != wave.series:
            continue
        if kept.graph != question.graph or (earlier is not None and earlier.people != wave.people):
            raise other_people(wave.wave)
        if kept.report["node"] != node:
            if not shared_device:
                raise _another_node()
            continue
        if earlier is None:
            continue
        place = earlier.wave
        if wave.turns is not None or earlier.turns is not None:
            raise CampaignError(
                f"this device has answered wave {place} of this series, which is asked in turns: a person answers one "
                "wave of it, and no other one"
            )
        if place > wave.wave:
            raise CampaignError(f"wave {wave.wave} is over: this device has answered a later one of its series")
        if place == wave.wave:
            raise CampaignError(f"this device has answered another wave {place} of this series: each is answered once")
        if wave.documents[place] != kept.report["campaign"]:
            raise CampaignError(
                f"the wave is of another series: it does not continue the wave {place} that this device has answered"
            )
