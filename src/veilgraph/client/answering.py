"""Answers to a campaign. Each is drawn once and stored before it is returned."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from veilgraph.client.campaign import verify
from veilgraph.client.kept import KeptReport, SeenNotice, kept_reports, reports_of, seen_now, write_report
from veilgraph.client.neighbours import other_people
from veilgraph.client.published import Published
from veilgraph.client.question import DrawnReport, Question, to_send
from veilgraph.client.reading import check_node
from veilgraph.client.record import PrivateList, PrivateRecord, neighbour_names, withhold_details
from veilgraph.client.refusals import CampaignError, RunError
from veilgraph.client.rounds import memory_path, remembered_rounds
from veilgraph.client.spending import check_entries, check_sum, entry_limit_of, limit_of
from veilgraph.client.store import hash_of_node, locked_store
from veilgraph.client.words import system_word


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

    Of a series, the open round is answered, from permanent answers in the store. The cost of all rounds is counted when
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
    asked, opened = question.asked.about_a_record(), question.notice.round
    check_node(node)
    with locked_store(Path(store)) as folder:
        limit, seen = limit_of(folder, max_epsilon), seen_now(question.notice, now)
        drawn, memory = reports_of(question, folder, seen), memory_path(folder, question.id, node)
        if node in drawn:
            report = asked.report(drawn[node], lambda: question.codes(private.value), memory, opened)
            return to_send(question, report, rounds=remembered_rounds(memory))
        if drawn and shared_device is not True:
            raise _another_node()
        check_sum(kept_reports(folder), question, limit)
        named = {"campaign": question.id, "node": node}
        report = asked.report(named, lambda: question.codes(private.value), memory, opened)
        kept = _keep(question, report, folder, seen, is_first=not drawn)
        return to_send(question, kept, rounds=remembered_rounds(memory))


def answer_neighbours(
    published: Published,
    neighbours: Iterable[str],
    *,
    node: str,
    store: str | os.PathLike[str],
    max_epsilon: float | None = None,
    max_entry_epsilon: float | None = None,
    shared_device: bool = False,
    now: datetime | None = None,
) -> DrawnReport:
    """Return the answer of one person to a wave about their neighbours. It is drawn once and stored, as by `answer`.

    The wave is checked before the list is read: its document, the person's turn, and its place in the series that this
    device has answered. Then come the person's limits, what is published, and whether the person is among the people.
    So no refusal that the organiser could cause depends on the list.
    A neighbour who is not among the people adds nothing, and `unlisted` of the report names them after the draw: a
    refusal would tell the organiser, who chooses the people, who is in the list. One id in a million passes for another
    one. A list above the cap is cut as the mechanism says.

    Args:
        published: the wave's document and files, such as `fetch(...).read()`.
        neighbours: ids of the neighbours, in any order; one that is named twice counts once. An empty list is a list.
        node: the person's own id, which the file of people must have.
        store: a permanent folder on the device.
        max_epsilon: the most that the person accepts for all reports in the store together, as for `answer`. Lists
            count where an answer protects whole lists.
        max_entry_epsilon: the most that the person accepts for one entry of the list, over all waves in the store.
            Default: the limit that `set_limit` keeps. Without one, only answers that protect whole lists are given.
        shared_device: let another person answer a campaign that this device has answered.
        now: the time; default: the device's clock.

    Returns:
        The report as JSON values, for `send`.
    """
    private = PrivateList(neighbours)
    del neighbours
    most = float("inf") if max_epsilon is None else max_epsilon
    question = verify(published.campaign, max_epsilon=most, now=now)
    wave = question.asked.about_a_list()
    wave.check_turn(check_node(node), published.people)
    with locked_store(Path(store)) as folder:
        limit, entry_limit = limit_of(folder, max_epsilon), entry_limit_of(folder, max_entry_epsilon)
        drawn = reports_of(question, folder, seen := seen_now(question.notice, now))
        if node in drawn:
            return to_send(question, drawn[node])
        before = kept_reports(folder)
        _check_series(question, node, before, shared_device=shared_device is True)
        check_sum(before, question, limit)
        check_entries(before, wave.place.cost, entry_limit)
        people, look_up = wave.open_files(published, node)
        private = withhold_details(lambda: PrivateList(neighbour_names(private.value)))
        reported = withhold_details(lambda: wave.mechanism.report(look_up(private.value), system_word))
        report = {"campaign": question.id, "node": node, "answer": reported}
        kept = _keep(question, report, folder, seen, is_first=not drawn)
    return to_send(question, kept, people.unlisted(private.value))


def _keep(
    question: Question, report: dict[str, Any], folder: Path, seen: SeenNotice, *, is_first: bool
) -> dict[str, Any]:
    """Store a report that was drawn now, and return it as it is stored."""
    node = report["node"]
    path = folder / f"{question.id}{'' if is_first else '.' + hash_of_node(node)}.json"
    write_report(KeptReport(path, report, question.epsilon, (seen,), question.graph, question.asked.place))
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

    People and graph stay as in the first document that was answered.
    """
    wave = question.asked.about_a_list()
    for kept in before:
        campaign, series = kept.report["campaign"], wave.place.series
        earlier = kept.place if kept.place is not None and kept.place.series == series else None
        if earlier is None and campaign != series:
            continue
        if kept.graph != question.graph or (earlier is not None and earlier.people != wave.people):
            raise other_people(wave.wave)
        if kept.report["node"] == node:
            if earlier is not None:
                wave.check_after(campaign, earlier)
        elif not shared_device:
            raise _another_node()
