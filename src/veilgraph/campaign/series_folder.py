"""The folder of a series: its published tables, and the document of each wave after the first document.

A wave is complete there when its table is: `veilgraph open-round` writes the document last. Documents are found by what
they say, whatever their files are called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from veilgraph.campaign.document import Campaign
from veilgraph.campaign.notice import time_in_words
from veilgraph.errors import CampaignError

Refused = Callable[[Path, str], None]
"""Takes a file of the folder that is not used, and why."""


@dataclass(frozen=True, kw_only=True)
class PublishedWave:
    """A complete wave of a folder.

    Attributes:
        campaign: document of the wave.
        path: file of the document.
        tables: the tables that are published for it, by their SHA-256.
    """

    campaign: Campaign
    path: Path
    tables: Mapping[str, bytes] = field(repr=False)


def following_waves(folder: Path, before: Campaign, *, refused: Refused) -> list[PublishedWave]:
    """Return the complete waves that follow a document of a series, in their order.

    Each document must name all before it by their ids, repeat their questions, and have its table in the folder.

    Args:
        folder: folder of the series; it need not exist yet.
        before: the document that is known, of the label or of a wave.
        refused: takes each file that follows from nothing here, and why. Earlier documents of the series are skipped.
    """
    documents = _read_documents(folder, refused)
    found: list[PublishedWave] = []
    while True:
        following = {path: each for path, each in documents.items() if _previous(each) == before.id}
        if len(following) > 1:
            for path in following:
                refused(path, f"the folder has {len(following)} documents of the same wave: leave one of them")
        if len(following) != 1:
            break
        ((path, campaign),) = following.items()
        try:
            check_follows(campaign, before)
            tables = campaign.asked.read_tables(folder)
        except CampaignError as error:
            refused(path, str(error))
            break
        found.append(PublishedWave(campaign=campaign, path=path, tables=tables))
        before = campaign
    known = {before.id, *before.asked.documents.earlier}
    for path, campaign in documents.items():
        if campaign.id not in known and _previous(campaign) != before.id:
            refused(path, _why_apart(campaign, before))
    return found


def newest_document(folder: Path, campaign: Campaign) -> Campaign:
    """Return the newest document of a series, from any document of it and its folder; refuse a file that fits nowhere.

    Args:
        folder: folder of the series.
        campaign: a document of the series.
    """

    def refuse(path: Path, why: str) -> None:
        raise CampaignError(f"{path}: {why}")

    found = following_waves(folder, campaign, refused=refuse)
    return found[-1].campaign if found else campaign


def wave_path(folder: Path, wave: int) -> Path:
    """Return the file in which `veilgraph open-round` writes the document of a wave."""
    return folder / f"wave-{wave}.json"


def check_follows(campaign: Campaign, before: Campaign) -> None:
    """Refuse a document that is not the next wave after another one, or keeps reports for longer than was promised."""
    asked, known = campaign.asked, before.asked
    if asked.documents.earlier != (*known.documents.earlier, before.id):
        raise CampaignError(_why_apart(campaign, before))
    alike = ["schema", "label_name", "graph_sha256", "nodes", "collected_label"]
    asks_alike = asked.answers[:-1] == known.answers and all(getattr(asked, a) == getattr(known, a) for a in alike)
    if known.documents.earlier:
        asks_alike &= all(getattr(asked.documents, a) == getattr(known.documents, a) for a in ("turns", "people"))
    if not asks_alike:
        raise CampaignError(
            f"wave {asked.documents.number} has other people or earlier questions than its series: publish it anew"
        )
    agreed, kept = before.notice.retention, campaign.notice.retention
    if agreed is not None and (kept is None or kept > agreed):
        raise CampaignError(
            f"wave {asked.documents.number} keeps reports for longer than until {time_in_words(agreed)}, which "
            "participants agreed to: publish it from the newest document"
        )


def _read_documents(folder: Path, refused: Refused) -> dict[Path, Campaign]:
    """Return the documents of a folder by their files; of several with the same id, the one with the newest notice."""
    newest: dict[str, tuple[Path, Campaign]] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            read = Campaign.from_json(path.read_bytes())
        except CampaignError as error:
            refused(path, str(error))
        except OSError as error:
            refused(path, f"it cannot be read ({error.strerror})")
        else:
            if read.id not in newest or newest[read.id][1].notice.version < read.notice.version:
                newest[read.id] = (path, read)
    return dict(newest.values())


def _previous(campaign: Campaign) -> str | None:
    return next(reversed(campaign.asked.documents.earlier), None)


def _why_apart(campaign: Campaign, before: Campaign) -> str:
    """Say why a document follows from nothing that is known."""
    if not campaign.asked.documents.earlier or campaign.series != before.series:
        return "it is of another series: give each series a folder of its own"
    wave = campaign.asked.documents.number
    if wave <= before.asked.documents.number:
        return f"it is another document of wave {wave}, which was open before: remove it"
    return f"it is wave {wave}, and the document before it was not taken up: see that it is here and complete"
