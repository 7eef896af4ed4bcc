"""How often the intervals of a model card hold the truth, on public graphs.

Three quarters of the people of a graph report a label. Every estimate of the card comes from these reports. Its truth
is that of all people of the graph, each predicted without their own report; of the people who reported, where their
own report is used. An interval of 95 % should hold the truth in 95 of 100 collections.

With --helpful, three tenths of the people report. Then another tenth does: those whose reports should help most, or
others. By how much do predictions improve for the people without a report at first?

python -m studies.model_card --datasets FOLDER --first-seed 100 --draws 10
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray

from studies.deployed import read_labels
from veilgraph.datasets import PrivateGraph
from veilgraph.deploy.learning_curve import expected_help, fit_subsamples
from veilgraph.experiments.simulation import label_rng, randomize_labels, simulated_collection
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models import LabelVeil, StructureOnly
from veilgraph.models.unused_reports import UnusedReports
from veilgraph.privacy.estimate import Estimate
from veilgraph.privacy.mechanisms.registry import best_label_mechanism
from veilgraph.privacy.schema import NO_LABEL

CERTAIN = 0.8
SHARES = (0.25, 0.5)
KINDS = {
    "accuracy": "accuracy",
    "own report": "accuracy, own report used",
    "control": "accuracy of the control",
    "difference": "Veil − control",
    "certain": "accuracy of certain answers",
    "calibration": "calibration bins",
    "precision": "precision of classes",
    "recall": "recall of classes",
    "curve": "points of the learning curve",
    "gain": "gains along the curve",
    "next doubling": "next doubling gains at most the upper end of the last",
}
"""Kinds of estimates, with their names in the table."""


class Check(TypedDict):
    """One interval and its truth."""

    kind: str
    low: float
    high: float
    value: float | None
    truth: float
    holds: bool


def measure(path: Path, epsilon: float, seed: int, share: float = 0.75) -> dict[str, Any]:
    """Return every interval of one simulated collection with its truth."""
    torch.set_num_threads(1)
    private = read_labels(path)
    nodes, eligible = private.graph.num_nodes, private.labels != NO_LABEL
    split = Split.random(nodes, seed=seed, train=share * 2 / 3, validation=share / 3, eligible=eligible)
    mechanism = best_label_mechanism(private.schema.num_classes, epsilon)
    labels = randomize_labels(private, mechanism, split, rng=label_rng(seed))
    perturbed = simulated_collection(private, split, mechanism, labels)
    checks = list(checks_of(private, perturbed, split, seed=seed))
    return {"dataset": path.stem, "epsilon_user_level": epsilon, "seed": seed, "checks": checks}


def checks_of(private: PrivateGraph, perturbed: PerturbedGraph, split: Split, *, seed: int) -> Iterator[Check]:
    """Yield every interval that a card of these reports has, with its truth."""
    people = np.flatnonzero(private.labels != NO_LABEL)
    truth = private.labels[people]
    veil, control = LabelVeil(seed=seed).fit(perturbed, split), StructureOnly(device="cpu").fit(perturbed, split)
    judged = _unused(veil.unused_reports(perturbed))
    everyone = veil.predict_without_own_report(perturbed)[people]
    right = everyone.argmax(axis=1) == truth
    yield _check("accuracy", judged.accuracy(), right.mean())
    reporting = judged.nodes
    used = veil.predict()[reporting] == private.labels[reporting]
    yield _check("own report", judged.accuracy_with_own_report(), used.mean())

    control_everyone = control.predict_without_own_report(perturbed)
    control_judged = judged.with_predictions(control_everyone[reporting])
    control_right = control_everyone[people].argmax(axis=1) == truth
    yield _check("control", control_judged.accuracy(), control_right.mean())
    yield _check("difference", judged.difference(control_judged), right.mean() - control_right.mean())
    yield from _grouped_checks(judged, everyone, truth)
    yield from _curve_checks(private, perturbed, veil, judged, people)


def _grouped_checks(judged: UnusedReports, everyone: NDArray[np.float64], truth: NDArray[np.int64]) -> Iterator[Check]:
    predicted, stated = everyone.argmax(axis=1), everyone.max(axis=1)
    right = predicted == truth
    if (certain := stated >= CERTAIN).any():
        yield _check("certain", judged.certain(CERTAIN)[1], right[certain].mean())
    bins = judged.calibration()
    places = np.searchsorted([each.lowest for each in bins[1:]], stated, side="right")
    for place, each in enumerate(bins):
        yield _check("calibration", each.found, right[places == place].mean())
    for code, row in enumerate(judged.by_class()):
        has, chosen = truth == code, predicted == code
        if row.precision.reports:
            yield _check("precision", row.precision, right[chosen].mean())
        if has.any():
            yield _check("recall", row.recall, right[has].mean())


def _curve_checks(
    private: PrivateGraph, perturbed: PerturbedGraph, veil: LabelVeil, judged: UnusedReports, people: NDArray[np.int64]
) -> Iterator[Check]:
    truth, seed = private.labels[people], veil.seed
    accuracies, earlier = list[float](), None
    for share, seen, fitted in [*fit_subsamples(veil, perturbed, SHARES, seed=seed), (1.0, perturbed, veil)]:
        predicted = fitted.predict_without_own_report(seen)
        found = judged.with_predictions(predicted[judged.nodes])
        accuracies.append(float((predicted[people].argmax(axis=1) == truth).mean()))
        if share < 1:
            yield _check("curve", found.accuracy(), accuracies[-1])
        if earlier is not None:
            # What a collection would say that ended here: its own reports judge the last doubling.
            own = _unused(fitted.unused_reports(seen))
            gain = own.difference(own.with_predictions(earlier[own.nodes]))
            yield _check("gain", gain, accuracies[-1] - accuracies[-2])
            if len(accuracies) == len(SHARES):
                last = gain
        earlier = predicted
    # The upper end of the last doubling, before the next one was seen.
    yield _check("next doubling", replace(last, low=-1.0), accuracies[-1] - accuracies[-2])


def _unused(judged: UnusedReports | None) -> UnusedReports:
    if judged is None:
        raise ValueError("Veil is cross-fitted")
    return judged


def _check(kind: str, estimate: Estimate, truth: float) -> Check:
    holds = estimate.holds(float(truth))
    return Check(kind=kind, low=estimate.low, high=estimate.high, value=estimate.value, truth=float(truth), holds=holds)


def helpful(path: Path, epsilon: float, seed: int) -> dict[str, Any]:
    """Return the gain in accuracy from another tenth of the people, chosen in several ways."""
    torch.set_num_threads(1)
    private, rng = read_labels(path), np.random.default_rng(seed)
    nodes, eligible = private.graph.num_nodes, private.labels != NO_LABEL
    everyone = Split.random(nodes, seed=seed, train=2 / 3, validation=1 / 3, eligible=eligible)
    mechanism = best_label_mechanism(private.schema.num_classes, epsilon)
    labels = randomize_labels(private, mechanism, everyone, rng=label_rng(seed))
    collected = simulated_collection(private, everyone, mechanism, labels)
    first = eligible & (rng.random(nodes) < 0.3)

    def fitted(reporting: NDArray[np.bool_]) -> tuple[NDArray[np.float64], float]:
        perturbed = replace(collected, has_label=reporting)
        split = Split.random(nodes, seed=seed, train=2 / 3, validation=1 / 3, eligible=reporting)
        predicted = LabelVeil(seed=seed).fit(perturbed, split).predict_without_own_report(perturbed)
        silent = eligible & ~first
        return predicted, float((predicted[silent].argmax(axis=1) == private.labels[silent]).mean())

    predicted, before = fitted(first)
    scores = {
        "helpful": expected_help(private.graph, predicted),
        "random": rng.random(nodes),
        "uncertain": 1 - predicted.max(axis=1),
        "degree": private.graph.degrees + rng.random(nodes),
    }
    row: dict[str, Any] = {"dataset": path.stem, "epsilon_user_level": epsilon, "seed": seed, "before": before}
    for name, score in scores.items():
        more = first.copy()
        more[np.argsort(-np.where(eligible & ~first, score, -np.inf))[: nodes // 10]] = True
        row[name] = fitted(more)[1] - before
    return row


def helpful_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the mean gains in points, with standard errors over collections, as a Markdown table."""
    names = ("helpful", "random", "uncertain", "degree")
    lines = [f"| | before | {' | '.join(names)} | helpful − random |", "| --- |" + " ---: |" * 6]
    for dataset in [*sorted({row["dataset"] for row in rows}), "all"]:
        chosen = [row for row in rows if dataset in (row["dataset"], "all")]
        columns = {name: 100 * np.array([row[name] for row in chosen]) for name in ("before", *names)}
        paired = columns["helpful"] - columns["random"]
        error = paired.std(ddof=1) / len(paired) ** 0.5
        cells = [f"{columns[name].mean():.1f}" for name in ("before", *names)]
        lines.append(f"| {dataset} | {' | '.join(cells)} | {paired.mean():+.2f} ± {error:.2f} |")
    return "\n".join(lines) + "\n"


def summarise(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rate of each kind of interval, for each data set and for all.

    The standard error is over collections: intervals of one collection share its reports.
    """
    rows = []
    for dataset in [*sorted({result["dataset"] for result in results}), "all"]:
        chosen = [result for result in results if dataset in (result["dataset"], "all")]
        for kind in KINDS:
            by_collection = [[c for c in result["checks"] if c["kind"] == kind] for result in chosen]
            by_collection = [checks for checks in by_collection if checks]
            if not by_collection:
                continue
            checks = [check for each in by_collection for check in each]
            rate = float(np.mean([check["holds"] for check in checks]))
            misses = np.array([sum(check["holds"] - rate for check in each) for each in by_collection])
            rows.append(
                {
                    "dataset": dataset,
                    "kind": kind,
                    "collections": len(by_collection),
                    "intervals": len(checks),
                    "rate": rate,
                    "standard_error": float(np.sqrt((misses**2).sum()) / len(checks)),
                    "mean_width": float(np.mean([check["high"] - check["low"] for check in checks])),
                    "bias": float(np.mean([c["value"] - c["truth"] for c in checks if c["value"] is not None])),
                }
            )
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rates in percent as a Markdown table, with the data set of the lowest rate; widths are in points."""
    lines = [
        "| estimate | intervals that hold the truth, % | lowest | intervals | mean width |",
        "| --- | ---: | --- | ---: | ---: |",
    ]
    for kind, name in KINDS.items():
        of_kind = [row for row in rows if row["kind"] == kind]
        if of_kind:
            *each, whole = of_kind
            lowest = min(each, key=lambda row: row["rate"])
            worst = f"{lowest['dataset']}: {100 * lowest['rate']:.0f} % of {lowest['intervals']}"
            rate = f"{100 * whole['rate']:.1f} ± {100 * whole['standard_error']:.1f}"
            width = "" if kind == "next doubling" else f"{100 * whole['mean_width']:.0f}"
            lines.append(f"| {name} | {rate} | {worst} | {whole['intervals']} | {width} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table or JSON. Epsilons are at user level (any two records), spent on the label alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=Path, required=True, help="folder of public graphs, .npz")
    parser.add_argument("--only", nargs="+", default=None, help="names of the graphs; default: all of the folder")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[3.0, 1.0])
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--log", type=Path, default=None, help="file for every interval, one collection in a line")
    parser.add_argument("--read", type=Path, nargs="+", default=None, help="tabulate such files instead of measuring")
    parser.add_argument("--helpful", action="store_true", help="measure whose reports help most")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    paths = [options.datasets / f"{name}.npz" for name in options.only or ()] or sorted(options.datasets.glob("*.npz"))
    results = list[dict[str, Any]]()
    if options.read:
        results = [json.loads(line) for file in options.read for line in file.read_text().splitlines()]
    else:
        seeds = range(options.first_seed, options.first_seed + options.draws)
        cells = [(path, epsilon, seed) for seed in seeds for epsilon in options.epsilons for path in paths]
        with ProcessPoolExecutor(options.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
            work = helpful if options.helpful else measure
            for done in as_completed([pool.submit(work, *cell) for cell in cells]):
                results.append(done.result())
                print(f"\r{len(results)} of {len(cells)}", end="", file=sys.stderr)
                if options.log is not None:
                    with options.log.open("a") as log:
                        log.write(json.dumps(results[-1]) + "\n")
    rows = results if options.helpful else summarise(results)
    shown = helpful_table(rows) if options.helpful else table(rows)
    print(json.dumps(rows, indent=2) if options.json else shown)


if __name__ == "__main__":
    main()
