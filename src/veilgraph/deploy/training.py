"""Training on collected reports, from whatever source, in one process or in those that torchrun started."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from veilgraph.campaign.plausibility import LEVEL, PlausibleShares, shift_per_liar
from veilgraph.campaign.screening import screen
from veilgraph.deploy.held_out_labels import HeldOutLabels
from veilgraph.deploy.model_card import make_card
from veilgraph.deploy.model_folder import CHECKPOINT, VIEWS, Model, check_model_folder
from veilgraph.deploy.sources import CollectedReports, Source, split_reports
from veilgraph.deploy.training_options import TrainingOptions, default_method, method_for_campaign
from veilgraph.distributed.exchange import Exchange
from veilgraph.distributed.process_group import ProcessGroup, join_process_group
from veilgraph.errors import FitError, RunError
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models import Method, StructureOnly, Veil
from veilgraph.models.checkpoint import Checkpoint, digest_of_task
from veilgraph.models.engine.backbones import check_backbone
from veilgraph.models.engine.device import resolve_device
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.models.registry import METHODS
from veilgraph.models.veil.view_checkpoint import ViewCheckpoint
from veilgraph.progress import Watch, say, unwatched

_LEAST_LABELS = 2


def train(
    source: Source,
    options: TrainingOptions | None = None,
    *,
    out: Path | None = None,
    watch: Watch = unwatched,
    processes: ProcessGroup | None = None,
) -> Model:
    """Train a method on the reports of a source, write the model's folder with its card, and return the model.

    The model is written first, then its card (`card.json` and `people.csv`). Under torchrun every process makes this
    call and holds its share of the graph; from an edge table, the leader writes shards first. The model of several
    processes, or of one on a large folder of shards, keeps neither reports nor probabilities.

    A training that was stopped continues from its last checkpoint in the folder. Methods without epochs have a
    checkpoint in several processes alone, and start again in one.

    Args:
        source: source of the reports, such as `open_source` returns.
        options: options of the training; default: `TrainingOptions()`.
        out: folder of the model; None writes nothing, in one process.
        watch: shows the progress of reading, training and the card.
        processes: processes that this one has joined already; default: those that torchrun started, or this one alone.

    Returns:
        The model; of several processes, only the one that leads has written it.
    """
    options = options or TrainingOptions()
    joined = join_process_group(resolve_device(options.device)) if processes is None else nullcontext(processes)
    with joined as together:
        keeps = together.world_size == 1 and source.sharded_nodes <= options.max_kept_nodes
        run = _Run(options=options, out=out, watch=watch if together.is_leader else unwatched, processes=together)
        if not keeps:
            source = _shared(source, run)
        with together.leader_first():
            method, plausible = _check(source, run, keeps=keeps)
        exchange = Exchange(rank=together.rank, world_size=together.world_size)
        reports = source.read(exchange, bag_counts=method.bag_counts(), watch=run.watch)
        facts: dict[str, Any] = {"method": options.method or default_method(source.campaign)}
        if keeps:
            facts["neighbour_answers"] = [int(wave.has_answer.sum()) for wave in reports.perturbed.neighbour_waves]
        facts["plausibility"] = _plausibility(reports.perturbed, plausible)
        facts["screening"], reports = _screened(reports, options, keeps=keeps)
        with run.watch("train"):
            fit = _fit(method, reports, run, keeps=keeps)
        return _finish(fit, facts | fit.facts, run)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Run:
    """What is the same for all steps of a training: options, folder of the model, progress and processes."""

    options: TrainingOptions
    out: Path | None
    watch: Watch
    processes: ProcessGroup


@dataclass(frozen=True, kw_only=True, eq=False)
class _Fit:
    """A finished fit.

    Attributes:
        method: the fitted method.
        reports: the reports of the source.
        seen: those that the training saw; None if no process keeps all of them.
        held_out: labels that took no part, in one process that keeps all reports.
        checkpoint: state of an interrupted fit; None if there is none.
        facts: description of the fit, JSON-ready.
    """

    method: Method
    reports: CollectedReports
    seen: PerturbedGraph | None
    held_out: HeldOutLabels | None
    checkpoint: Checkpoint | ViewCheckpoint | None
    facts: dict[str, Any]


def _shared(source: Source, run: _Run) -> Source:
    """Return the source from which each process reads its share."""
    if run.out is None:
        raise RunError("several processes, and one on a large graph, write the model's folder: give out")
    run.options.check_shared()
    return source.shared(run.processes, out=run.out, watch=run.watch)


def _check(source: Source, run: _Run, *, keeps: bool) -> tuple[Method, PlausibleShares | None]:
    """Refuse what cannot be trained before anything is read; return the method and the declared class shares."""
    options, campaign = run.options, source.campaign
    if refusal := source.refusal(options):
        raise FitError(refusal)
    if run.out is not None:
        check_model_folder(run.out)
    plausible = None if options.plausible is None else PlausibleShares.load(options.plausible, campaign)
    name, given = options.method or default_method(campaign), dict(options.parameters)
    method = method_for_campaign(name, campaign, source.graph, seed=options.seed, device=options.device, **given)
    if not keeps:
        check_shared_method(method)
    return method, plausible


def check_shared_method(method: Method) -> None:
    """Refuse a method that needs the whole graph in one process."""
    if isinstance(method, GNNMethod):
        check_backbone(method.backbone)
    if not isinstance(method, GNNMethod | StructureOnly | Veil):
        raise FitError(
            f"the method '{method.name}' needs the whole graph in one process: start without torchrun, or choose "
            "veil, rgnn or structure_only"
        )


def _screened(
    reports: CollectedReports, options: TrainingOptions, *, keeps: bool
) -> tuple[dict[str, Any], CollectedReports]:
    """Return the findings of the screening, and the remaining reports; parts of a graph are not screened."""
    if not keeps:
        return {"excluded": False, "suspicions": []}, reports
    screening = screen(reports.perturbed)
    found = {"excluded": options.screened, "suspicions": [asdict(suspicion) for suspicion in screening.suspicions]}
    return found, reports.without(screening) if options.screened else reports


def _plausibility(perturbed: PerturbedGraph, declared: PlausibleShares | None) -> dict[str, Any]:
    """Return the effect of coordinated liars, and the comparison of all label reports with the declared shares."""
    mechanism, labels = perturbed.label_mechanism, perturbed.labels[perturbed.has_label]
    checked = () if declared is None else declared.check(labels, mechanism)
    return {
        "shift_per_liar": shift_per_liar(mechanism.channel),
        "level": LEVEL,
        "shares": [asdict(share) | {"sentence": share.sentence} for share in checked],
    }


def _fit(method: Method, reports: CollectedReports, run: _Run, *, keeps: bool) -> _Fit:
    """Fit the method to two thirds of the reported labels, and select the epoch on the others."""
    options, perturbed = run.options, reports.perturbed
    if (count := reports.count(perturbed.has_label)) < _LEAST_LABELS:
        raise FitError(f"the nodes of the graph sent {count} label report(s): training needs at least {_LEAST_LABELS}")
    split, seen = split_reports(perturbed, method, seed=options.seed, hold_out=options.hold_out)
    checkpoint = _checkpoint(method, reports, split, seen, run) if keeps else _shared_checkpoint(method, reports, run)
    resources: dict[str, Any] = {}
    if isinstance(method, GNNMethod | Veil):
        resources = {"memory": options.memory, "checkpoint": checkpoint}
    method.fit(seen, split, **resources)
    counts, held_out = reports.counts(split, seen), None
    facts: dict[str, Any] = counts | {
        "campaign": reports.campaign.id,
        "guarantee": reports.campaign.guarantee.as_dict(),
        "rounds": reports.rounds,
        "withdrawals": reports.withdrawals,
        "processes": run.processes.world_size,
        "seed": options.seed,
        "resumed_after_epochs": checkpoint.epochs if isinstance(checkpoint, Checkpoint) else 0,
        "contamination": contamination_facts(method, reports.campaign.schema.classes, seen if keeps else None),
        "public": list(method.public_columns),
    }
    if not keeps:
        views = checkpoint.restored if isinstance(checkpoint, ViewCheckpoint) else []
        facts |= {"shards": reports.shards, "hold_out": options.hold_out, "restored_views": views}
    if seen.graph.links is not None:
        facts["links"] = seen.graph.links.in_words
    if counts["held_out"]:
        device = "auto" if keeps else "cpu"
        held_out = HeldOutLabels.of(perturbed, seen, split, reports.exchange, device=device)
        facts["estimated_accuracy"] = held_out.estimated_accuracies(method)
    return _Fit(
        method=method,
        reports=reports,
        seen=seen if keeps else None,
        held_out=held_out if keeps else None,
        checkpoint=checkpoint,
        facts=facts,
    )


def _finish(fit: _Fit, facts: dict[str, Any], run: _Run) -> Model:
    """Write the model's folder, then its card; after Ctrl-C the model is still whole."""
    method, seen, campaign = fit.method, fit.seen, fit.reports.campaign
    if seen is None:
        _forget_probabilities(method)
        model = Model(method=method, campaign=campaign, facts=facts, report_lines=lambda: iter(()))
    else:
        model = Model(
            method=method,
            campaign=campaign,
            facts=facts,
            report_lines=lambda: fit.reports.lines(seen),
            nodes=seen.graph.names,
            collection=fit.reports.collection,
        )
    if run.out is None:
        return model
    with run.processes.leader_first():
        model = model.save(run.out) if run.processes.is_leader else model
        if isinstance(fit.checkpoint, ViewCheckpoint):
            fit.checkpoint.remove()
    if run.processes.is_leader and run.options.card:
        judged = None
        if fit.held_out is not None and seen is not None:
            judged = fit.held_out.judge(method, seen.label_mechanism)
        try:
            make_card(
                model,
                seen,
                held_out=judged,
                not_to_ask=fit.reports.not_to_ask,
                memory=run.options.memory,
                watch=run.watch,
            ).write(run.out)
        except KeyboardInterrupt:
            say(f"the model in {run.out} is complete, its card is not: veilgraph train --card writes it")
            raise
    return model


def _settings(method: GNNMethod) -> dict[str, Any]:
    return {"method": method.name, **method.saved_parameters(), "device": resolve_device(method.device).type}


def _checkpoint(
    method: Method, reports: CollectedReports, split: Split, seen: PerturbedGraph, run: _Run
) -> Checkpoint | None:
    """Open the checkpoint of a fit on a whole graph; it depends on graph, reports, split and settings."""
    if run.out is None or not isinstance(method, GNNMethod):
        return None
    if reports.shards is not None:
        return _open_checkpoint(method, reports, run)
    public = () if seen.public is None else seen.public.contents()
    arrays = seen.graph.edges, seen.features, seen.labels, seen.has_features, seen.has_label, *public
    digest = digest_of_task(_settings(method), [*arrays, split.train, split.validation])
    return Checkpoint.open(run.out / CHECKPOINT, digest)


def _shared_checkpoint(method: Method, reports: CollectedReports, run: _Run) -> Checkpoint | ViewCheckpoint | None:
    """Open the checkpoint of a fit on shards, which no process reads as a whole."""
    if isinstance(method, GNNMethod):
        opened = _open_checkpoint(method, reports, run) if run.processes.is_leader else None
        reader = run.processes.broadcast(None if opened is None else opened.reader())
        return reader if opened is None else opened
    if not isinstance(method, Veil):
        return None
    settings = {"method": method.name, "revision": METHODS[method.name].revision, **method.saved_parameters()}
    settings |= _data_of_shards(reports, run)
    numbers, process = reports.perturbed.graph.counted_nodes, f"{run.processes.rank}-of-{run.processes.world_size}"
    digest = digest_of_task(settings, [] if numbers is None else [numbers])
    return ViewCheckpoint(folder=cast(Path, run.out) / VIEWS, task_digest=digest, process=process)


def _open_checkpoint(method: GNNMethod, reports: CollectedReports, run: _Run) -> Checkpoint:
    """Open the checkpoint of a GNN on shards; it does not depend on the number of processes."""
    digest = digest_of_task(_settings(method) | _data_of_shards(reports, run), [])
    return Checkpoint.open(cast(Path, run.out) / CHECKPOINT, digest)


def _data_of_shards(reports: CollectedReports, run: _Run) -> dict[str, Any]:
    return {"shards": reports.shards, "split": [run.options.seed, run.options.hold_out]}


def _forget_probabilities(method: Method) -> None:
    """Leave probabilities out of the model: each process has only the probabilities of its part of the nodes."""
    fitted = cast(Any, method)
    fitted.probabilities_ = np.empty((0, fitted.probabilities_.shape[1]), dtype=np.float32)
    if isinstance(method, Veil):
        method.conformal_ = method.conformal_.without_nodes()


def contamination_facts(method: Method, names: Sequence[str], seen: PerturbedGraph | None) -> dict[str, Any] | None:
    """Describe the label reports that seem not randomized, JSON-ready; None if the method found none.

    Honest answers that do not follow the links look the same, so both readings are told.

    Args:
        method: the fitted method.
        names: names of the classes.
        seen: reports that judge the method if all of them are honest; None where this process has a part of them.
    """
    if not isinstance(method, Veil) or (found := method.contamination_) is None:
        return None
    targets = {names[each]: found.targets[each] for each in np.argsort(found.targets)[::-1] if found.targets[each] > 0}
    say = f"most name '{max(targets, key=lambda name: targets[name])}'"
    if len(targets) > 1:
        say = "they name " + ", ".join(f"'{name}' ({share:.0%})" for name, share in targets.items())
    judged, honest = None if seen is None else method.unused_reports(seen), None
    sentence = (
        f"About {found.share:.0%} of the label reports look as if they were not randomized; {say}. The model and "
        "all estimates take this as true, sets too. Honest answers that do not follow the links look the same"
    )
    if judged is not None:
        honest = replace(judged, lies=None, lies_name=(), unrandomized=None).accuracy()
        sentence += f": if every report is honest, the model is right for {honest.text}"
    return {
        "share": found.share,
        "targets": targets,
        "accuracy_if_honest": None if honest is None else asdict(honest),
        "sentence": f"{sentence}.",
    }
