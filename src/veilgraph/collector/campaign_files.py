"""The files of the campaigns that a collector serves: options name the files of one, a TOML file of several.

Everything is read and checked before the database is opened.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, replace
from datetime import UTC, datetime
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import check_graph
from veilgraph.campaign.plausibility import PlausibleShares
from veilgraph.campaign.round_schedule import read_campaign
from veilgraph.campaign.tokens import read_keys
from veilgraph.collector.app import CampaignApp
from veilgraph.collector.assessment_file import AssessmentFile, parse_duration
from veilgraph.collector.auth import SESSION_COOKIE, Credentials, read_role_tokens
from veilgraph.collector.collector import Application, Collector, SharedParts
from veilgraph.collector.contact_names import read_contact_names
from veilgraph.collector.middleware import Limits
from veilgraph.collector.secret_files import check_secret_file, check_separate
from veilgraph.collector.served_campaign import ServedCampaign, ServedSeries
from veilgraph.collector.several import CampaignsTogether
from veilgraph.collector.store import ReportStore
from veilgraph.collector.wave_switch import WaveSwitch
from veilgraph.errors import CampaignError, RunError, VeilgraphError
from veilgraph.graph import Graph, read_ids

GraphReader = Callable[[Path, Path | None], Graph]

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


@dataclass(frozen=True, kw_only=True)
class CampaignFiles:
    """The files of one campaign: those of a folder, those that options of `veilgraph serve` name, or keys of a table.

    Attributes:
        campaign: the campaign, .json.
        graph: edge table of the public graph.
        keys_file: keys of participants' tokens, one per line.
        admin_token_file: file with the owner's token.
        roles_file: tokens of other roles, .toml.
        nodes: node table, if some nodes have no edge.
        joined: node table of nodes that joined later.
        plausible: class shares that the owner declared plausible, .toml.
        assessment: file that `veilgraph status --out` writes.
        assess_every: duration after which the assessment is computed again, such as 6h.
        tables: folder of a series about neighbours that 'veilgraph open-round' writes: tables, and the documents of
            waves. The newest wave in it is served, and later ones are taken up.
        contact_names: table with the columns `id` and `name`, which all participants of a wave may read.
    """

    campaign: Path
    graph: Path
    keys_file: Path
    admin_token_file: Path
    roles_file: Path | None = None
    nodes: Path | None = None
    joined: Path | None = None
    plausible: Path | None = None
    assessment: Path | None = None
    assess_every: str | None = None
    tables: Path | None = None
    contact_names: Path | None = None

    @classmethod
    def from_table(cls, table: Mapping[str, Any], folder: Path) -> CampaignFiles:
        """Return the files that a table names by the options of `veilgraph serve`; paths start in the folder."""
        keys = {each.name.replace("_", "-"): each for each in fields(cls)}
        if unknown := [key for key in table if key not in keys]:
            raise RunError(f"'{unknown[0]}' is unknown: write some of {', '.join(keys)}")
        if missing := [key for key, each in keys.items() if each.default is MISSING and key not in table]:
            raise RunError(f"'{missing[0]}' is missing: name the file")
        if wrong := [key for key, value in table.items() if not isinstance(value, str) or not value]:
            raise RunError(f"'{wrong[0]}' is not a text: write {wrong[0]} = \"...\"")
        given = {keys[key].name: value if key == "assess-every" else folder / value for key, value in table.items()}
        return cls(**given)

    def load(
        self,
        *,
        store: str,
        name: str | None = None,
        read_graph: GraphReader | None = None,
        is_check: bool = False,
    ) -> ServedCampaign:
        """Read and check the files.

        Args:
            store: URL of the store, for the command that computes the assessment.
            name: name of the campaign among several.
            read_graph: reads an edge table and a node table.
            is_check: whether nothing is served: a document in `tables` that is not taken up is an error then. A
                collector logs it and goes on with the wave before, unless its store knows that a later one was opened.
        """
        secrets = {
            "keys-file": self.keys_file,
            "admin-token-file": self.admin_token_file,
            "roles-file": self.roles_file,
        }
        check_separate(secrets)
        graph = (read_graph or _read_graph)(self.graph, self.nodes)
        try:
            campaign = read_campaign(self.campaign, now=datetime.now(UTC))
            check_graph(campaign, graph)
        except CampaignError as error:
            raise CampaignError(f"{self.campaign}: {error}") from None
        served = ServedCampaign(
            campaign=campaign,
            graph=graph,
            joined=[] if self.joined is None else [str(node) for node in read_ids(self.joined)],
            credentials=Credentials(
                keys=read_keys(check_secret_file(self.keys_file)),
                admin_token=_only_line(check_secret_file(self.admin_token_file)),
                role_tokens={} if self.roles_file is None else read_role_tokens(check_secret_file(self.roles_file)),
                session_cookie=SESSION_COOKIE if name is None else f"{SESSION_COOKIE}_{name}",
            ),
            plausible=None if self.plausible is None else PlausibleShares.load(self.plausible, campaign),
            campaign_file=self.campaign,
            assessment=self._assessment(store),
            published=campaign.asked.published_files(graph.names, campaign.asked.read_tables(self.tables), {}),
            contact_names=self._contact_names(campaign, graph),
        )
        if self.tables is None:
            return served
        series = ServedSeries.in_folder(self.tables, lambda path: self._assessment(store, path), is_strict=is_check)
        served = replace(served, series=series)
        for wave in series.poll(campaign):
            served = served.followed_by(wave)
        return served

    def _contact_names(self, campaign: Campaign, graph: Graph) -> dict[str, str]:
        if self.contact_names is None:
            return {}
        if self.tables is None and not campaign.asked.published:
            raise CampaignError(
                f"{self.contact_names} has names of contacts, and this collection asks nobody about them: remove it"
            )
        return read_contact_names(self.contact_names, frozenset(graph.names))

    def _assessment(self, store: str, campaign: Path | None = None) -> AssessmentFile | None:
        if self.assessment is None:
            if self.assess_every is not None:
                raise RunError("assess_every needs assessment, the file to write")
            return None
        every = 0.0 if self.assess_every is None else parse_duration(self.assess_every)
        table = [] if self.nodes is None else ["--nodes", str(self.nodes)]
        table += [] if self.tables is None else ["--set", f"tables={self.tables}"]
        words = ["status", str(campaign or self.campaign), "--graph", str(self.graph), *table]
        command = [sys.executable, "-m", "veilgraph", *words, "--out", str(self.assessment)] if every else []
        return AssessmentFile(path=self.assessment, command=command, every=every, environment={"DATABASE_URL": store})


def read_campaigns(path: Path) -> dict[str, CampaignFiles]:
    """Read a TOML file with a table for each campaign; its name is a part of the campaign's address, /c/NAME/."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        raise RunError(f"{path} is not UTF-8: save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise RunError(f"{path} is not TOML: {error}") from None
    if not document:
        raise RunError(f"{path} names no campaign: write a table such as [flu] for each")
    found: dict[str, CampaignFiles] = {}
    for name, table in document.items():
        with _naming(path, name):
            if not isinstance(table, dict):
                raise RunError("this is not a table: write the name of a campaign as [name], and its files below it")
            check_name(name)
            found[name] = CampaignFiles.from_table(table, path.parent)
    return found


def load_campaigns(
    campaigns: Mapping[str, CampaignFiles], named_in: Path, *, stores: Mapping[str, str], is_check: bool = False
) -> dict[str, ServedCampaign]:
    """Read and check the files of several campaigns, and that no two have a secret in common.

    Args:
        campaigns: the files of each campaign by its name.
        named_in: file or folder that names them, for errors.
        stores: URL of the store of each.
        is_check: whether nothing is served, as for `CampaignFiles.load`.

    Returns:
        The campaigns by name.
    """
    # Campaigns on the same graph share it.
    read_graph = cache(_read_graph)
    served: dict[str, ServedCampaign] = {}
    for name, files in campaigns.items():
        with _naming(named_in, name):
            served[name] = files.load(store=stores[name], name=name, read_graph=read_graph, is_check=is_check)
    for (name, first), (other, second) in combinations(served.items(), 2):
        if common := _common(first, second):
            raise RunError(f"{named_in}: [{name}] and [{other}] have {common}")
    return served


def check_name(name: str) -> str:
    """Return the name of a campaign among several; refuse one that cannot be a part of an address."""
    if not _NAME.fullmatch(name):
        raise RunError("a name has at most 63 characters of a-z, 0-9 and -, as it is a part of an address")
    return name


def make_collector(served: ServedCampaign, *, store: str, rate: float) -> ASGIApp:
    """Open the store, and make the collector of one campaign at the root.

    Args:
        served: the campaign.
        store: URL of the store.
        rate: maximum requests per second of one address; 0 means no limit.
    """
    shared = SharedParts(ReportStore.open(store), limits=Limits(requests_per_second=rate))
    return Collector(_application(served, shared), shared)


def make_collector_of_several(
    served: Mapping[str, ServedCampaign], *, stores: Mapping[str, str], rate: float
) -> ASGIApp:
    """Open each store once, and make the collector of several campaigns below /c/NAME/.

    Args:
        served: the campaigns by name.
        stores: URL of the store of each; several may have one.
        rate: maximum requests per second of one address to all campaigns; 0 means no limit.
    """
    limits, parts = Limits(requests_per_second=rate), dict[str, SharedParts]()
    applications = {}
    for name, each in served.items():
        with _naming(each.campaign_file, name):
            if (url := stores[name]) not in parts:
                parts[url] = SharedParts(ReportStore.open(url), limits=limits, beside=next(iter(parts.values()), None))
            applications[name] = _application(each, parts[url])
    return Collector(CampaignsTogether(applications, *parts.values()), *parts.values())


def _application(served: ServedCampaign, shared: SharedParts) -> Application:
    """Make the application of a campaign; where a series has a folder, it takes up its waves."""
    wave = CampaignApp(served, shared)
    if served.series is None:
        return wave
    return WaveSwitch(wave, served.series)


def _common(first: ServedCampaign, second: ServedCampaign) -> str | None:
    """Name a part that two campaigns share although each needs its own, with the remedy; None if there is none."""
    if first.campaign.id == second.campaign.id:
        return "the same campaign: name it once"
    if first.campaign.series == second.campaign.series:
        return "waves of the same series: name the one that is open"
    if common := first.credentials.common_with(second.credentials):
        return f"{common} in common: give each its own, or serve one of them by another process on the same store"
    return None


@contextmanager
def _naming(path: Path | None, name: str) -> Iterator[None]:
    """Name the table in an error about one of its files."""
    try:
        yield
    except VeilgraphError as error:
        raise RunError(f"{path}, [{name}]: {error}") from None
    except OSError as error:
        raise RunError(f"{path}, [{name}]: {error.filename or 'a file'}: {error.strerror or error}") from None


def _only_line(path: Path) -> str:
    lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    if len(lines) != 1:
        raise RunError(f"{path} has {len(lines)} lines: it must hold the admin token and nothing else")
    return lines[0]


def _read_graph(graph: Path, nodes: Path | None) -> Graph:
    return Graph.from_files(graph, nodes=nodes)
