"""Veil with public attributes beside rivals that read them: GNNs with forward correction, RTGNN, C&S, boosted trees.

All methods read the same reports of the same people, labels alone; attributes are exact and public. GNNs are fitted
with 16 and with 64 components of the attributes; the one that explains the validation nodes' reports better counts.
Finished cells are kept in a file, so that an interrupted run goes on where it ended.

python -m studies.public_rivals --datasets FOLDER --first-seed 100 --draws 10 --out cells.jsonl
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from studies.cells import Task, add_options, mean_row, mean_table, percent, run_cells
from studies.public_attributes import collected, names_in
from studies.rivals.boosted_trees import BoostedTrees
from studies.rivals.correct_and_smooth import CorrectAndSmooth
from studies.rivals.public_inputs import PublicGNN, PublicRTGNN
from veilgraph.evaluation import accuracy
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models import LabelVeil, Method, StructureOnly
from veilgraph.privacy.schema import NO_LABEL

COMPONENTS = (16, 64)
"""Numbers of components that a GNN chooses from."""

RIVALS: dict[str, tuple[str, Callable[[int, str], Sequence[Method]]]] = {
    "gcn": ("GCN", lambda seed, device: _networks(PublicGNN, "gcn", seed, device)),
    "sage": ("GraphSAGE", lambda seed, device: _networks(PublicGNN, "sage", seed, device)),
    "gat": ("GAT", lambda seed, device: _networks(PublicGNN, "gat", seed, device)),
    "rtgnn": ("RTGNN", lambda seed, device: _networks(PublicRTGNN, "gcn", seed, device)),
    "correct_and_smooth": ("C&S", lambda *_: [CorrectAndSmooth(device="cpu")]),
    "boosted_trees": ("boosted trees", lambda seed, _: [BoostedTrees(seed=seed, device="cpu")]),
}
"""Title of each rival, and its fits, from a seed and a device; the first of several is chosen by validation."""

METHODS = {"veil": "Veil", **{key: title for key, (title, _) in RIVALS.items()}}
METHODS |= {"control": "control", "largest": "largest class"}


def _networks(kind: type[PublicGNN], backbone: str, seed: int, device: str) -> list[Method]:
    return [kind(backbone=backbone, components=each, seed=seed, device=device) for each in COMPONENTS]


def _best(methods: Sequence[Method], reports: PerturbedGraph, split: Split) -> Method:
    """Return the fit that explains the reports of the validation nodes best."""
    fitted = [method.fit(reports, split) for method in methods]
    if len(fitted) == 1:
        return fitted[0]
    likelihood, judged = reports.label_mechanism.likelihood, split.validation & reports.has_label
    named = reports.named_classes()[judged]

    def score(method: Method) -> float:
        predicted = (method.predict_proba()[judged] * named).sum(1)
        return float(np.log(float(likelihood.other) + float(likelihood.gain) * predicted).mean())

    return max(fitted, key=score)


def compare(task: Task) -> dict[str, Any]:
    """Return the accuracy of every method on the test nodes, for one draw of the reports."""
    _, name, epsilon, seed = task
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    private, split, reports = collected(task)
    fitted = {key: _best(make(seed, device), reports, split) for key, (_, make) in RIVALS.items()}
    fitted |= {
        "veil": LabelVeil(seed=seed, device="cpu").fit(reports, split),
        "control": StructureOnly(device="cpu").fit(reports, split),
    }
    found = {key: accuracy(method.predict(), private, split.test) for key, method in fitted.items()}
    counted = private.labels[split.test & (private.labels != NO_LABEL)]
    found["largest"] = float(np.bincount(counted).max() / len(counted))
    return {"dataset": name, "epsilon_user_level": epsilon, "seed": seed, **found}


def summary(draws: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return means, and the paired difference of Veil to the best rival, with standard errors, in percent."""
    columns = percent(draws, list(METHODS))
    best = max(RIVALS, key=lambda key: float(columns[key].mean()))
    return mean_row(draws, columns | {"difference": columns["veil"] - columns[best]}) | {"best": best}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a Markdown table, in percent."""
    return mean_table(rows, METHODS | {"difference": "Veil − best rival"})


def main() -> None:
    """Print the table or JSON. Epsilons are at user level (any two records), spent on the label alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, out="public_rivals.jsonl")
    options = parser.parse_args()
    run_cells(options, compare, summary, table, names_in(options.datasets))


if __name__ == "__main__":
    main()
