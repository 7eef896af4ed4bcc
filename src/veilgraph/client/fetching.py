"""The open campaign and what is published for it, fetched whole and checked."""

from __future__ import annotations

import hashlib
import http.client
import os
import secrets
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import NamedTuple

from veilgraph.client.campaign import read_campaign, read_question, verify
from veilgraph.client.connection import PATIENT, Patience, deliver, make_request
from veilgraph.client.neighbours import other_people
from veilgraph.client.published import Published
from veilgraph.client.question import Question
from veilgraph.client.reading import MAX_CAMPAIGN_LENGTH, T
from veilgraph.client.refusals import CampaignError, ClockWarning, RunError, SendError
from veilgraph.client.store import write_text

_CLOCKS_DIFFER = timedelta(minutes=5)
_MAX_PUBLISHED_LENGTH = 2**30
_PIECE_LENGTH = 2**18
_FETCHED_NAME = "campaign.json"


class Fetched(NamedTuple):
    """What a collector publishes, as files on this device that were checked."""

    campaign: Path
    question: Question
    table: Path | None = None
    """The belief table of a wave about neighbours; None for a randomized list, which has none."""
    people: Path | None = None
    """The file of all people of a wave about neighbours."""

    def read(self) -> Published:
        """Read the files of a wave about neighbours, for `answer_neighbours`."""
        people = b"" if self.people is None else self.people.read_bytes()
        return Published(self.campaign.read_bytes(), people, None if self.table is None else self.table.read_bytes())


def fetch(
    url: str,
    folder: str | os.PathLike[str],
    *,
    patience: Patience = PATIENT,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    now: datetime | None = None,
) -> Fetched:
    """Get the campaign that is open and all that is published for it, and check it; nothing about a person is sent.

    A wave about neighbours has two files, the belief table and the people; a randomized list has the people alone. They
    are taken whole, so that nobody learns whom a device looks up, and counted and compared with the hashes in the
    document. A file that is there already is not taken again, so that a repetition is cheap. The document is written
    last, as `campaign.json`: with it, the folder is complete. A failure leaves the folder as it was.

    Args:
        url: the collector's address: https, or http on this machine.
        folder: folder of one campaign or series on the device; created if needed. A campaign of another series than
            the one in it is refused, and so is an earlier wave.
        patience: how often and how long to try for each file.
        progress: takes what is taken, the bytes so far and their number.
        now: the time; default: the collector's clock, which its answer states. Where the device's differs by more than
            five minutes, it warns.
    """
    source, place = _Source(url, patience, progress), Path(folder)
    before = _fetched(place)
    text, question = source.campaign(now)
    _check_fetched(question, before, place)
    try:
        place.mkdir(parents=True, exist_ok=True)
        try:
            files = source.files(question, place)
        except SendError:
            text, newer = source.campaign(now)
            if newer.id == question.id:
                raise
            question = newer  # the next wave was opened in between
            _check_fetched(question, before, place)
            files = source.files(question, place)
        write_text(place / _FETCHED_NAME, text, replace=True)
        earlier = {} if before is None else before.asked.files
        if "table" in earlier and (old := place / earlier["table"].name) != files.get("table"):
            old.unlink(missing_ok=True)
    except OSError as error:
        raise RunError(f"{place} cannot be written: {error.strerror}") from None
    return Fetched(place / _FETCHED_NAME, question, **files)


class _Source(NamedTuple):
    """A collector from which whole files are taken."""

    url: str
    patience: Patience
    progress: Callable[[str, int, int], None]

    def campaign(self, now: datetime | None) -> tuple[str, Question]:
        """Return the text of the campaign that is open, and what it asks."""
        request = make_request(self.url, "campaign", "", "GET")
        content, clock = self._load(
            request, lambda response: (b"".join(_pieces(response, MAX_CAMPAIGN_LENGTH)), _clock(response))
        )
        question = verify(content, max_epsilon=float("inf"), now=now or clock)
        if now is None and clock is not None and abs(datetime.now(UTC) - clock) > _CLOCKS_DIFFER:
            warnings.warn(
                f"the collector's clock says {clock:%Y-%m-%d %H:%M:%S} UTC, and this device's another time: set it, "
                "because it decides here whether the campaign is open",
                ClockWarning,
                stacklevel=4,
            )
        return content.decode(), question

    def files(self, question: Question, folder: Path) -> dict[str, Path]:
        """Take the published files that are not there."""
        return {
            what: self._file(folder / file.name, file.sha256, file.layout.size)
            for what, file in question.asked.files.items()
        }

    def _file(self, path: Path, sha256: str, most: int) -> Path:
        if path.exists() and _file_sha256(path) == sha256:
            return path
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        try:
            request = make_request(self.url, f"published/{sha256}", "", "GET")
            self._load(request, lambda response: self._write(draft, request, response, most))
            if (actual := _file_sha256(draft)) != sha256:
                raise CampaignError(
                    f"a published file has the SHA-256 {actual}, and the campaign names {sha256}: it is not used; try "
                    "again later, and tell the campaign's contact if this stays"
                )
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        return path

    def _write(
        self, draft: Path, request: urllib.request.Request, response: http.client.HTTPResponse, most: int
    ) -> None:
        """Write an answer to a draft; if it breaks off, the next request asks for the rest."""
        done = draft.stat().st_size if draft.exists() else 0
        if response.headers.get("Content-Range", "").split("-")[0] != f"bytes {done}":
            draft.unlink(missing_ok=True)
            done = 0
        total = done + (response.length or most)
        try:
            with draft.open("ab") as file:
                for piece in _pieces(response, min(most, _MAX_PUBLISHED_LENGTH) - done):
                    try:
                        file.write(piece)
                    except OSError as error:
                        raise RunError(f"{draft.parent} cannot be written: {error.strerror}") from None
                    done += len(piece)
                    self.progress("published files", done, total)
        finally:
            # A file has one content for ever: its name is its hash, which is checked at the end.
            request.add_header("Range", f"bytes={done}-")

    def _load(self, request: urllib.request.Request, read: Callable[[http.client.HTTPResponse], T]) -> T:
        remedy = "what is complete is kept: fetch again later"
        return deliver(request, self.patience, remedy, read)


def _pieces(response: http.client.HTTPResponse, most: int) -> Iterator[bytes]:
    """Return the pieces of an answer; refuse one that is too long, and have one that broke off taken again."""
    done = 0
    while piece := response.read(_PIECE_LENGTH):
        done += len(piece)
        if done > most:
            raise SendError(f"the collector sends more than {most} bytes, which is too much for this campaign")
        yield piece
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)


def _clock(response: http.client.HTTPResponse) -> datetime | None:
    """Return the time that the collector's answer states; None if it states none."""
    with suppress(ValueError, TypeError):
        return parsedate_to_datetime(response.headers["Date"]).astimezone(UTC)
    return None


def _file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetched(folder: Path) -> Question | None:
    """Return the campaign that was fetched into a folder before, closed or not."""
    try:
        return read_question(*read_campaign((folder / _FETCHED_NAME).read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, CampaignError):
        raise RunError(f"{folder / _FETCHED_NAME} is no campaign that was fetched: choose another folder") from None


def _check_fetched(question: Question, before: Question | None, folder: Path) -> None:
    """Refuse a campaign that does not continue the one in the folder, or is an earlier state of it."""
    if before is None:
        return
    later, earlier = question.asked.place, before.asked.place
    if before.id not in (question.id, *question.asked.documents):
        if earlier is not None and question.id in before.asked.documents:
            raise CampaignError(
                f"the collector serves an earlier document of the series than wave {earlier.wave}, which is in "
                f"{folder}: fetch again later"
            )
        raise CampaignError(f"{folder} holds another campaign or series: choose another folder for this one")
    if later is not None:
        if question.graph != before.graph or (earlier is not None and earlier.people != later.people):
            raise other_people(later.wave)
        if earlier is not None:
            later.check_turns(earlier, folder)
    if before.id == question.id and question.notice.version < before.notice.version:
        raise CampaignError(
            f"the collector serves notice {question.notice.version}, older than {before.notice.version}, which is in "
            f"{folder}: fetch again later"
        )
