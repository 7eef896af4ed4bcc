"""Training on what was collected: the split, the fit and the model are those of every simulation.

A model's folder holds the method (`model.json`, `weights.npz`), the campaign (`campaign.json`), the reports that it
was trained on (`reports.jsonl`: randomized, as they left the devices) and how it came about (`training.json`); until it
is finished, where training left off (`checkpoint.npz`) and drafts of these files. Nothing in it is code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from veilgraph.atomic_files import is_draft, write_draft, write_whole
from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import perturbed_graph, reports_of
from veilgraph.campaign.report import Report
from veilgraph.distributed.process_group import ProcessGroup
from veilgraph.errors import FitError, RunError
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models import Method, StructureOnly
from veilgraph.models.base import DEFAULT_MEMORY, FitTask
from veilgraph.models.checkpoint import Checkpoint, work_of
from veilgraph.models.engine.device import resolve_device
from veilgraph.models.engine.distributed_fit import ProgressContext, fit_distributed
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.models.registry import deployable_methods
from veilgraph.privacy.frequency import estimate_frequencies, estimated_variance
from veilgraph.privacy.mechanisms import SymmetricChannel
from veilgraph.reconstruct.propagation import reach

_TRAIN_SHARE = 2 / 3
_CHECKPOINT = "checkpoint.npz"
_REPORTS = "reports.jsonl"


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldOut:
    """Reported labels that take no part in anything but an estimate of the accuracy.

    Attributes:
        nodes: whose.
        labels: what they reported.
        channel: how it was randomized.
    """

    nodes: NDArray[np.int64] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)
    channel: SymmetricChannel

    def accuracy(self, method: Method) -> dict[str, float]:
        """Unbiased, from randomized labels: the share of people whose true label is the predicted one.

        A report agrees with the prediction as often as a report of a value agrees with that value, so the estimator of
        frequencies applies as it is.
        """
        agrees = method.predict()[self.nodes] == self.labels
        observed = torch.tensor(agrees.mean(), dtype=torch.float64)
        error = estimated_variance(observed, self.channel, float(max(len(agrees), 2))).sqrt()
        return {"accuracy": float(estimate_frequencies(observed, self.channel)), "standard_error": float(error)}


@dataclass(frozen=True, kw_only=True, eq=False)
class Outline:
    """What is known of a model before it is trained; it stays where graph and reports do not.

    Attributes:
        campaign: whose reports train it.
        facts: how it comes about, JSON-ready.
        held_out: labels to estimate the accuracy from, if any.
    """

    campaign: Campaign
    facts: dict[str, Any]
    held_out: HeldOut | None

    def trained(self, method: GNNMethod, reports: Callable[[], Iterable[str]], processes: int = 1) -> Trained:
        """With what only the fitted method tells.

        Args:
            method: fitted.
            reports: that trained it.
            processes: in which it was fitted.
        """
        facts = self.facts | {"processes": processes}
        if self.held_out is not None:
            control = facts["estimated_accuracy"]
            facts["estimated_accuracy"] = {method.name: self.held_out.accuracy(method)} | control
        return Trained(method=method, campaign=self.campaign, facts=facts, reports=reports)


@dataclass(frozen=True, kw_only=True, eq=False)
class Preparation:
    """A training that can begin.

    Attributes:
        run: the fit.
        outline: of the model.
    """

    run: FitTask[GNNMethod]
    outline: Outline

    def reports(self) -> Iterator[str]:
        """Those that the fit sees, in the order of nodes, a line each."""
        return (report.to_json() + "\n" for report in reports_of(self.run.perturbed, self.outline.campaign))


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """A fitted method and how it came about.

    Attributes:
        method: fitted.
        campaign: whose reports trained it.
        facts: JSON-ready.
        reports: gives the reports that trained it, a line each.
    """

    method: GNNMethod
    campaign: Campaign
    facts: dict[str, Any]
    reports: Callable[[], Iterable[str]]


def method_for_graph(name: str, graph: Graph, **parameters: Any) -> GNNMethod:
    """Return a method of the registry for collected reports, with the parameters that are not None.

    Hops that are not given follow from the graph.
    """
    offered = deployable_methods()
    if name not in offered:
        raise FitError(f"there is no method '{name}' for collected reports: known are {', '.join(offered)}")
    entry = offered[name]
    given = {key: value for key, value in parameters.items() if value is not None}
    if {"feature_hops", "label_hops"} <= entry.parameters:
        hops = reach(graph)
        given = {"feature_hops": 2 * hops, "label_hops": hops} | given
    if unknown := sorted(given.keys() - entry.parameters):
        raise FitError(f"the method '{name}' has no {unknown[0]}: leave it out")
    method = entry.make(given)
    if not isinstance(method, GNNMethod):
        raise FitError(f"the method '{name}' does not train a GNN, which checkpoints and several processes need")
    return method


def prepare(
    campaign: Campaign,
    perturbed: PerturbedGraph,
    method: GNNMethod,
    *,
    seed: int = 0,
    hold_out: float = 0.0,
    folder: Path | None = None,
) -> Preparation:
    """Split the reported labels: two thirds to train on and one third to select the epoch.

    Args:
        campaign: what was collected.
        perturbed: the reports.
        method: not yet fitted.
        seed: of the split.
        hold_out: share of the reported labels that take no part in anything and estimate the accuracy instead, for
            the method and for the structure-only control.
        folder: of the model, where an interrupted fit left its state, and from where this one goes on.
    """
    if not 0 <= hold_out < 1:
        raise FitError(f"hold_out is {hold_out}: give a share from 0 to below 1")
    split = Split.random(
        perturbed.graph.num_nodes,
        seed=seed,
        train=_TRAIN_SHARE * (1 - hold_out),
        validation=(1 - _TRAIN_SHARE) * (1 - hold_out),
        eligible=perturbed.has_label,
    )
    seen = replace(perturbed, has_label=perturbed.has_label & split.labelled)
    checkpoint = None if folder is None else _checkpoint(check_folder(folder), method, seen, split)
    facts: dict[str, Any] = {
        "campaign": campaign.id,
        "method": method.name,
        "guarantee": campaign.guarantee.as_dict(),
        "nodes": perturbed.graph.num_nodes,
        "edges": perturbed.graph.num_edges,
        "feature_reports": int(perturbed.has_features.sum()),
        "label_reports": int(perturbed.has_label.sum()),
        "train": int(split.train.sum()),
        "validation": int(split.validation.sum()),
        "held_out": int(split.test.sum()),
        "seed": seed,
        "resumed_after_epochs": 0 if checkpoint is None else checkpoint.epochs,
    }
    held_out = _held_out(perturbed, split)
    if held_out is not None:
        control = StructureOnly().fit(seen, split)
        facts["estimated_accuracy"] = {control.name: held_out.accuracy(control)}
    return Preparation(
        run=FitTask(method=method, perturbed=seen, split=split, checkpoint=checkpoint),
        outline=Outline(campaign=campaign, facts=facts, held_out=held_out),
    )


def train(preparation: Preparation, *, memory: int = DEFAULT_MEMORY) -> Trained:
    """Fit in this process.

    Args:
        preparation: what, and on what.
        memory: for inputs and hidden units, in bytes.
    """
    run = preparation.run
    method = run.method.fit(run.perturbed, run.split, checkpoint=run.checkpoint, memory=memory)
    return preparation.outline.trained(method, preparation.reports)


def train_spread(
    processes: ProcessGroup,
    prepared: Callable[[], Preparation],
    folder: Path,
    *,
    memory: int = DEFAULT_MEMORY,
    telling: ProgressContext = nullcontext,
) -> Trained:
    """Lead a fit of several processes, none of which holds more than its part of the graph.

    Args:
        processes: all of the run; the others are in `join_fit`.
        prepared: the preparation, made in a process of its own: a function of a module, or a partial of one.
        folder: of the model; the reports wait there as a draft until it is complete.
        memory: of this process, for inputs and hidden units, in bytes.
        telling: surrounds what may take long.
    """
    drafting = partial(_with_draft, prepared, folder)
    try:
        method, (outline, draft) = fit_distributed(processes, drafting, memory=memory, progress_context=telling)
        return outline.trained(method, partial(_lines, draft), processes.world_size)
    except BaseException:
        _remove_drafts(folder)  # the next start reads the reports anew
        raise


def _with_draft(prepared: Callable[[], Preparation], folder: Path) -> tuple[FitTask[GNNMethod], tuple[Outline, Path]]:
    _remove_drafts(folder)  # of a run that was killed
    preparation = prepared()
    return preparation.run, (preparation.outline, write_draft(folder / _REPORTS, preparation.reports()))


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as lines:
        yield from lines


def _held_out(perturbed: PerturbedGraph, split: Split) -> HeldOut | None:
    nodes = np.flatnonzero(split.test)
    channel = perturbed.label_mechanism.channel
    return HeldOut(nodes=nodes, labels=perturbed.labels[nodes], channel=channel) if len(nodes) else None


def _checkpoint(folder: Path, method: GNNMethod, perturbed: PerturbedGraph, split: Split) -> Checkpoint:
    """Of this very work: another graph, report, split or setting makes it another; the number of processes does not."""
    settings = {"method": method.name, **method.parameters(), "device": resolve_device(method.device).type}
    reports = perturbed.features, perturbed.labels, perturbed.has_features, perturbed.has_label
    work = work_of(settings, [perturbed.graph.edges, *reports, split.train, split.validation])
    return Checkpoint.open(folder / _CHECKPOINT, work)


def check_folder(folder: Path) -> Path:
    """Return `folder` if a model can be written there; one that holds anything else is refused."""
    held = sorted(p.name for p in folder.iterdir() if not is_draft(p)) if folder.exists() else []
    if "model.json" not in held and (strangers := [name for name in held if name != _CHECKPOINT]):
        raise RunError(f"{folder} holds '{strangers[0]}' and no model: choose another folder")
    return folder


def save(trained: Trained, folder: Path) -> None:
    """Write the model's folder, over an older model if there is one; a folder of anything else is refused."""
    check_folder(folder)
    # First away and last back: a folder without it was not finished.
    (folder / "training.json").unlink(missing_ok=True)
    trained.method.save(folder)
    write_whole(folder / "campaign.json", trained.campaign.to_json())
    write_whole(folder / _REPORTS, trained.reports())
    write_whole(folder / "training.json", json.dumps(trained.facts, indent=2))
    (folder / _CHECKPOINT).unlink(missing_ok=True)
    _remove_drafts(folder)


def _remove_drafts(folder: Path) -> None:
    for path in filter(is_draft, folder.iterdir() if folder.exists() else ()):
        path.unlink(missing_ok=True)


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """A trained method as its folder holds it.

    Attributes:
        method: fitted.
        campaign: whose reports trained it.
        folder: where it is.
    """

    method: Method
    campaign: Campaign
    folder: Path

    @classmethod
    def load(cls, folder: Path, *, device: str = "auto") -> Model:
        """Read what `save` wrote."""
        try:
            facts = json.loads((folder / "training.json").read_text(encoding="utf-8"))
            campaign = Campaign.from_json((folder / "campaign.json").read_bytes())
            kind = deployable_methods()[facts["method"]].estimator
            (folder / _REPORTS).stat()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"{folder} holds no model that 'veilgraph train' finished ({type(error).__name__})"
            ) from error
        return cls(method=kind.load(folder, device=device), campaign=campaign, folder=folder)

    def reports(self) -> Iterator[Report]:
        """The reports that trained it."""
        for line in _lines(self.folder / _REPORTS):
            yield Report.from_json(line, self.campaign)

    def perturbed(self, graph: Graph, reports: Iterable[Report] | None = None) -> PerturbedGraph:
        """A graph, which may have grown since, with the campaign's reports on it.

        Args:
            graph: the public graph, now.
            reports: of the campaign, now; without them, those that trained the model.
        """
        return perturbed_graph(self.campaign, graph, self.reports() if reports is None else reports)
