"""Reports that the store keeps, each with its cost and the notices that the person saw."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

from veilgraph.client.epsilons import rounded_up
from veilgraph.client.neighbours import Place
from veilgraph.client.question import Notice, PublicGraph, Question
from veilgraph.client.reading import TIME_FORMAT, canonical_json, read_json
from veilgraph.client.refusals import CampaignError, NoticeWarning, RunError
from veilgraph.client.store import damaged_file, write_text

_KEPT_NAME = re.compile(r"[0-9a-f]{64}(\.[0-9a-f]{32})?\.json")
COST_TEXT = re.compile(r"[0-9]{1,30}(\.[0-9]{1,30})?")


class SeenNotice(NamedTuple):
    """A notice that the person saw: what they agreed to, if it is the first of a report."""

    version: int
    sha256: str
    purpose: str
    retention: str | None
    """Time after which the organiser promised to delete the reports, in UTC."""
    seen: str
    """The day, such as 2027-01-31."""


class KeptReport(NamedTuple):
    """A report as it is stored, with its epsilon and the notices that the person saw."""

    path: Path
    report: dict[str, Any]
    epsilon: Decimal
    notices: tuple[SeenNotice, ...]
    graph: PublicGraph
    place: Place | None
    """Place in a series about neighbours; None for an answer from a record."""


def kept_reports(folder: Path, campaign: str = "") -> list[KeptReport]:
    """Read all reports of a store, or the reports of one campaign."""
    names = sorted(path.name for path in folder.iterdir())
    return [_read_kept(folder / name) for name in names if _KEPT_NAME.fullmatch(name) and name.startswith(campaign)]


def _read_kept(path: Path) -> KeptReport:
    """Read a stored report."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise damaged_file(path) from None
    with suppress(ValueError, TypeError, KeyError, AttributeError):
        report = read_json(text)
        cost, notices, graph = report.pop("epsilon"), _seen_notices(report.pop("notices")), report.pop("graph")
        place = Place.read(report.pop("neighbours")) if "answer" in report else None
        is_report = _is_report(report) if place is None else _is_list_answer(report)
        if is_report and COST_TEXT.fullmatch(cost) and path.name.startswith(report["campaign"]) and notices:
            return KeptReport(path, report, Decimal(cost), notices, PublicGraph(**graph), place)
    raise damaged_file(path)


def _seen_notices(stated: object) -> tuple[SeenNotice, ...] | None:
    if not isinstance(stated, list):
        return None
    notices = [entry for entry in stated if isinstance(entry, dict) and entry.keys() == set(SeenNotice._fields)]
    if len(notices) < len(stated) or not all(
        type(entry["version"]) is int
        and all(isinstance(entry[key], str) for key in ("sha256", "purpose", "seen"))
        and isinstance(entry["retention"], (str, NoneType))
        for entry in notices
    ):
        return None
    return tuple(SeenNotice(**entry) for entry in notices)


def seen_now(notice: Notice, now: datetime | None) -> SeenNotice:
    """Return the record, to be kept, of a notice that the person sees now."""
    retention = None if notice.retention is None else notice.retention.strftime(TIME_FORMAT)
    day = (now or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%d")
    return SeenNotice(notice.version, notice.sha256, notice.purpose, retention, day)


def _is_list_answer(report: dict[str, Any]) -> bool:
    return (
        set(report) == {"campaign", "node", "answer"}
        and all(isinstance(report[key], str) for key in ("campaign", "node"))
        and (
            isinstance(report["answer"], str)
            or (isinstance(report["answer"], list) and all(type(count) is int for count in report["answer"]))
        )
    )


def reports_of(question: Question, folder: Path, seen: SeenNotice) -> dict[str, dict[str, Any]]:
    """Return this campaign's stored reports by node, and record a new notice."""
    kept = kept_reports(folder, question.id)
    for one in kept:
        if not question.asked.fits(one.report):
            raise damaged_file(one.path)
    _check_notice(seen, [notice for one in kept for notice in one.notices])
    for one in kept:
        if seen.sha256 not in {notice.sha256 for notice in one.notices}:
            write_report(one._replace(notices=(*one.notices, seen)), replace=True)
    return {one.report["node"]: one.report for one in kept}


def _check_notice(seen: SeenNotice, before: Sequence[SeenNotice]) -> None:
    """Refuse a notice that is older than one that the device has seen; warn if it promises less."""
    latest = max((notice.version for notice in before), default=0)
    if seen.version < latest:
        raise CampaignError(
            f"its notice has version {seen.version}, and this device has seen version {latest}: get the campaign again"
        )
    if any(notice.version == seen.version and notice.sha256 != seen.sha256 for notice in before):
        raise CampaignError(
            f"this device has seen another notice of version {seen.version}: ask the campaign's contact; "
            "every change of a notice raises its version"
        )
    agreed = [notice.retention for notice in before if notice.retention is not None]
    if agreed and (seen.retention is None or seen.retention > min(agreed)):
        said = "gives no date any more" if seen.retention is None else f"says {seen.retention}"
        warnings.warn(
            f"you agreed that reports are deleted after {min(agreed)}, and the notice {said}: ask its contact",
            NoticeWarning,
            stacklevel=4,
        )


def _is_report(report: dict[str, Any]) -> bool:
    features, label = report.get("features"), report.get("label")
    return (
        set(report) - {"round"} == {"campaign", "node", "features", "label"}
        and type(report.get("round", 1)) is int
        and isinstance(report["campaign"], str)
        and len(report["campaign"]) == 64
        and isinstance(report["node"], str)
        and not (features is None and label is None)
        and (
            features is None or (isinstance(features, list) and all(type(code) in (int, NoneType) for code in features))
        )
        and (type(label) in (int, NoneType) or (isinstance(label, list) and all(type(code) is int for code in label)))
    )


def write_report(kept: KeptReport, *, replace: bool = False) -> None:
    """Write a report with its epsilon, rounded up, its graph, and the notices that the person saw."""
    stated: dict[str, Any] = {
        "epsilon": rounded_up(kept.epsilon),
        "graph": kept.graph._asdict(),
        "notices": [notice._asdict() for notice in kept.notices],
    }
    if kept.place is not None:
        costs = {key: rounded_up(cost) for key, cost in kept.place.cost._asdict().items()}
        stated["neighbours"] = {key: value for key, value in kept.place._asdict().items() if key != "cost"} | costs
    write_text(kept.path, canonical_json({**kept.report, **stated}), replace=replace)
