"""How a method is trained on collected reports: its options, and the method that a campaign is trained with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from veilgraph.campaign import Campaign
from veilgraph.errors import FitError, RunError
from veilgraph.graph.graph import GraphSize
from veilgraph.models import Method
from veilgraph.models.base import DEFAULT_MEMORY
from veilgraph.models.engine.device import resolve_device
from veilgraph.models.registry import find_method_for_campaign

MAX_KEPT_NODES = 5_000_000
"""Largest number of nodes in shards whose reports and probabilities one process keeps in the model's folder."""


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Options of a training, whatever the source of its reports.

    Attributes:
        method: name of a method of the registry that fits the campaign; None for the best that is known.
        parameters: other parameters of the method by name; None stands for the default. Those that it lacks are
            refused.
        seed: seed of the split, the folds and the weights.
        hold_out: share of the label reports that only estimate the accuracy, of the method and of the control.
        screened: leave out reports that are implausible.
        plausible: file of class shares that the owner declares plausible. The model's facts say which estimates are
            outside.
        device: "auto", "cpu" or "cuda".
        memory: limit of a process for inputs and hidden units, in bytes.
        card: write a card beside the model; see `veilgraph.deploy.model_card`.
        max_kept_nodes: largest number of nodes in shards whose reports one process keeps in the model's folder.

    >>> TrainingOptions(hold_out=1.0)
    Traceback (most recent call last):
    veilgraph.errors.FitError: hold_out is 1.0: give a share from 0 to below 1
    """

    method: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    hold_out: float = 0.0
    screened: bool = False
    plausible: Path | None = None
    device: str = "auto"
    memory: int = DEFAULT_MEMORY
    card: bool = True
    max_kept_nodes: int = MAX_KEPT_NODES

    def __post_init__(self) -> None:
        if not 0 <= self.hold_out < 1:
            raise FitError(f"hold_out is {self.hold_out}: give a share from 0 to below 1")
        resolve_device(self.device)

    def check_shared(self) -> None:
        """Refuse options that need the reports of all people in one process."""
        for option, given in {"screening": self.screened, "plausible": self.plausible}.items():
            if given:
                raise RunError(
                    f"{option} needs one process that holds all reports: leave it out, or start without torchrun on a "
                    "smaller graph"
                )


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
        graph: the public graph; some defaults follow from its size.
        seed: seed of the method, if it draws anything.
        device: device of the method, if it has one.
        parameters: other parameters of the method; None stands for the default. Those that it lacks are refused.
    """
    if not campaign.asked.answers and not graph.num_edges:
        raise FitError(
            "the graph has no edges, and no wave about neighbours is published yet: publish one with "
            "'veilgraph open-round'; without the folder of the collection, give its tables, too"
        )
    entry = find_method_for_campaign(name, campaign.feature_mechanism, has_edges=campaign.asked.has_edges)
    given = {key: value for key, value in parameters.items() if value is not None}
    if unknown := sorted(given.keys() - entry.parameters):
        raise FitError(f"the method '{name}' has no {unknown[0]}: leave it out")
    return entry.make({"seed": seed, "device": device} | entry.estimator.defaults_on(graph) | given)
