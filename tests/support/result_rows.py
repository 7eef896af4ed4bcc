"""Synthetic rows: possible results of the paper's experiments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veilgraph.experiments.results import Row
from veilgraph.pages.paper_figures import DATASETS, EPSILON_Y

SEEDS = 4
WOBBLE = (0.002, -0.002, 0.001, -0.001)
"""Deviation of each seed from the mean; it makes differences between methods noisy."""


def row(mean: float, *, wobble: Sequence[float] = WOBBLE, seeds: int = SEEDS, **given: Any) -> Row:
    fields: dict[str, Any] = {
        "dataset": "citeseer",
        "method": "rgnn",
        "epsilon_x": 1.0,
        "epsilon_y": 0.5,
        "variant": "",
        "swept": {},
        "accuracies": {seed: mean + wobble[seed % len(wobble)] for seed in range(seeds)},
        "seconds": 0.5,
        "epsilon_user_level": 10.5,
        "theorem_1": 8.8325,
        "published_mean": None,
        "published_std": None,
    }
    return Row(**fields | given)


def flat(mean: float, **given: Any) -> Row:
    """Return a row with the same accuracy in every seed."""
    return row(mean, wobble=(0.0,), **given)


def control(mean: float, **given: Any) -> Row:
    fields = {"method": "structure_only", "epsilon_x": None, "epsilon_user_level": 0.5, "theorem_1": None}
    return flat(mean, **fields | given)


def ceiling(mean: float, **given: Any) -> Row:
    fields = {"method": "non_private", "epsilon_x": None, "epsilon_y": None, "theorem_1": None}
    return flat(mean, **fields | {"epsilon_user_level": "not private"} | given)


def ablation(rgnn: float = 0.5, llp: float = 0.45, labels: float = 0.4, features: float = 0.2) -> list[Row]:
    means = {"": rgnn, "without LLP": llp, "without f_Y": labels, "without f_X": features}
    rows = []
    for dataset in ("citeseer", "dblp"):
        for variant, mean in means.items():
            make = row if variant == "" else flat
            published: dict[str, Any] = {"published_mean": 0.402, "published_std": 0.019} if variant == "" else {}
            rows.append(make(mean, dataset=dataset, variant=variant, **published))
        rows.append(control(0.55, dataset=dataset))
    return rows


def table2(rgnn: float = 0.6, graphsage: float = 0.3, lpgnn: float = 0.5, structure: float = 0.65) -> list[Row]:
    rows = []
    for dataset in DATASETS:
        for epsilon_y in EPSILON_Y:
            for epsilon_x in (1.0, 0.1, 0.01):
                setting: dict[str, Any] = {
                    "dataset": dataset,
                    "epsilon_x": epsilon_x,
                    "epsilon_y": epsilon_y,
                    "epsilon_user_level": 10 * epsilon_x + epsilon_y,
                }
                known = epsilon_x > 0.01
                for method, mean, make in (("rgnn", rgnn, row), ("graphsage", graphsage, flat), ("lpgnn", lpgnn, flat)):
                    published: dict[str, Any] = {"published_mean": mean + 0.001, "published_std": 0.02} if known else {}
                    rows.append(make(mean, method=method, **setting, **published))
                rows.append(flat(lpgnn - 0.1, method="lpgnn_equal", **setting))
            rows.append(control(structure, dataset=dataset, epsilon_y=epsilon_y, epsilon_user_level=epsilon_y))
            rows.append(control(0.25, method="majority", dataset=dataset, epsilon_y=epsilon_y))
        rows.append(ceiling(0.8, dataset=dataset))
    return rows


def bags(best_weight: float = 1.0, best_number: int = 128, lead: float = 0.05) -> list[Row]:
    rows = [control(0.7, dataset="dblp")]
    for weight in (0.01, 0.1, 1.0, 10.0, 20.0):
        for number in (16, 32, 64, 128, 256):
            mean = 0.6 + lead * (weight == best_weight) + lead * (number == best_number)
            swept = {"llp_weight": weight, "num_clusters": number, "feature_hops": 4, "label_hops": 2}
            make = row if weight == best_weight or number == best_number else flat
            rows.append(make(mean, dataset="dblp", swept=swept))
    return rows


def hops(first_gain: float = 0.1, later_gain: float = 0.01, label_loss: float = 0.01) -> list[Row]:
    """Return sweeps of K_x from 0 to 16 at K_y = 8, and of K_y from 0 to 16 at K_x = 4."""
    rows = []
    for dataset in ("citeseer", "dblp"):
        for epsilon_x in (1.0, 0.1, 0.01):
            for place, hop in enumerate((0, 2, 4, 8, 16)):
                mean = 0.5 + first_gain * (place > 0) + later_gain * max(place - 1, 0)
                swept = {"feature_hops": hop, "label_hops": 8}
                make = row if hop in (2, 16) else flat
                rows.append(make(mean, dataset=dataset, epsilon_x=epsilon_x, epsilon_y=1.0, swept=swept))
        for epsilon_y in EPSILON_Y:
            for hop in (0, 2, 4, 8, 16):
                swept = {"feature_hops": 4, "label_hops": hop}
                if epsilon_y == 1.0 and hop == 8:
                    continue  # it is in the first sweep already
                side = -1 if epsilon_y >= 2 else 1
                mean = 0.6 + side * label_loss * hop / 4
                make = row if hop == 2 else flat
                rows.append(make(mean, dataset=dataset, epsilon_y=epsilon_y, swept=swept))
            rows.append(control(0.62, dataset=dataset, epsilon_y=epsilon_y))
    return rows


def backbones(sage: float = 0.6, gcn: float = 0.5, gat: float = 0.62) -> list[Row]:
    rows = []
    for name, mean in (("sage", sage), ("gcn", gcn), ("gat", gat)):
        make = flat if name == "gcn" else row
        rows += [make(mean, epsilon_x=x, epsilon_y=y, swept={"backbone": name}) for x in (1.0, 0.1) for y in EPSILON_Y]
        rows.append(ceiling(mean + 0.1, swept={"backbone": name}))
    return rows + [control(0.55, epsilon_y=y) for y in EPSILON_Y]


def everything() -> dict[str, list[Row]]:
    return {
        "table1": [ceiling(0.55, dataset=name, published_mean=0.56, published_std=0.01) for name in DATASETS],
        "table2": table2(),
        "ablation": ablation(),
        "fig_alpha_clusters": bags(),
        "fig_hops": hops(),
        "fig_backbones": backbones(),
        "baselines": [flat(0.3, method="gcn"), control(0.5)],
    }


TITLES = {name: f"Title of {name}" for name in everything()}


def beyond(veil: float = 0.8, rgnn: float = 0.6, lpgnn: float = 0.5, structure: float = 0.7) -> list[Row]:
    """Return Veil and its opponents in the paper's settings, and on one graph that is not in the paper."""
    rows = []
    for dataset in (*DATASETS, "pubmed"):
        known = dataset in DATASETS
        for epsilon_y in EPSILON_Y:
            for epsilon_x in (1.0, 0.1) if known else (1.0,):
                setting: dict[str, Any] = {
                    "dataset": dataset,
                    "epsilon_x": epsilon_x,
                    "epsilon_y": epsilon_y,
                    "epsilon_user_level": 10 * epsilon_x + epsilon_y,
                }
                rows += [row(veil, method="veil", **setting), flat(veil, method="veil_equal", **setting)]
                for method, mean in (("rgnn", rgnn), ("lpgnn", lpgnn)) if known else ():
                    rows.append(flat(mean, method=method, published_mean=mean - 0.1, published_std=0.02, **setting))
                if known:
                    rows.append(flat(lpgnn, method="lpgnn_equal", **setting))
            for method, mean in (("structure_only", structure), ("veil_labels", veil)):
                rows.append(control(mean, method=method, dataset=dataset, epsilon_y=epsilon_y))
    return rows


FRONTIER_TOTALS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 13.0, 16.0)


def frontier(lowest: float = 0.3, step: float = 0.1, divided_lead: float = -0.05) -> list[Row]:
    """Return accuracies that rise by `step` with every total.

    A split is ahead of the label alone by `divided_lead` times the share of the features.
    """
    rows = []
    for dataset in DATASETS:
        for place, total in enumerate(FRONTIER_TOTALS):
            mean = min(lowest + step * place, 0.95)
            # Integer thresholds spend slightly less than the total.
            spent: dict[str, Any] = {"dataset": dataset, "epsilon_user_level": total * (1 - 1e-14)}
            rows.append(row(mean, method="veil_labels", epsilon_x=None, epsilon_y=total, **spent))
            rows.append(control(mean - 0.02, epsilon_y=total, **spent))
            rows.append(flat(mean - 0.2, epsilon_x=total / 11, epsilon_y=total / 11, **spent))
            for share in (0.75, 0.5) if total >= 1 else ():
                divided = {"epsilon_x": total * (1 - share) / 10, "epsilon_y": total * share}
                rows.append(flat(mean + divided_lead * (1 - share), method="veil_equal", **divided, **spent))
        rows.append(ceiling(0.8, dataset=dataset))
    return rows
