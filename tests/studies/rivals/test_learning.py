"""Every rival learns: it is above the largest class on a block model, with randomized labels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from studies.methods import RIVALS

from veilgraph.datasets import csbm
from veilgraph.experiments.cells import fit_cells
from veilgraph.experiments.grid import BEST_LABELS, GRR_LABELS, make_cell

NODES = 600
PRIVATE = csbm(NODES, num_classes=3, homophily=0.85, mean_degree=8, num_features=6, seed=0)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("method", RIVALS)
def test_a_rival_is_above_the_largest_class(method: str) -> None:
    budget: dict[str, Any] = {"epsilon_x": 0.1, "epsilon_y": 2.0, "sampled": 3, "seed": 0}
    given: dict[str, Any] = {"dataset": "block model", "method": method, "parameters": {"epochs": 100}}
    cells = [make_cell(**given, **budget, label_mechanism=labels) for labels in (GRR_LABELS, BEST_LABELS)]
    share = np.bincount(PRIVATE.labels).max() / NODES
    for fit in fit_cells(cells, PRIVATE, "cpu"):
        # A quarter of the nodes is tested: five standard errors above the largest class.
        assert fit.accuracy > share + 5 * math.sqrt(share * (1 - share) / (NODES / 4))
