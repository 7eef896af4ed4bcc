"""The document of a collection that is open now: the campaign, or the newest wave about neighbours after it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.campaign.round_schedule import ScheduledRound, due, read_schedule
from veilgraph.campaign.series_folder import following_waves
from veilgraph.collection.notice_file import write_closing
from veilgraph.errors import CampaignError


@dataclass(frozen=True)
class OpenDocument:
    """A document that is open now, with the scheduled rounds that have opened.

    Attributes:
        campaign: what it says.
        path: its file.
        written: what the file says, without the scheduled rounds that have opened.
    """

    campaign: Campaign
    path: Path
    written: Campaign

    @classmethod
    def read(cls, path: Path, *, waves: Path | None = None) -> OpenDocument:
        """Read a campaign file, and go on to the newest wave in a folder of waves.

        Args:
            path: the campaign file.
            waves: folder of the waves; None if there is none.
        """
        try:
            written = Campaign.from_json(path.read_bytes())
            campaign = due(written, read_schedule(path), now=datetime.now(UTC))
        except CampaignError as error:
            raise CampaignError(f"{path}: {error}") from None
        found = [] if waves is None else following_waves(waves, campaign, refused=_refuse)
        return cls(found[-1].campaign, found[-1].path, found[-1].campaign) if found else cls(campaign, path, written)

    @property
    def ahead(self) -> tuple[ScheduledRound, ...]:
        """Rounds that open by themselves later, in their order."""
        number = self.campaign.notice.open_round or 0
        return tuple(each for each in read_schedule(self.path) if each.number > number)

    def revise(self, *, notice_file: Path | None = None, **changes: Any) -> OpenDocument:
        """Write the next version of the notice; its id, and with it every report, stays.

        Args:
            notice_file: what people are told, as the owner edits it; a new closing time is written there, too.
            **changes: what `Campaign.revise` takes.
        """
        revised = self.campaign.revise(**changes)
        if notice_file is not None and revised.notice.closes != self.written.notice.closes:
            write_closing(notice_file, revised.notice.closes)
        write_atomically(self.path, revised.to_json() + "\n", public=True)
        return OpenDocument(revised, self.path, revised)


def _refuse(path: Path, why: str) -> None:
    raise CampaignError(f"{path}: {why}")
