"""Training and prediction on shards in several processes, none of which holds more than its share.

Each process reads its own shards and holds one part of the graph. The model folder keeps the trained weights; it keeps
neither reports nor probabilities, which together are as large as the graph. `predict` reads the shards again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray

from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import perturbed_graph_of_codes
from veilgraph.campaign.plausibility import LEVEL, shift_per_liar
from veilgraph.deploy.fit_collected import (
    accuracy_of_counts,
    check_labels,
    contamination_facts,
    draw_counted_split,
    method_for_campaign,
    open_shard_checkpoint,
)
from veilgraph.deploy.model_card import make_card
from veilgraph.deploy.model_folder import VIEWS, Model, check_model_folder
from veilgraph.deploy.prediction import (
    CERTAIN,
    COVERAGE,
    Predictions,
    calibrated_sets,
    count_set_sizes,
    write_prediction_shard,
    write_predictions_manifest,
)
from veilgraph.deploy.shard_reports import check_campaign, perturbed_from_shards, read_shard_codes
from veilgraph.distributed.exchange import Exchange
from veilgraph.distributed.process_group import ProcessGroup
from veilgraph.distributed.shard_part import ShardHomes, ShardPart
from veilgraph.errors import FitError, RunError
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.graph.shard_writer import drafted_folder
from veilgraph.graph.shards import ShardFolder
from veilgraph.models import Method, StructureOnly, Veil
from veilgraph.models.base import DEFAULT_MEMORY
from veilgraph.models.checkpoint import digest_of_task
from veilgraph.models.engine.backbones import check_backbone
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.models.registry import METHODS
from veilgraph.models.veil.contamination import Contamination
from veilgraph.models.veil.view_checkpoint import ViewCheckpoint
from veilgraph.privacy.frequency import estimate_frequencies
from veilgraph.progress import Watch, unwatched
from veilgraph.reconstruct.labels import project_to_simplex


def train_on_shards(
    processes: ProcessGroup,
    campaign: Path,
    shards: Path,
    *,
    out: Path,
    method: str,
    seed: int = 0,
    hold_out: float = 0.0,
    device: str = "auto",
    memory: int = DEFAULT_MEMORY,
    watch: Watch = unwatched,
    **parameters: Any,
) -> Model | None:
    """Train a method on a folder of shards, in all processes together; the leader writes the model's folder.

    A training that was stopped continues from its last checkpoint, with any number of processes.

    Args:
        processes: the processes, all of which call this function.
        campaign: file of the campaign.
        shards: folder of the shards, with reports.
        out: folder of the model.
        method: name of a method: Veil, one that trains a GNN of a named backbone, or the control.
        seed: seed of the split and the weights.
        hold_out: share of the label reports that only estimate the accuracy.
        device: "auto", "cpu" or "cuda".
        memory: limit of a process for inputs and hidden units, in bytes.
        watch: shows the progress of the leader.
        parameters: other parameters of the method; None stands for the default.

    Returns:
        The model in the process that leads, None in the others.
    """
    exchange = Exchange(rank=processes.rank, world_size=processes.world_size)
    if not processes.is_leader:
        exchange.max(0)  # the leader checks first, so that a mistake is told once
    asked, folder = Campaign.from_json(campaign.read_bytes()), ShardFolder.open(shards)
    chosen = method_for_campaign(method, asked, cast(Graph, folder), seed=seed, device=device, **parameters)
    if processes.is_leader:
        check_campaign(asked, folder)
        check_model_folder(out)
        _check_method(chosen)
        exchange.max(0)
    with watch("train") if processes.is_leader else unwatched("train"):
        part = _Part.read(folder, asked, exchange, bag_counts=chosen.bag_counts())
        views = _view_checkpoint(part, chosen, out, shards=folder.digest, seed=seed, hold_out=hold_out)
        fitted = _fit(
            part, chosen, processes, out, views, seed=seed, hold_out=hold_out, memory=memory, digest=folder.digest
        )
    if not processes.is_leader:
        exchange.max(0)  # the model is written
        views.remove()
        return None
    facts = _unread_facts(asked) | fitted | {"contamination": contamination_facts(chosen, asked)}
    facts |= {
        "method": method,
        "processes": processes.world_size,
        "shards": folder.digest,
        "withdrawals": int(folder.manifest.get("withdrawals", 0)),
    }
    _forget_probabilities(chosen)
    model = Model(method=chosen, campaign=asked, facts=facts, report_lines=lambda: iter(())).save(out)
    exchange.max(0)
    views.remove()
    make_card(model, None, memory=memory, watch=watch).write(out)
    return model


def predict_shards(
    processes: ProcessGroup,
    model: Model,
    shards: Path,
    out: Path,
    *,
    coverage: float | None = None,
    certain: float = CERTAIN,
    watch: Watch = unwatched,
) -> ShardAnswers | None:
    """Predict the classes of all nodes of a folder of shards, and write them as shards.

    Args:
        processes: the processes, all of which call this function.
        model: the model; its method is one that `train_on_shards` trains.
        shards: folder of the shards, with reports.
        out: folder of the predictions.
        coverage: probability with which a set holds the true class; default: 0.9, and no sets where the method gives
            none.
        certain: least probability of an answer that counts as certain enough.
        watch: shows the progress of the leader.

    Returns:
        What was predicted, in the process that leads; None in the others.
    """
    exchange, folder = Exchange(rank=processes.rank, world_size=processes.world_size), ShardFolder.open(shards)
    if not processes.is_leader:
        draft = processes.broadcast(cast(Path | None, None))
        processes.gather(_predict(model, folder, exchange, draft, coverage, certain))
        return None
    calibrated_sets(model, coverage)  # refused before anything is read
    check_campaign(model.campaign, folder)
    _check_method(model.method)
    with watch("predict"), drafted_folder(out, folder.parts) as draft:
        found = processes.gather(_predict(model, folder, exchange, processes.broadcast(draft), coverage, certain))
        described = [shard for shards_of_process, _ in found for shard in shards_of_process]
        write_predictions_manifest(draft, described, graph=folder.identity, campaign=model.campaign.id)
    sizes = [answers.set_sizes for _, answers in found if answers.set_sizes is not None]
    total = [sum(each) for each in zip(*sizes, strict=True)]
    return ShardAnswers(sum(answers.certain for _, answers in found), total or None)


class ShardAnswers(NamedTuple):
    """What was predicted for all nodes of some shards.

    Attributes:
        certain: number of answers that are certain enough.
        set_sizes: number of nodes with a set of each size, [classes + 1]; None if the method gives no sets.
    """

    certain: int
    set_sizes: list[int] | None


@dataclass(frozen=True, kw_only=True, eq=False)
class _Part:
    """The reports of this process's part of the graph.

    Attributes:
        perturbed: the reports on the part.
        numbers: numbers of its nodes in the whole graph, [nodes].
        exchange: exchanges between the processes.
        homes: which process reads which shard.
        to_homes: sends values of the part's nodes to the processes that read their shards.
    """

    perturbed: PerturbedGraph
    numbers: NDArray[np.int64] = field(repr=False)
    exchange: Exchange
    homes: ShardHomes
    to_homes: Callable[[NDArray[Any]], NDArray[Any]]

    @classmethod
    def read(
        cls, folder: ShardFolder, campaign: Campaign, exchange: Exchange, *, bag_counts: tuple[int, ...] = ()
    ) -> _Part:
        """Read the part of this process; a single process reads the whole graph."""
        homes = ShardHomes(folder=folder, exchange=exchange)
        if exchange.world_size == 1:
            perturbed = perturbed_from_shards(campaign, folder, folder.graph())
            return cls(
                perturbed=perturbed, numbers=homes.numbers, exchange=exchange, homes=homes, to_homes=lambda rows: rows
            )
        part = ShardPart.read(folder, exchange)
        codes = [read_shard_codes(folder, shard, folder.nodes(shard).keys, campaign) for shard in part.homes.shards]
        arrays: dict[str, Any] = {
            name: part.from_homes(np.concatenate([getattr(each, name) for each in codes]))
            for name in ("features", "labels", "has_features", "has_label")
        }
        here = replace(codes[0], **arrays)
        del codes, arrays
        perturbed = perturbed_graph_of_codes(campaign, part.graph_part(bag_counts), here)
        return cls(
            perturbed=perturbed,
            numbers=part.rows.numbers,
            exchange=exchange,
            homes=homes,
            to_homes=_WayHome(part.homes, part.rows.numbers),
        )

    def count(self, nodes: NDArray[np.bool_]) -> int:
        """Return the number of nodes in a mask, over all processes."""
        return int(self.exchange.sum(np.array([np.count_nonzero(nodes)]))[0])

    def split(self, method: Method, *, seed: int, hold_out: float) -> tuple[Split, PerturbedGraph]:
        """Return the split of the part's nodes, and the reports that a training of the method sees."""
        whole = self.perturbed
        split = draw_counted_split(self.numbers, whole.has_label, seed=seed, hold_out=hold_out)
        has_features = whole.has_features & method.uses_features
        return split, replace(whole, has_label=whole.has_label & split.labelled, has_features=has_features)

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Degrees of the part's nodes in the whole graph, [nodes]."""
        return self.perturbed.graph.degrees


@dataclass(frozen=True)
class _WayHome:
    """Sends values of a part's nodes to the processes that read their shards; it does not keep the part's rows."""

    homes: ShardHomes
    numbers: NDArray[np.int64]

    def __call__(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values of this home's nodes, in the order of its shards."""
        to = self.homes.of_numbers(self.numbers)
        arrived, _ = self.homes.exchange.send(self.numbers, to)
        return self.homes.exchange.send(values, to)[0][np.argsort(arrived)]


def _check_method(method: Method) -> None:
    if isinstance(method, GNNMethod):
        check_backbone(method.backbone)
    if not isinstance(method, GNNMethod | StructureOnly | Veil):
        raise FitError(
            f"the method '{method.name}' needs the whole graph in one process: start without torchrun, or choose "
            "veil, rgnn or structure_only"
        )


def _fit(
    part: _Part,
    method: Method,
    processes: ProcessGroup,
    out: Path,
    views: ViewCheckpoint,
    *,
    seed: int,
    hold_out: float,
    memory: int,
    digest: str,
) -> dict[str, Any]:
    """Fit the method together with the other processes, and return the facts of the training."""
    perturbed = part.perturbed
    check_labels(part.count(perturbed.has_label), hold_out)
    split, seen = part.split(method, seed=seed, hold_out=hold_out)
    checkpoint = None
    if isinstance(method, GNNMethod):
        opened = None
        if processes.is_leader:
            opened = open_shard_checkpoint(out, method, shards=digest, seed=seed, hold_out=hold_out)
        reader = processes.broadcast(None if opened is None else opened.reader())
        checkpoint = reader if opened is None else opened
        method.fit(seen, split, checkpoint=checkpoint, memory=memory)
    elif isinstance(method, Veil):
        method.fit(seen, split, memory=memory, checkpoint=views)
    else:
        method.fit(seen, split)
    counts = {
        "nodes": part.count(np.ones(len(part.numbers), dtype=np.bool_)),
        "edges": int(part.exchange.sum(np.array([part.degrees.sum()]))[0]) // 2,
        "feature_reports": part.count(seen.has_features),
        "label_reports": part.count(perturbed.has_label),
        "train": part.count(split.train),
        "validation": part.count(split.validation),
        "held_out": part.count(split.test),
    }
    facts: dict[str, Any] = counts | {
        "seed": seed,
        "hold_out": hold_out,
        "resumed_after_epochs": 0 if checkpoint is None else checkpoint.epochs,
        "restored_views": views.restored,
    }
    if counts["held_out"]:
        control = StructureOnly(device="cpu").fit(seen, split)
        found = method.contamination_ if isinstance(method, Veil) else None
        facts["estimated_accuracy"] = {
            each.name: _estimated_accuracy(part, each, split.test, found) for each in (method, control)
        }
    return facts


def _view_checkpoint(
    part: _Part, method: Method, out: Path, *, shards: str, seed: int, hold_out: float
) -> ViewCheckpoint:
    """Return the checkpoint of a fit of Veil by this process; its files are those of the process's own nodes."""
    settings = {"method": method.name, "revision": METHODS[method.name].revision, **method.saved_parameters()}
    settings |= {"shards": shards, "split": [seed, hold_out]}
    process = f"{part.exchange.rank}-of-{part.exchange.world_size}"
    return ViewCheckpoint(folder=out / VIEWS, task_digest=digest_of_task(settings, [part.numbers]), process=process)


def _unread_facts(campaign: Campaign) -> dict[str, Any]:
    """Return the facts that other trainings state: reports in several processes are not screened."""
    mechanism = campaign.label_mechanism
    return {
        "campaign": campaign.id,
        "guarantee": campaign.guarantee.as_dict(),
        "screening": {"excluded": False, "suspicions": []},
        "plausibility": {
            "shift_per_liar": None if mechanism is None else shift_per_liar(mechanism.channel),
            "level": LEVEL,
            "shares": [],
        },
        "waves": None,
    }


def _estimated_accuracy(
    part: _Part, method: Method, held_out: NDArray[np.bool_], contamination: Contamination | None
) -> dict[str, float]:
    """Estimate the accuracy from labels that took no part in the training, of all processes."""
    mechanism, nodes = part.perturbed.label_mechanism, np.flatnonzero(held_out)
    named, predicted = mechanism.named(part.perturbed.labels[nodes]), method.predict()[nodes]
    agreeing = np.bincount(predicted[named[np.arange(len(nodes)), predicted]], minlength=named.shape[1])
    chosen = np.bincount(predicted, minlength=named.shape[1])
    agreeing, chosen = part.exchange.sum(np.stack([agreeing, chosen]))
    return accuracy_of_counts(agreeing, chosen, mechanism.channel, contamination)


def _forget_probabilities(method: Method) -> None:
    """Leave the probabilities of this process's part out of the model: no process has those of all nodes."""
    fitted = cast(Any, method)
    fitted.probabilities_ = np.empty((0, fitted.probabilities_.shape[1]), dtype=np.float32)
    if isinstance(method, Veil) and method.conformal_ is not None:
        method.conformal_ = method.conformal_.without_nodes()


def _predict(
    model: Model, folder: ShardFolder, exchange: Exchange, draft: Path, coverage: float | None, certain: float
) -> tuple[list[dict[str, Any]], ShardAnswers]:
    """Write the predictions of this process's shards; return their descriptions, and what was predicted."""
    calibrated = calibrated_sets(model, coverage)
    part = _Part.read(folder, model.campaign, exchange)
    seen = part.perturbed
    if model.facts.get("shards") == folder.digest:  # the reports of the training, without those that were held out
        _, seen = part.split(model.method, seed=model.facts["seed"], hold_out=model.facts["hold_out"])
    rows = model.method.predict_proba(seen)
    reported = seen.has_features | seen.has_label
    rows[~reported & (part.degrees == 0)] = _class_shares(part, seen)
    if not np.isfinite(rows).all():
        raise RunError("predictions are not finite numbers: the model is damaged; train it again")
    probabilities, reported = part.to_homes(rows), part.to_homes(reported)
    sets = None
    if calibrated is not None:
        sets = part.to_homes(calibrated.sets(rows, seen.has_label, COVERAGE if coverage is None else coverage))
    del rows
    described, sure, start = [], 0, 0
    for shard in part.homes.shards:
        ids = folder.nodes(shard).ids
        here = slice(start, start := start + len(ids))
        found = Predictions(
            nodes=tuple(map(str, ids.to_pylist())),
            classes=model.campaign.schema.classes,
            probabilities=probabilities[here],
            reported=reported[here],
            sets=None if sets is None else sets[here],
            certain_from=certain,
            epsilon_user_level=model.campaign.guarantee.total_user_level,
            campaign=model.campaign.id,
        )
        described.append(write_prediction_shard(found, ids, draft, shard))
        sure += int(found.certain.sum())
    return described, ShardAnswers(sure, count_set_sizes(sets))


def _class_shares(part: _Part, seen: PerturbedGraph) -> NDArray[np.float32]:
    """Estimate the share of each class from the label reports of all processes, [1, classes]."""
    named = part.exchange.sum(seen.named_classes().sum(axis=0).astype(np.int64))
    shares = estimate_frequencies(torch.from_numpy(named / part.count(seen.has_label)), seen.label_mechanism.channel)
    return np.asarray(project_to_simplex(shares.to(torch.float32).unsqueeze(0)).numpy())
