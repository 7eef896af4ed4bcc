"""The store: a folder of the device that keeps every report that was drawn, with its cost and the notices seen."""

from __future__ import annotations

import os
import re
import secrets
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

from veilgraph.client.epsilons import rounded_up
from veilgraph.client.neighbours import ListCost
from veilgraph.client.question import Notice, PublicGraph, Question
from veilgraph.client.reading import TIME_FORMAT, canonical_json, read_json
from veilgraph.client.refusals import CampaignError, NoticeWarning, RunError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_KEPT_NAME = re.compile(r"[0-9a-f]{64}(\.[0-9a-f]{32})?\.json")
_DRAFT_NAME = re.compile(r"\.([0-9a-f]{64}(\.[0-9a-f]{32})?(\.memory)?|limit)\.json\.[0-9a-f]{16}\.part")
COST_TEXT = re.compile(r"[0-9]{1,30}(\.[0-9]{1,30})?")
_MAX_TABLE_EPSILON = Decimal("36.74")  # above ln(2**53), the largest epsilon that an integer table can have


class SeenNotice(NamedTuple):
    """A notice that the person saw: what they agreed to, if it is the first of a report."""

    version: int
    sha256: str
    purpose: str
    retention: str | None
    """Time after which the organiser promised to delete the reports, in UTC."""
    seen: str
    """The day, such as 2027-01-31."""


class KeptWave(NamedTuple):
    """The place of an answer about neighbours in its series, and what it costs."""

    series: str
    wave: int
    cost: ListCost
    turns: int | None
    people: str
    """SHA-256 of the file of all people."""


class KeptReport(NamedTuple):
    """A report as it is stored, with its epsilon and the notices that the person saw."""

    path: Path
    report: dict[str, Any]
    epsilon: Decimal
    notices: tuple[SeenNotice, ...]
    graph: PublicGraph | None
    recorded: bool = True  # a report that an earlier version wrote has no epsilon
    wave: KeptWave | None = None  # of an answer about neighbours


@contextmanager
def locked_store(folder: Path) -> Iterator[Path]:
    """Hold the store alone: what is counted stays true until the report is written. Remove drafts of killed clients."""
    descriptor = None
    try:
        for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
        descriptor = _lock(folder)
        for path in folder.iterdir():
            if _DRAFT_NAME.fullmatch(path.name):
                path.unlink()
    except OSError as error:
        if descriptor is not None:
            os.close(descriptor)
        raise RunError(f"the store {folder} cannot be used: {error.strerror}; nothing was sent") from None
    try:
        yield folder
    finally:
        os.close(descriptor)  # this unlocks it


def _lock(folder: Path) -> int:
    if sys.platform == "win32":  # folders cannot be opened on Windows
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
    else:
        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def kept_reports(folder: Path, campaign: str = "") -> list[KeptReport]:
    """Read all reports of a store, or those of one campaign."""
    names = sorted(path.name for path in folder.iterdir())
    return [_read_kept(folder / name) for name in names if _KEPT_NAME.fullmatch(name) and name.startswith(campaign)]


def _read_kept(path: Path) -> KeptReport:
    """Read a stored report. An unrecorded epsilon is the largest that a report of this length can have."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise damaged_file(path) from None
    with suppress(ValueError):
        report = read_json(text)
        if isinstance(report, dict):
            cost, notices = report.pop("epsilon", None), _seen_notices(report.pop("notices", []))
            graph = _kept_graph(report.pop("graph", None))
            wave = _kept_wave(report.pop("neighbours", None)) if "answer" in report else None
            is_answer = _is_list_answer(report) and isinstance(cost, str) and wave is not None
            if is_answer and COST_TEXT.fullmatch(cost) and path.name.startswith(report["campaign"]) and notices:
                return KeptReport(path, report, Decimal(cost), notices, graph, wave=wave)
            if _is_report(report) and path.name.startswith(report["campaign"]) and notices is not None:
                codes = [*(report["features"] or ()), *([] if report["label"] is None else [report["label"]])]
                if cost is None and all(type(code) is int for code in codes):
                    return KeptReport(path, report, len(codes) * _MAX_TABLE_EPSILON, notices, graph, recorded=False)
                if isinstance(cost, str) and COST_TEXT.fullmatch(cost):
                    return KeptReport(path, report, Decimal(cost), notices, graph)
    raise damaged_file(path)


def _kept_graph(stated: object) -> PublicGraph | None:
    """Read the graph of a stored report; None if it is something else, with which no wave continues a series."""
    if not isinstance(stated, dict) or set(stated) != set(PublicGraph._fields):
        return None
    return PublicGraph(**stated)


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
    """Return what is kept of a notice that the person sees now."""
    retention = None if notice.retention is None else notice.retention.strftime(TIME_FORMAT)
    day = (now or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%d")
    return SeenNotice(notice.version, notice.sha256, notice.purpose, retention, day)


def _kept_wave(stated: object) -> KeptWave | None:
    """Read the place and the cost of an answer about neighbours; None if it is something else."""
    with suppress(TypeError, KeyError, ValueError, ArithmeticError):
        if isinstance(stated, dict) and set(stated) == {"series", "wave", "turns", "people", *ListCost._fields}:
            cost, turns = ListCost(*(Decimal(stated[key]) for key in ListCost._fields)), stated["turns"]
            is_place = all(isinstance(stated[key], str) for key in ("series", "people")) and type(stated["wave"]) is int
            if is_place and type(turns) in (int, NoneType) and min(cost) > 0:
                return KeptWave(stated["series"], stated["wave"], cost, turns, stated["people"])
    return None


def _is_list_answer(report: dict[str, Any]) -> bool:
    return (
        set(report) == {"campaign", "node", "answer"}
        and all(isinstance(report[key], str) for key in ("campaign", "node"))
        and (
            isinstance(report["answer"], str)
            or (isinstance(report["answer"], list) and all(type(count) is int for count in report["answer"]))
        )
    )


def damaged_file(path: Path) -> RunError:
    """Return the refusal of a file that cannot be read as it was written."""
    return RunError(
        f"{path} is damaged: restore it from a backup. Do not delete it: if its report was sent, "
        "a second draw would reveal more than the campaign states"
    )


def reports_of(question: Question, folder: Path, seen: SeenNotice) -> dict[str, dict[str, Any]]:
    """Return this campaign's stored reports by node; record a new notice, and an epsilon of an earlier version."""
    kept = kept_reports(folder, question.id)
    for one in kept:
        if not _fits(one.report, question):
            raise damaged_file(one.path)
    _check_notice(seen, [notice for one in kept for notice in one.notices])
    for one in kept:
        # Without a notice, it was drawn by an earlier version, whose campaigns have one notice for ever.
        is_new = bool(one.notices) and seen.sha256 not in {notice.sha256 for notice in one.notices}
        if is_new or not one.recorded:
            notices = (*one.notices, seen) if is_new else one.notices
            write_report(one._replace(epsilon=question.epsilon, notices=notices), replace=True)
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
        set(report) - {"wave"} == {"campaign", "node", "features", "label"}
        and type(report.get("wave", 1)) is int
        and isinstance(report["campaign"], str)
        and len(report["campaign"]) == 64
        and isinstance(report["node"], str)
        and not (features is None and label is None)
        and (
            features is None or (isinstance(features, list) and all(type(code) in (int, NoneType) for code in features))
        )
        and (type(label) in (int, NoneType) or (isinstance(label, list) and all(type(code) is int for code in label)))
    )


def _fits(report: dict[str, Any], question: Question) -> bool:
    if question.neighbours is not None or "answer" in report:
        return question.neighbours is not None and question.neighbours.mechanism.fits(report.get("answer"))
    parts = ((report["features"], question.features), (report["label"], question.label))
    return ("wave" in report) == (question.waves is not None) and all(
        reported is None or (mechanism is not None and mechanism.fits(reported)) for reported, mechanism in parts
    )


def write_report(kept: KeptReport, *, replace: bool = False) -> None:
    """Write a report with its epsilon, rounded up, its graph, and the notices that the person saw."""
    stated: dict[str, Any] = {"epsilon": rounded_up(kept.epsilon)}
    if kept.graph is not None:
        stated["graph"] = kept.graph._asdict()
    if kept.wave is not None:
        costs = {key: rounded_up(getattr(kept.wave.cost, key)) for key in ListCost._fields}
        stated["neighbours"] = kept.wave._asdict() | costs
        del stated["neighbours"]["cost"]
    notices = [notice._asdict() for notice in kept.notices]
    write_text(kept.path, canonical_json({**kept.report, **stated, "notices": notices}), replace=replace)


def write_text(path: Path, text: str, *, replace: bool) -> None:
    """Write a file that its owner alone can read. A crash leaves a whole file or none, or the one before."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            draft.replace(path)
        else:
            os.link(draft, path)  # unlike a rename, it does not replace a file
        _sync_folder(path.parent)
    except OSError as error:
        raise RunError(f"the report cannot be stored in {path.parent}: {error.strerror}; nothing was sent") from None
    finally:
        with suppress(OSError):
            draft.unlink()


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # folders cannot be opened on Windows, and their entries are durable
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
