"""Time of each stage: veilgraph, the paper's loops in the same run, and a lower bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.performance import floors
from benchmarks.performance.floors import Work
from benchmarks.performance.machine import Machine
from benchmarks.performance.timing import seconds
from benchmarks.performance.workload import BUDGET, EPSILON_X, SAMPLED, Workload
from benchmarks.reference import literal
from benchmarks.reference.literal_run import literal_reports, literal_run, literal_training
from veilgraph.experiments import simulate
from veilgraph.experiments.cells import draw_reports, fit_cells
from veilgraph.experiments.grid import Cell
from veilgraph.models import RGNN, StructureOnly, Veil
from veilgraph.models.base import FitTask
from veilgraph.models.structure_only import RESTARTS, STEPS
from veilgraph.models.veil.cross_fitting import max_folds
from veilgraph.models.veil.pagerank import RANGES
from veilgraph.models.veil.views import iteration_counts
from veilgraph.progress import Progress
from veilgraph.reconstruct import bag_proportions, cluster, reconstruct_features, reconstruct_labels
from veilgraph.reconstruct.labels import named_classes
from veilgraph.reconstruct.operators import operators_of

HOPS = 4
PAPER_HOPS: dict[str, Any] = {"feature_hops": 16, "label_hops": 8}
"""Hops of whole runs, so that they time one fit of the paper's networks and no choice of hops."""
EPSILONS = (3.0, 2.0, 1.0, 0.5)
"""Label budgets of the paper's Table 2. Fits of one seed share their feature reports over all budgets."""
BATCH_SEEDS, TABLE_SEEDS = 2, 5


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage to measure.

    Attributes:
        name: name in tables.
        ours: measures one unit of work, in seconds.
        literal: the same for the paper's loops; None if there are none.
        work: work that cannot be avoided.
        note: remark for readers.
    """

    name: str
    ours: Callable[[], float]
    literal: Callable[[], float] | None
    work: Work
    note: str


def measure_stages(
    workload: Workload, machine: Machine, device: torch.device, *, progress: Progress, epochs: int = 100
) -> list[dict[str, Any]]:
    """Measure all stages, in the order of a run, and return a row for each."""
    stages = [
        *_preparation(workload, device),
        *_training(workload, device),
        *_veil(workload, device),
        *_whole_runs(workload, device, epochs),
    ]
    rows: list[dict[str, Any]] = []
    for stage in stages:
        progress(stage.name, len(rows), len(stages))
        rows.append(_measured(stage, machine))
    progress("stages", len(rows), len(stages))
    return rows


def _measured(stage: Stage, machine: Machine) -> dict[str, Any]:
    ours = stage.ours()
    theirs = stage.literal() if stage.literal else None
    least = stage.work.floors(machine)
    return {
        "stage": stage.name,
        "veilgraph_s": ours,
        "literal_s": theirs,
        "ratio": None if theirs is None else theirs / ours,
        "floors_s": least,
        "distance": {ceiling: ours / floor if floor else None for ceiling, floor in least.items()},
        "note": stage.note,
    }


def _preparation(workload: Workload, device: torch.device) -> Iterator[Stage]:
    private, perturbed, split, sizes = workload.private, workload.perturbed, workload.split, workload.sizes
    schema, mean = private.schema, operators_of(workload.graph, device).mean
    features = schema.num_features

    def timed(work: Callable[[], object]) -> Callable[[], float]:
        return lambda: seconds(work, device=device)

    yield Stage(
        name="randomize",
        ours=timed(lambda: simulate(private, BUDGET, split, rng=np.random.default_rng(0))),
        literal=timed(lambda: literal_reports(private, BUDGET, split, seed=0)),
        work=floors.randomization(sizes, features),
        note="features by GRR-FS and labels by GRR; literal: person by person",
    )
    for name, way, hop in (
        (f"features, {HOPS} hops", "message pass", literal.message_hop(workload.graph, device)),
        ("the same, literal by products", "sparse product", literal.product_hop(mean.matrix)),
    ):
        yield Stage(
            name=name,
            ours=timed(lambda: reconstruct_features(perturbed, HOPS, mean=mean)),
            literal=timed(
                partial(
                    literal.feature_frequencies,
                    hop,
                    perturbed.features,
                    schema.domain_sizes,
                    EPSILON_X,
                    SAMPLED,
                    HOPS,
                    device,
                )
            ),
            work=floors.feature_reconstruction(sizes, features, HOPS),
            note=f"Algorithm 1; literal: one {way} per feature and hop",
        )
    hop = literal.message_hop(workload.graph, device)
    yield Stage(
        name=f"labels, {HOPS} hops",
        ours=timed(lambda: reconstruct_labels(perturbed, HOPS, mean=mean)),
        literal=timed(
            lambda: literal.label_frequencies(
                hop, perturbed.labels, perturbed.has_label, schema.num_classes, BUDGET.epsilon_y, HOPS, device
            )
        ),
        work=floors.label_reconstruction(sizes, HOPS),
        note="Algorithm 2; literal: message passes, then node by node",
    )
    yield Stage(
        name="clusters",
        ours=timed(lambda: cluster(workload.graph, RGNN().num_clusters)),
        literal=None,
        work=floors.clustering(sizes),
        note="METIS on either side; once for each graph and number of clusters",
    )
    clusters = cluster(workload.graph, RGNN().num_clusters)
    yield Stage(
        name="bags",
        ours=timed(lambda: bag_proportions(perturbed, clusters, split.train)),
        literal=timed(
            lambda: literal.bag_frequencies(
                clusters, perturbed.labels, split.train, schema.num_classes, BUDGET.epsilon_y
            )
        ),
        work=floors.bags(sizes),
        note="proportions of the bags; literal: every node for every cluster",
    )


def _training(workload: Workload, device: torch.device) -> Iterator[Stage]:
    perturbed, split, sizes = workload.perturbed, workload.split, workload.sizes
    one = table_runs(workload, device, seeds=1, epsilons=(BUDGET.epsilon_y,))
    many = table_runs(workload, device, seeds=BATCH_SEEDS)
    literal_epoch = _literal_epoch(workload, device)
    yield Stage(
        name="training epoch, one replica",
        ours=lambda: epoch_seconds(one, device),
        literal=literal_epoch,
        work=floors.sage_epoch(sizes),
        note="GraphSAGE, forwards, backwards, step and score; literal: both layers from the inputs on, bag by bag",
    )
    yield Stage(
        name=f"training epoch, each of {len(many)} replicas",
        ours=lambda: epoch_seconds(many, device) / len(many),
        literal=literal_epoch,
        work=floors.sage_epoch(sizes, replicas=len(many), sharing=len(EPSILONS)),
        note=f"{BATCH_SEEDS} seeds at {len(EPSILONS)} label budgets, which share their inputs",
    )
    reports = named_classes(perturbed).to(device)
    held_out = torch.from_numpy(split.validation & perturbed.has_label).to(device)
    labels = torch.from_numpy(perturbed.labels).to(device)[held_out]
    yield Stage(
        name="control",
        ours=lambda: seconds(lambda: StructureOnly(device=device.type).fit(perturbed, split), device=device),
        literal=lambda: seconds(
            lambda: literal.structure_only(
                workload.graph,
                reports * torch.from_numpy(split.train).to(device).unsqueeze(1),
                RESTARTS,
                STEPS,
                lambda scores: float((scores[held_out].argmax(1) == labels).sum()),
            ),
            device=device,
        ),
        work=floors.control(sizes, len(RESTARTS), max(STEPS)),
        note=f"structure only; literal: a propagation for each of {len(RESTARTS) * len(STEPS)} settings",
    )


def _veil(workload: Workload, device: torch.device) -> Iterator[Stage]:
    """Yield the stages of Veil. The paper has no loops for it: the second stage compares with the first."""
    for seeds, epsilons in ((1, (BUDGET.epsilon_y,)), (BATCH_SEEDS, EPSILONS)):
        runs = table_runs(workload, device, seeds=seeds, epsilons=epsilons)
        count = len(runs)
        yield Stage(
            name="Veil, one run" if count == 1 else f"Veil, each of {count} runs together",
            ours=partial(_veil_seconds, runs, device),
            literal=None,
            work=floors.veil(
                workload.sizes,
                max_folds(workload.perturbed) + 1,
                steps=max(steps for _, steps in RANGES),
                sweeps=max(iteration_counts(operators_of(workload.graph, torch.device("cpu"))).values()),
                runs=count,
                seeds=seeds,
            ),
            note="on a graph of which nothing is kept yet; runs of one seed share its random signs",
        )


def _veil_seconds(runs: list[FitTask[RGNN]], device: torch.device) -> float:
    def fit() -> None:
        unseen = replace(runs[0].perturbed.graph)
        fresh = [
            FitTask(
                method=Veil(seed=run.method.seed, device=device.type),
                perturbed=replace(run.perturbed, graph=unseen),
                split=run.split,
            )
            for run in runs
        ]
        list(Veil.fit_together(fresh))

    return seconds(fit, device=device) / len(runs)


def _whole_runs(workload: Workload, device: torch.device, epochs: int) -> Iterator[Stage]:
    settings = RGNN(epochs=epochs, **PAPER_HOPS)
    measured: list[float] = []

    def literal_seconds() -> float:
        """Measure once for both stages, because it takes by far the longest."""
        if not measured:
            measured.append(
                seconds(lambda: literal_run(workload.private, BUDGET, workload.split, settings, device), device=device)
            )
        return measured[0]

    for seeds, epsilons in ((1, (BUDGET.epsilon_y,)), (TABLE_SEEDS, EPSILONS)):
        count = seeds * len(epsilons)
        cells = [_cell(workload, seed, epsilon, epochs) for seed in range(seeds) for epsilon in epsilons]
        yield Stage(
            name="one whole run" if count == 1 else f"{count} runs together, each",
            ours=partial(_seconds_per_fit, cells, workload, device),
            literal=literal_seconds,
            work=_run_work(workload, settings, seeds, count),
            note="randomize, cluster, reconstruct, train; "
            f"{settings.hops[0]} and {settings.hops[1]} hops, {epochs} epochs",
        )


def _seconds_per_fit(cells: list[Cell], workload: Workload, device: torch.device) -> float:
    return seconds(lambda: list(fit_cells(cells, workload.unseen(), device.type)), device=device) / len(cells)


def _run_work(workload: Workload, settings: RGNN, seeds: int, count: int) -> Work:
    """Return the work of one of `count` runs. Runs of one seed share features, and all runs share the clusters."""
    sizes, features = workload.sizes, workload.private.schema.num_features
    of_a_seed = floors.randomization(sizes, features) + floors.feature_reconstruction(sizes, features, settings.hops[0])
    of_a_run = (
        floors.label_reconstruction(sizes, settings.hops[1])
        + floors.bags(sizes)
        + floors.sage_epoch(sizes, replicas=count, sharing=count // seeds) * settings.epochs
    )
    return floors.clustering(sizes) * (1 / count) + of_a_seed * (seeds / count) + of_a_run


def _cell(workload: Workload, seed: int, epsilon_y: float, epochs: int) -> Cell:
    return Cell(
        dataset=workload.private.name,
        method=RGNN.name,
        epsilon_x=EPSILON_X,
        epsilon_y=epsilon_y,
        sampled=SAMPLED,
        seed=seed,
        parameters={"epochs": epochs, **PAPER_HOPS},
    )


def table_runs(
    workload: Workload, device: torch.device, *, seeds: int, epsilons: Sequence[float] = EPSILONS
) -> list[FitTask[RGNN]]:
    """Return the tasks of a table: every seed at every label budget."""
    runs = []
    for seed in range(seeds):
        for epsilon_y in epsilons:
            perturbed, split = draw_reports(_cell(workload, seed, epsilon_y, epochs=1), workload.private)
            method = RGNN(feature_hops=HOPS, label_hops=HOPS, seed=seed, device=device.type)
            runs.append(FitTask(method=method, perturbed=perturbed, split=split))
    return runs


def epoch_seconds(runs: list[FitTask[RGNN]], device: torch.device, *, epochs: int = 20) -> float:
    """Return the time of one epoch of all tasks together: a long fit minus a fit of one epoch."""

    def fit(count: int) -> float:
        longer = [replace(run, method=replace(run.method, epochs=count)) for run in runs]
        return seconds(lambda: list(RGNN.fit_together(longer)), device=device)

    long, short = fit(1 + epochs), fit(1)
    return (long - short) / epochs if long > short else long / (1 + epochs)


def _literal_epoch(workload: Workload, device: torch.device) -> Callable[[], float]:
    settings = RGNN(feature_hops=HOPS, label_hops=HOPS)

    def measured() -> float:
        training = literal_training(workload.perturbed, BUDGET, workload.split, settings, device)
        return seconds(training.epoch, device=device)

    return measured
