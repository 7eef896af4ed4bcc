"""The people and links of a campaign: read, checked against it, and counted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from veilgraph.campaign import Campaign
from veilgraph.errors import CampaignError
from veilgraph.graph import Graph
from veilgraph.graph.shards import read_graph
from veilgraph.privacy.plain_text import counted


def campaign_graph(campaign: Campaign, graph: Path, nodes: Path | None) -> Graph:
    """Read the campaign's graph; refuse another one, such as one without the people who have no links."""
    public = read_graph(graph, nodes=nodes)
    if public.fingerprint == campaign.graph_sha256:
        return public
    if public.num_nodes < campaign.nodes and nodes is None:
        remedy = "give everybody's table with --nodes, because a table of links cannot name people without links"
    elif public.num_nodes > campaign.nodes:
        remedy = "leave out people who joined later, and everything else that the campaign was not made for"
    else:
        remedy = "give the tables that the campaign was made with"
    people = counted(public.num_nodes, "person", "people")
    raise CampaignError(
        f"{graph} is not the campaign's graph: it has {people}, and the campaign {campaign.nodes:,}; {remedy}"
    )


def counts_of(graph: Graph) -> dict[str, int]:
    """Return the numbers of people and links, and of people without links."""
    alone = int((graph.degrees == 0).sum())
    return {"people": graph.num_nodes, "links": graph.num_edges, "people_without_links": alone}


def looks_like_people(graph: Graph) -> bool:
    """Tell whether every link is the only one of one of its ends, in two groups or more.

    A table with a row for each person, such as person and town, reads like that.

    >>> looks_like_people(Graph.from_edges([[0, 1, 2], [3, 4, 4]], num_nodes=5))
    True
    >>> looks_like_people(Graph.from_edges([[0, 1, 2], [1, 2, 3]], num_nodes=4))
    False
    """
    groups = graph.num_nodes - graph.num_edges
    return graph.num_edges > 0 and groups > 1 and bool((graph.degrees[graph.edges].min(axis=0) == 1).all())


def counts_in_words(counts: Mapping[str, int]) -> str:
    """Say how many people and links there are."""
    people, links = counted(counts["people"], "person", "people"), counted(counts["links"], "link")
    return f"{people}, {links}, people without links: {counts['people_without_links']:,}."
