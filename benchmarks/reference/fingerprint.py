"""A bit-for-bit comparison of the numbers of every method and mechanism before and after a change.

`python -m benchmarks.reference.fingerprint --out before.json` writes one SHA-256 digest for each case.
`python -m benchmarks.reference.fingerprint --compare before.json` computes them again and lists the cases that differ.
Digests are comparable on one machine only: another processor or another version of torch rounds sums differently.
`--golden tests/models/numbers.npz` writes the probabilities of some nodes, which a test compares on any machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from veilgraph.datasets import PrivateGraph, csbm, patients
from veilgraph.errors import ReconstructionError
from veilgraph.experiments.cells import draw_reports, fit_cells
from veilgraph.experiments.grid import Cell
from veilgraph.experiments.simulation import simulate
from veilgraph.graph import Split
from veilgraph.models import LPGNN, RGNN, LabelVeil, MajorityClass, Method, PlainGNN, StructureOnly, Veil
from veilgraph.models.registry import METHODS
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import GRR
from veilgraph.privacy.mechanisms.registry import grr_fs, joint_grr_best, multi_bit

EPOCHS = 5

_PAPER: dict[str, Any] = {"feature_hops": 16, "label_hops": 8}

VARIANTS: dict[str, Callable[[], Method]] = {
    "rgnn-gcn": lambda: RGNN(backbone="gcn", epochs=EPOCHS, feature_hops=2, label_hops=2, num_clusters=4),
    "rgnn-gat": lambda: RGNN(backbone="gat", epochs=EPOCHS, feature_hops=2, label_hops=2, num_clusters=4),
    "rgnn-no-fx": lambda: RGNN(epochs=EPOCHS, **_PAPER, num_clusters=4, reconstruct_x=False),
    "rgnn-no-fy": lambda: RGNN(epochs=EPOCHS, **_PAPER, num_clusters=4, reconstruct_y=False),
    "rgnn-no-llp": lambda: RGNN(epochs=EPOCHS, **_PAPER, use_proportions=False),
    "rgnn-no-estimation": lambda: RGNN(epochs=EPOCHS, **_PAPER, num_clusters=4, estimate=False),
    "rgnn-argmax": lambda: RGNN(epochs=EPOCHS, **_PAPER, num_clusters=4, decoding="argmax"),
    "rgnn-hold-out": lambda: RGNN(epochs=EPOCHS, **_PAPER, num_clusters=4, hold_out_validation=True),
    "lpgnn-gcn": lambda: LPGNN(backbone="gcn", epochs=EPOCHS, feature_hops=2, label_hops=1),
    "lpgnn-no-correction": lambda: LPGNN(epochs=EPOCHS, feature_hops=2, label_hops=2, forward_correction=False),
    "plain-sage": lambda: PlainGNN(epochs=EPOCHS, dropout=0.0),
    "structure-only": StructureOnly,
    "majority": MajorityClass,
    "veil": Veil,
    "veil-labels": LabelVeil,
}
"""Settings that are not in the registry."""


def graphs() -> dict[str, PrivateGraph]:
    """Return the data sets of the package: real records, and a block model whose features have several values."""
    return {
        "patients": patients(),
        "csbm": csbm(400, num_classes=3, num_features=6, seed=0),
    }


def cases(epochs: int = EPOCHS) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yield class probabilities [nodes, classes] of every method of the registry and of every variant, by name."""
    for name, private in graphs().items():
        for method in METHODS:
            yield f"{name} {method}", registered(method, name, private, epochs)
        for variant, make in VARIANTS.items():
            yield f"{name} variant {variant}", varied(variant, make, private)


def registered(method: str, dataset: str, private: PrivateGraph, epochs: int) -> NDArray[np.float32]:
    """Return class probabilities of a method of the registry, fitted as in an experiment; empty if it refuses."""
    entry = METHODS[method]
    parameters = {"epochs": epochs, "feature_hops": 3, "label_hops": 2, "num_clusters": 4}
    cell = Cell(
        dataset=dataset,
        method=method,
        epsilon_x=1.0 if entry.private and entry.uses_features else None,
        epsilon_y=1.5 if entry.private else None,
        sampled=3,
        seed=7,
        parameters={key: value for key, value in parameters.items() if key in entry.parameters},
    )
    try:
        (fit,) = fit_cells([cell], private, "cpu")
    except ReconstructionError:  # multi-bit reports of features with more than two values
        return np.empty((0, 0), dtype=np.float32)
    return fit.method.predict_proba()


def varied(variant: str, make: Callable[[], Method], private: PrivateGraph) -> NDArray[np.float32]:
    """Return class probabilities of a variant, fitted as by a user of the library."""
    split = Split.random(private.graph.num_nodes, seed=3)
    features = {"lpgnn": multi_bit, "veil": joint_grr_best}.get(variant.split("-")[0], grr_fs)
    budget = PrivacyBudget(1.0, 2.0, 3)
    perturbed = simulate(private, budget, split, rng=np.random.default_rng(5), features=features, label=GRR)
    return make().fit(perturbed, split).predict_proba()


def reports() -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Yield the simulated reports of every method of the registry, by name."""
    for name, private in graphs().items():
        for method, entry in METHODS.items():
            cell = Cell(
                dataset=name,
                method=method,
                epsilon_x=0.7 if entry.private and entry.uses_features else None,
                epsilon_y=0.9 if entry.private else None,
                sampled=4,
                seed=11,
            )
            perturbed, _ = draw_reports(cell, private)
            yield f"{name} reports {method} features", perturbed.features
            yield f"{name} reports {method} labels", perturbed.labels


def sample(probabilities: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the rows of every eighth node: enough to notice a change, and a small file."""
    return probabilities[::8]


def digests() -> dict[str, str]:
    """Return the SHA-256 digest of every case, by name; methods are trained for 5 and for 60 epochs."""
    found = {name: _digest(values) for name, values in reports()}
    found |= {name: _digest(values) for name, values in cases()}
    found |= {f"{name}, 60 epochs": _digest(values) for name, values in cases(epochs=60)}
    return found


def _digest(values: NDArray[np.generic]) -> str:
    array = np.ascontiguousarray(values)
    return hashlib.sha256(f"{array.dtype}{array.shape}".encode() + array.tobytes()).hexdigest()


def main() -> int:
    """Write or compare digests."""
    parser = argparse.ArgumentParser(description=__doc__)
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--out", type=Path, help="write the digests to this file")
    choice.add_argument("--compare", type=Path, help="compare with the digests of this file")
    choice.add_argument("--golden", type=Path, help="write the probabilities of some nodes to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # sums of several threads have no fixed order
    if arguments.golden is not None:
        golden: dict[str, Any] = {name: sample(values) for name, values in cases()}
        np.savez_compressed(arguments.golden, **golden)
        print(f"{len(golden)} cases written")
        return 0
    found = digests()
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(found, indent=1), encoding="utf-8")
        print(f"{len(found)} digests written")
        return 0
    before = json.loads(arguments.compare.read_text(encoding="utf-8"))
    differing = sorted(name for name in found.keys() | before.keys() if found.get(name) != before.get(name))
    for name in differing:
        print(f"differs: {name}")
    print(f"{len(found) - len(differing)} of {len(found)} cases are the same bit for bit")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
