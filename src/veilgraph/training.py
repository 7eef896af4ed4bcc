"""Training on what was collected: the split, the fit and the model are those of every simulation.

A model's folder holds the method (`model.json`, `weights.npz`), the campaign (`campaign.json`), the reports that it
was trained on (`reports.jsonl`: randomized, as they left the devices) and how it came about (`training.json`); until it
is finished, where training left off (`checkpoint.npz`). Nothing in it is code.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from veilgraph.campaign import Campaign
from veilgraph.collected import perturbed_graph, reports_of
from veilgraph.errors import FitError, RunError
from veilgraph.files import is_draft, write_whole
from veilgraph.frequency import estimate_frequencies, estimated_variance
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.learn import RGNN, Method, PlainGNN, StructureOnly
from veilgraph.learn.checkpoint import Checkpoint, work_of
from veilgraph.learn.device import resolve_device
from veilgraph.learn.gnn import GNNMethod
from veilgraph.learn.spread import fit_spread
from veilgraph.processes import Processes
from veilgraph.reconstruct.propagation import reach
from veilgraph.report import Report

METHODS: dict[str, type[GNNMethod]] = {"rgnn": RGNN, "plain": PlainGNN}
_TRAIN_SHARE = 2 / 3
_CHECKPOINT = "checkpoint.npz"


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """A fitted method and what it was fitted on.

    Attributes:
        method: fitted.
        campaign: whose reports trained it.
        perturbed: the reports on the graph of that time.
        facts: how it came about, JSON-ready.
    """

    method: GNNMethod
    campaign: Campaign
    perturbed: PerturbedGraph
    facts: dict[str, Any]


def make_method(name: str, graph: Graph, **parameters: Any) -> GNNMethod:
    """The method with those parameters that are not None; hops that are left open follow from the graph."""
    if name not in METHODS:
        raise FitError(f"there is no method '{name}' for collected reports: known are {', '.join(METHODS)}")
    given = {key: value for key, value in parameters.items() if value is not None}
    if name == "rgnn":
        hops = reach(graph)
        given = {"feature_hops": 2 * hops, "label_hops": hops} | given
    known = {field.name for field in fields(METHODS[name]) if field.init}
    if unknown := sorted(given.keys() - known):
        raise FitError(f"the method '{name}' has no {unknown[0]}: leave it out")
    return METHODS[name](**given)


def train(
    campaign: Campaign,
    perturbed: PerturbedGraph,
    method: GNNMethod,
    *,
    seed: int = 0,
    hold_out: float = 0.0,
    folder: Path | None = None,
    processes: Processes | None = None,
) -> Trained:
    """Fit on the reported labels, two thirds to train on and one third to select the epoch.

    Args:
        campaign: what was collected.
        perturbed: the reports.
        method: not yet fitted.
        seed: of the split.
        hold_out: share of the reported labels that take no part in anything and estimate the accuracy instead.
        folder: of the model, where an interrupted fit leaves its state, and from where this one goes on.
        processes: that fit together, with this one in the lead; without them it fits alone.
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
    if processes is None or processes.count == 1:
        method.fit(seen, split, checkpoint=checkpoint)
    else:
        fit_spread(processes, method, seen, split, checkpoint=checkpoint)
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
        "processes": 1 if processes is None else processes.count,
        "resumed_after_epochs": 0 if checkpoint is None else checkpoint.epochs,
    }
    if split.test.any():
        control = StructureOnly().fit(seen, split)
        facts["estimated_accuracy"] = {m.name: _estimated_accuracy(m, perturbed, split.test) for m in (method, control)}
    return Trained(method=method, campaign=campaign, perturbed=seen, facts=facts)


def _estimated_accuracy(method: Method, perturbed: PerturbedGraph, held_out: NDArray[np.bool_]) -> dict[str, float]:
    """Unbiased, from randomized labels: the share of people whose true label is the predicted one.

    A report agrees with the prediction as often as a report of a value agrees with that value, so the estimator of
    frequencies applies as it is.
    """
    agrees = method.predict()[held_out] == perturbed.labels[held_out]
    observed = torch.tensor(agrees.mean(), dtype=torch.float64)
    channel = perturbed.label_mechanism.channel
    error = estimated_variance(observed, channel, float(max(len(agrees), 2))).sqrt()
    return {"accuracy": float(estimate_frequencies(observed, channel)), "standard_error": float(error)}


def _checkpoint(folder: Path, method: GNNMethod, perturbed: PerturbedGraph, split: Split) -> Checkpoint:
    """Of this very work: another graph, report, split or setting makes it another; the number of processes does not."""
    settings = {"method": method.name, **method._parameters(), "device": resolve_device(method.device).type}
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
    lines = (report.to_json() + "\n" for report in reports_of(trained.perturbed, trained.campaign))
    write_whole(folder / "reports.jsonl", "".join(lines))
    write_whole(folder / "training.json", json.dumps(trained.facts, indent=2))
    for path in (folder / _CHECKPOINT, *filter(is_draft, folder.iterdir())):
        path.unlink(missing_ok=True)


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """A trained method as its folder holds it.

    Attributes:
        method: fitted.
        campaign: whose reports trained it.
        folder: where it is.
    """

    method: GNNMethod
    campaign: Campaign
    folder: Path

    @classmethod
    def load(cls, folder: Path, *, device: str = "auto") -> Model:
        """Read what `save` wrote."""
        try:
            facts = json.loads((folder / "training.json").read_text(encoding="utf-8"))
            campaign = Campaign.from_json((folder / "campaign.json").read_bytes())
            kind = METHODS[facts["method"]]
            (folder / "reports.jsonl").stat()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"{folder} holds no model that 'veilgraph train' finished ({type(error).__name__})"
            ) from error
        return cls(method=kind.load(folder, device=device), campaign=campaign, folder=folder)

    def reports(self) -> Iterator[Report]:
        """The reports that trained it."""
        with (self.folder / "reports.jsonl").open(encoding="utf-8") as lines:
            for line in lines:
                yield Report.from_json(line, self.campaign)

    def perturbed(self, graph: Graph, reports: Iterable[Report] | None = None) -> PerturbedGraph:
        """A graph, which may have grown since, with the campaign's reports on it.

        Args:
            graph: the public graph, now.
            reports: of the campaign, now; without them, those that trained the model.
        """
        return perturbed_graph(self.campaign, graph, self.reports() if reports is None else reports)
