"""How a method is trained on collected reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from veilgraph.errors import FitError, RunError
from veilgraph.models.base import DEFAULT_MEMORY
from veilgraph.models.engine.device import resolve_device

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
        for option, given in {"--screen": self.screened, "--plausible": self.plausible}.items():
            if given:
                raise RunError(
                    f"{option} needs one process that holds all reports: leave it out, or start without torchrun on a "
                    "smaller graph"
                )
