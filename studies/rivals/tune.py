"""Search hyper-parameters of a rival that trains a GNN; the score is that of `veilgraph.experiments.tune`.

python -m studies.rivals.tune DATASET --method METHOD --epsilon-x 0.1 --epsilon-y 1 --trials 24 --seeds 5 --epochs 200
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import tomli_w

from studies.methods import register
from veilgraph.datasets.registry import short_name
from veilgraph.experiments.cells import DatasetLoader
from veilgraph.experiments.grid import BEST_LABELS, make_cell
from veilgraph.experiments.tune import FIRST_SEED, Search, tune

_STEPS = (2, 4, 8, 16, 32, 64)
_TRAINING: dict[str, tuple[Any, ...]] = {
    "dropout": (0.25, 0.5, 0.75),
    "learning_rate": (0.001, 0.01, 0.03),
    "weight_decay": (0.0, 1e-4, 1e-3, 1e-2),
}
_SMOOTHED: dict[str, tuple[Any, ...]] = {"steps": _STEPS, "smoother": ("hoa", "kprop"), **_TRAINING}

SPACES: dict[str, dict[str, tuple[Any, ...]]] = {
    "featfree": _SMOOTHED,
    "featfree_p": _SMOOTHED,
    "forward_gnn": {"feature_hops": _STEPS, **_TRAINING},
    "upgnet": {"feature_hops": _STEPS, "threshold": (0.1, 0.3, 0.5, 0.7, 0.9), **_TRAINING},
    "privge": {"feature_hops": _STEPS, "restart": (0.0, 0.1, 0.3, 0.5), **_TRAINING},
}
"""Spaces of the rivals: values of Revisit-LDPGNN, with 0.03 in place of its smallest learning rate, 0.0001."""


def main() -> None:
    """Search and print TOML, as `studies/grids/hyperparameters.toml` has it. Epsilons are at user level."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--method", choices=list(SPACES), required=True)
    parser.add_argument("--epsilon-x", type=float, default=0.1)
    parser.add_argument("--epsilon-y", type=float, nargs="+", default=[1.0])
    parser.add_argument("--sampled", type=int, default=10)
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("runs/tune"), help="folder of the journal")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    register()
    search = Search(
        space=SPACES[options.method],
        trials=options.trials,
        seeds=options.seeds,
        epochs=options.epochs,
        device=options.device,
    )
    found = {
        f"{epsilon_y:g}": tune(
            make_cell(
                dataset=options.dataset,
                method=options.method,
                label_mechanism=BEST_LABELS,  # as in the grid of the rivals
                epsilon_x=options.epsilon_x,
                epsilon_y=epsilon_y,
                sampled=options.sampled,
                seed=FIRST_SEED,
                parameters={},
            ),
            search,
            journal=options.out / f"{short_name(options.dataset)}.journal",
            data=DatasetLoader(options.data_dir),
        )
        for epsilon_y in options.epsilon_y
    }
    parameters = {budget: dict(result.parameters) for budget, result in found.items()}
    print(tomli_w.dumps({options.method: {options.dataset: parameters}}))


if __name__ == "__main__":
    main()
