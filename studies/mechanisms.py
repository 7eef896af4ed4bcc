"""Feature mechanisms at equal user-level epsilon (any two records): variance of estimates, by formula and measured.

`python -m studies.mechanisms [--features 58] [--share 0.5] [--repeats 20] [--json]`.
Accuracy where features carry information that the graph does not:
`python -m studies.mechanisms --learner rgnn [--seeds 10] [--json]`.
For public graphs there is the grid `mechanisms`: `python -m studies.grids run mechanisms`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from studies.methods import EQUAL_EPSILON, register
from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.experiments.cells import fit_cells
from veilgraph.experiments.grid import Cell
from veilgraph.graph import Graph, PerturbedGraph
from veilgraph.models.registry import METHODS
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.frequency import estimate_frequencies, population_variance
from veilgraph.privacy.mechanisms import GRR, FeatureMechanism
from veilgraph.privacy.mechanisms.registry import grr_fs, grr_on_all, joint_grr_best, multi_bit_best
from veilgraph.privacy.schema import FeatureSchema
from veilgraph.reconstruct.features import ReportCodes, one_hot_features

EPSILONS = (0.5, 1.0, 2.0, 4.0, 10.0)
SAMPLED = 10
PEOPLE = 10_000
COMPARED = {
    f"{grr_fs.title}, m = {SAMPLED}": grr_fs,
    **{entry.title: entry for entry in (grr_on_all, multi_bit_best, joint_grr_best)},
}


def collected(mechanism: FeatureMechanism, records: NDArray[Any], rng: np.random.Generator) -> PerturbedGraph:
    """Return the reports of binary records [people, features]; the graph is not used."""
    people = len(records)
    return PerturbedGraph(
        graph=Graph.from_edges([[0], [1]], people),
        schema=FeatureSchema.binary(records.shape[1], classes=["a", "b"]),
        features=mechanism.randomize(records, rng=rng),
        labels=np.zeros(people, dtype=np.int64),
        has_features=np.ones(people, dtype=np.bool_),
        has_label=np.zeros(people, dtype=np.bool_),
        feature_mechanism=mechanism,
        label_mechanism=GRR(2, 1.0),
    )


def stated_variance(mechanism: FeatureMechanism, share: float) -> float:
    """Return the variance of an estimate from one report, for a feature that a `share` of people have."""
    answers = ReportCodes.of(
        collected(mechanism, np.zeros((2, mechanism.num_features), dtype=int), np.random.default_rng(0))
    )
    return float(
        population_variance(torch.tensor(share, dtype=torch.float64), answers.channels[0], answers.answering_rate)
    )


def estimates(mechanism: FeatureMechanism, share: float, people: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the estimate of every feature from the reports of newly drawn people."""
    records = (rng.random((people, mechanism.num_features)) < share).astype(np.uint8)
    perturbed = collected(mechanism, records, rng)
    shares = one_hot_features(perturbed).mean(dim=0, dtype=torch.float64)
    return estimate_frequencies(shares, ReportCodes.of(perturbed).channels[0]).numpy()


def measured_variance(mechanism: FeatureMechanism, share: float, repeats: int) -> float:
    """Return the variance of repeated estimates, in units of `stated_variance`."""
    rng = np.random.default_rng(0)
    found = np.stack([estimates(mechanism, share, PEOPLE, rng) for _ in range(repeats)])
    return PEOPLE * float(((found - share) ** 2).mean())


def ball_variance(num_features: int, share: float, epsilon: float) -> tuple[float, int, int]:
    """Return the least variance of another mechanism for binary features, with its m and t.

    For m sampled features it reports a uniform vector that agrees with the record in at least t of them, or a uniform
    vector. It is Duchi, Jordan and Wainwright's mechanism for the hypercube at m = d, t = d/2, and joint GRR at t = m.
    """
    found = []
    for m in range(1, num_features + 1):
        for t in range(m // 2 + 1, m + 1):
            near = [math.comb(m, matches) for matches in range(t, m + 1)]
            agreement = sum(n * (2 * matches - m) / m for n, matches in zip(near, range(t, m + 1), strict=True))
            gain = math.expm1(epsilon) * agreement / (math.expm1(epsilon) * sum(near) + 2**m)
            observed = 0.5 + (share - 0.5) * gain
            found.append((observed * (1 - observed) * num_features / (m * gain**2), m, t))
    return min(found)


def rows(num_features: int, share: float, repeats: int) -> Iterator[dict[str, Any]]:
    """Yield one row for each epsilon and mechanism."""
    schema = FeatureSchema.binary(num_features, classes=["a", "b"])
    for epsilon in EPSILONS:
        for name, randomizer in COMPARED.items():
            sampled = min(SAMPLED, num_features)
            mechanism = randomizer(schema, PrivacyBudget(epsilon / sampled, 1.0, sampled))
            yield {
                "epsilon": epsilon,
                "mechanism": name,
                "sampled": getattr(mechanism, "sampled", None),
                "user_level": mechanism.privacy_loss.user_level,
                "attribute_level": max(mechanism.privacy_loss.attribute_level),
                "stated": stated_variance(mechanism, share),
                "measured": measured_variance(mechanism, share, repeats) if repeats else None,
            }
        variance, m, _ = ball_variance(num_features, share, epsilon)
        yield {"epsilon": epsilon, "mechanism": "ball, best m and t (not built)", "sampled": m, "stated": variance}


def accuracies(learner: str, seeds: int) -> Iterator[dict[str, Any]]:
    """Yield the accuracy of one method on the reports of each mechanism and epsilon, compared with the control."""
    private = csbm(2000, mean_degree=20, homophily=0.4, num_features=48, feature_signal=0.8, seed=0)
    register()
    methods = [learner, *(name for name in EQUAL_EPSILON if name.startswith(f"{learner}_"))]
    control = _accuracies("structure_only", None, private, seeds)
    for epsilon in EPSILONS:
        for method in methods:
            found = _accuracies(method, epsilon / SAMPLED, private, seeds)
            yield {
                "epsilon": epsilon,
                "method": METHODS[method].title,
                "accuracy": float(found.mean()),
                "standard_error": _standard_error(found),
                "above_control": float((found - control).mean()),
                "above_control_standard_error": _standard_error(found - control),
            }


def _accuracies(method: str, epsilon_x: float | None, private: PrivateGraph, seeds: int) -> NDArray[np.float64]:
    hops = {"feature_hops": 1, "label_hops": 2}
    parameters = {name: value for name, value in hops.items() if name in METHODS[method].parameters}
    cells = [
        Cell(
            dataset=private.name,
            method=method,
            epsilon_x=epsilon_x,
            epsilon_y=1.0,
            sampled=SAMPLED,
            seed=seed,
            parameters=parameters,
        )
        for seed in range(seeds)
    ]
    found = {fit.cell.seed: fit.accuracy for fit in fit_cells(cells, private, "cpu")}
    return np.array([found[seed] for seed in range(seeds)])


def _standard_error(values: NDArray[np.float64]) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def main() -> None:
    """Print the table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=58)
    parser.add_argument("--share", type=float, default=0.5, help="share of people who have the value")
    parser.add_argument(
        "--repeats", type=int, default=20, help="number of simulated collections; 0 prints formulas only"
    )
    parser.add_argument("--learner", help="compare accuracies of this method instead, such as rgnn")
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds with --learner")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.learner:
        _print_accuracies(list(accuracies(arguments.learner, arguments.seeds)), as_json=arguments.json)
        return
    table = list(rows(arguments.features, arguments.share, arguments.repeats))
    if arguments.json:
        print(json.dumps(table, indent=2))
        return
    print(f"{'epsilon':>7} {'mechanism':32} {'m':>3} {'attribute':>9} {'stated':>10} {'measured':>10}")
    for row in table:
        attribute, measured = (
            "" if row.get(key) is None else f"{row[key]:.4g}" for key in ("attribute_level", "measured")
        )
        print(
            f"{row['epsilon']:7} {row['mechanism']:32} {row['sampled']:3} {attribute:>9} "
            f"{row['stated']:10.4g} {measured:>10}"
        )


def _print_accuracies(table: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(table, indent=2))
        return
    print(f"{'epsilon':>7} {'method':32} {'accuracy':>8} {'above the control':>20}")
    for row in table:
        above = f"{100 * row['above_control']:+.1f} ({100 * row['above_control_standard_error']:.1f})"
        print(f"{row['epsilon']:7} {row['method']:32} {100 * row['accuracy']:8.1f} {above:>20}")


if __name__ == "__main__":
    main()
