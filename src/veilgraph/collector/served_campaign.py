"""A campaign as a collector serves it: what its files hold, and after a wave about neighbours the next one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from veilgraph.campaign import Campaign
from veilgraph.campaign.plausibility import PlausibleShares
from veilgraph.campaign.series_folder import PublishedWave, following_waves
from veilgraph.collector.assessment_file import AssessmentFile
from veilgraph.collector.auth import Credentials
from veilgraph.collector.revisions import WatchedFiles
from veilgraph.errors import RunError
from veilgraph.graph import Graph


@dataclass(frozen=True, kw_only=True)
class ServedSeries:
    """The folder of a series about neighbours, and what was found in it.

    Attributes:
        folder: folder of the documents and tables; it need not exist yet.
        files: its files.
        assess: returns the assessment of the document in a file.
        earlier: documents before the one that is served, in their order.
    """

    folder: Path
    files: WatchedFiles
    assess: Callable[[Path], AssessmentFile | None]
    earlier: tuple[Campaign, ...] = ()

    @classmethod
    def in_folder(
        cls, folder: Path, assess: Callable[[Path], AssessmentFile | None], *, is_strict: bool = False
    ) -> ServedSeries:
        """Watch a folder; `is_strict` makes a file that is not taken up an error."""
        files = WatchedFiles(lambda: (*folder.glob("*.json"), *folder.glob("*.beliefs")), is_strict=is_strict)
        return cls(folder=folder, files=files, assess=assess)

    def poll(self, current: Campaign) -> list[PublishedWave]:
        """Return the complete waves after the current document if files changed; log once why a file is refused."""
        if not self.files.have_changed():
            return []
        return following_waves(self.folder, current, refused=self.files.refuse)


@dataclass(frozen=True, kw_only=True)
class ServedCampaign:
    """What the files of a campaign hold.

    Attributes:
        campaign: campaign whose reports are collected.
        graph: public graph that the campaign was made for; its nodes may report.
        credentials: signing keys of node tokens, and the tokens of roles.
        joined: names of nodes that joined the graph after the campaign was made, and may report too.
        plausible: class shares that the owner declared plausible; the dashboard compares the estimates with them.
        campaign_file: file of the campaign; a revised notice in it is taken up.
        assessment: file with the accuracy of a model on these reports, which the dashboard shows.
        published: files that are published before people answer, by their SHA-256. Each is served whole, so
            that a device that looks somebody up reveals nothing.
        series: the folder of a series about neighbours, whose next waves are taken up.
        contact_names: names by id, from which people choose their contacts in a wave.
    """

    campaign: Campaign
    graph: Graph
    credentials: Credentials
    joined: Sequence[str] = ()
    plausible: PlausibleShares | None = None
    campaign_file: Path | None = None
    assessment: AssessmentFile | None = None
    published: Mapping[str, bytes] = field(default_factory=dict)
    series: ServedSeries | None = None
    contact_names: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all nodes that may report."""
        return (*self.graph.names, *self.joined)

    @property
    def earlier(self) -> tuple[Campaign, ...]:
        """Documents of the series before the one that is served, where its folder has them."""
        return () if self.series is None else self.series.earlier

    def followed_by(self, wave: PublishedWave) -> ServedCampaign:
        """Return the campaign to serve when the next wave of the folder is open."""
        if self.series is None:
            raise RunError("the next wave needs its tables, the folder that 'veilgraph open-round' wrote")
        return replace(
            self,
            campaign=wave.campaign,
            campaign_file=wave.path,
            plausible=None,
            assessment=self.series.assess(wave.path),
            published=wave.campaign.asked.published_files(self.graph.names, wave.tables, self.published),
            series=replace(self.series, earlier=(*self.series.earlier, self.campaign)),
        )
