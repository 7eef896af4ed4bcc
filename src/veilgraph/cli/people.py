"""The people whom a campaign asks: from its own graph, or from a table of those who joined later."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from veilgraph.campaign import Campaign
from veilgraph.errors import CampaignError, RunError
from veilgraph.graph import Graph, read_ids
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
        remedy = (
            "give the same --graph and --nodes as to 'campaign new'; 'campaign tokens' and 'campaign missing' take "
            "people who joined later by --nodes alone"
        )
    else:
        remedy = "give the same --graph and --nodes as to 'campaign new', with the same people and links"
    people = counted(public.num_nodes, "person", "people")
    raise CampaignError(
        f"{graph} is not the campaign's graph: it has {people}, and the campaign {campaign.nodes:,}; {remedy}"
    )


def people_of(campaign: Campaign, graph: Path | None, nodes: Path | None) -> tuple[list[str], dict[str, int]]:
    """Return the names of the people whom a campaign asks, and their counts.

    Args:
        campaign: the campaign.
        graph: its edge table; None for the people of the node table alone, who joined later.
        nodes: node table with a column `id`.
    """
    if graph is not None:
        public = campaign_graph(campaign, graph, nodes)
        return list(public.names), counts_of(public)
    if nodes is None:
        raise RunError("the people are missing: give --graph, with --nodes as for 'campaign new', or --nodes alone")
    names = read_ids(nodes)
    return names, {"people": len(names)}


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


def counts_in_words(counts: Mapping[str, int], nodes: Path | None) -> list[str]:
    """Say how many people and links there are, and how people without links come in if they are left out."""
    if "links" not in counts:
        return []
    people, links, alone = counts["people"], counts["links"], counts["people_without_links"]
    said = f"{counted(people, 'person', 'people')}, {counted(links, 'link')}, people without links: {alone:,}."
    if nodes is None and links and not alone:
        said += (
            " A table of links cannot name people without links: give everybody's table with --nodes to include them."
        )
    return [said]
