"""The method that learns from the reports of a campaign."""

from __future__ import annotations

from typing import Any

from veilgraph.campaign import Campaign
from veilgraph.errors import FitError
from veilgraph.graph.graph import GraphSize
from veilgraph.models import Method
from veilgraph.models.registry import find_method_for_campaign
from veilgraph.reconstruct.propagation import default_hops

DEFAULT_METHOD = "veil"
"""Method of a training that names none: the best that is known."""
NEIGHBOUR_METHOD = "neighbour_waves"
"""The same for a series about private neighbours."""


def default_method(campaign: Campaign) -> str:
    """Return the name of the best method that is known for the reports of a campaign."""
    return DEFAULT_METHOD if campaign.asked.has_edges else NEIGHBOUR_METHOD


def method_for_campaign(
    name: str, campaign: Campaign, graph: GraphSize, *, seed: int = 0, device: str = "auto", **parameters: Any
) -> Method:
    """Return a method of the registry for the reports of a campaign.

    Args:
        name: name of the method.
        campaign: the campaign; it decides which methods there are.
        graph: the public graph; hops that are not given follow from its size.
        seed: seed of the method, if it draws anything.
        device: device of the method, if it has one.
        parameters: other parameters of the method; None stands for the default. Those that it lacks are refused.
    """
    if not campaign.asked.answers and not graph.num_edges:
        raise FitError(
            "the graph has no edges, and no wave about neighbours is published yet: publish one with "
            "'veilgraph open-round'; without the folder of the collection, give --tables, too"
        )
    entry = find_method_for_campaign(name, campaign.feature_mechanism, has_edges=campaign.asked.has_edges)
    given = {key: value for key, value in parameters.items() if value is not None}
    if unknown := sorted(given.keys() - entry.parameters):
        raise FitError(f"the method '{name}' has no {unknown[0]}: leave it out")
    if {"feature_hops", "label_hops"} <= entry.parameters:
        hops = default_hops(graph)
        given = {"feature_hops": 2 * hops, "label_hops": hops} | given
    return entry.make({"seed": seed, "device": device} | given)
