"""A small campaign on a small graph, with the keys and files that its collector needs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.notice import Notice
from veilgraph.campaign.report import Report, sent_length
from veilgraph.campaign.tokens import new_key, token_for
from veilgraph.client import DrawnReport
from veilgraph.collector.auth import Credentials, Role, new_role_token
from veilgraph.graph import Graph
from veilgraph.privacy.schema import Column, FeatureSchema

CLOSES = datetime(2999, 1, 1, tzinfo=UTC)
SCHEMA = FeatureSchema(
    columns=(
        Column(name="age", edges=(0, 30, 50, 120)),
        Column(name="smoker", values=("no", "yes")),
        Column(name="region", values=("north", "south", "west", "east")),
    ),
    classes=("well", "ill"),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Collection:
    """A campaign, its graph, its keys, and made-up reports."""

    campaign: Campaign
    graph: Graph
    credentials: Credentials = field(
        default_factory=lambda: Credentials(keys=[new_key()], admin_token=new_role_token(Role.OWNER))
    )

    @classmethod
    def ring(cls, nodes: int = 20, *, schema: FeatureSchema = SCHEMA, closes: datetime = CLOSES) -> Collection:
        """Make a campaign on a ring of the nodes n0, n1, ..."""
        numbers = np.arange(nodes)
        names = [f"n{i}" for i in numbers]
        graph = Graph.from_edges(np.stack([numbers, (numbers + 1) % nodes]), nodes, node_ids=names)
        return cls.on(graph, schema=schema, closes=closes)

    @classmethod
    def on(cls, graph: Graph, *, schema: FeatureSchema = SCHEMA, closes: datetime = CLOSES) -> Collection:
        features: dict[str, Any] = {"epsilon_x": 1.0, "sampled": 1} if schema.columns else {}
        campaign = Campaign.new(
            schema=schema,
            graph=graph,
            notice=Notice(purpose="Tests", contact="tests@example.org", closes=closes),
            budget=CampaignBudget(epsilon_y=1.0, **features),
            label="health",
        )
        return cls(campaign=campaign, graph=graph)

    def report(
        self, node: str, *, features: Sequence[int | None] | None = (2, 1, 3), label: int | tuple[int, ...] | None = 1
    ) -> Report:
        codes = None if features is None else tuple(features)
        return Report(campaign=self.campaign.id, node=node, features=codes, label=label)

    def drawn(self, node: str) -> DrawnReport:
        """Return the report as a device holds it, to send."""
        return DrawnReport(self.report(node).document, sent_length(self.campaign, node))

    def token(self, node: str) -> str:
        return token_for(self.credentials.keys[0], self.campaign.id, node)

    def headers(self, node: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token(node)}"}

    @property
    def admin(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.credentials.admin_token}"}

    def entry(self, node: str) -> dict[str, object]:
        return {"token": self.token(node), "report": self.report(node).document}

    @staticmethod
    def batch(*entries: object) -> bytes:
        """Return the body of a batch: one line for each entry."""
        return "".join(json.dumps(entry) + "\n" for entry in entries).encode()

    def write(self, folder: Path) -> list[str]:
        """Write the files that `veilgraph serve` reads; return the words that name them."""
        names = self.graph.names
        edges = "".join(f"{names[u]},{names[v]}\n" for u, v in self.graph.edges.T.tolist())
        contents = {
            "campaign": ("campaign.json", self.campaign.to_json()),
            "graph": ("edges.csv", f"from,to\n{edges}"),
            "nodes": ("nodes.csv", "id\n" + "\n".join(names) + "\n"),
            "keys-file": ("keys.txt", "\n".join(self.credentials.keys)),
            "admin-token-file": ("admin.txt", self.credentials.admin_token),
        }
        options: list[str] = []
        for option, (name, content) in contents.items():
            write_atomically(folder / name, content)
            options += [] if option == "campaign" else [f"--{option}", str(folder / name)]
        return [str(folder / contents["campaign"][0]), *options]
