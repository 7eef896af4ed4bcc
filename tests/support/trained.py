"""Training in one call, with the options of source and method together."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from veilgraph.campaign import Campaign
from veilgraph.deploy import GivenReports, Model, Source, TrainingOptions, open_source, train
from veilgraph.graph import Graph, PerturbedGraph
from veilgraph.models.registry import METHODS
from veilgraph.progress import Watch, unwatched

_SOURCE = ("nodes", "rounds", "tables")
_OPTIONS = {field.name for field in fields(TrainingOptions)} - {"parameters"}


def options_of(**given: Any) -> TrainingOptions:
    """Return options; names that they do not have are parameters of the method."""
    known = {name: value for name, value in given.items() if name in _OPTIONS}
    return TrainingOptions(**known, parameters={name: given[name] for name in given.keys() - known.keys()})


def train_source(source: Source, *, out: Path | None = None, watch: Watch = unwatched, **given: Any) -> Model:
    """Train in this process."""
    return train(source, options_of(**given), out=out, watch=watch)


def train_files(store: str | None, campaign: Path, graph: Path | Graph, *, out: Path | None, **given: Any) -> Model:
    """Train on the files that `veilgraph train` reads."""
    files = {name: given.pop(name) for name in _SOURCE if name in given}
    return train_source(open_source(campaign, graph, store=store, **files), out=out, **given)


def train_reports(campaign: Campaign, perturbed: PerturbedGraph, **given: Any) -> Model:
    """Train on reports in memory."""
    return train_source(GivenReports(campaign=campaign, perturbed=perturbed), **given)


def parameters_of(name: str) -> dict[str, Any]:
    """Return the settings with which a method trains for a moment."""
    return {"epochs": 3} if "epochs" in METHODS[name].parameters else {}
