"""Cells that are fitted together equal separate fits, and share the reports that they can."""

from __future__ import annotations

import numpy as np
import pytest

from tests.models.engine.test_fit_together import EPOCHS, PRIVATE, TOLERANCE
from veilgraph.experiments.cells import draw_reports, fit_cells
from veilgraph.experiments.grid import Cell
from veilgraph.models.registry import METHODS


def cells_of(method: str) -> list[Cell]:
    entry = METHODS[method]
    return [
        Cell(
            dataset="block model",
            method=method,
            epsilon_x=epsilon_x if entry.private and entry.uses_features else None,
            epsilon_y=epsilon_y if entry.private else None,
            sampled=4,
            seed=seed,
            parameters={"epochs": EPOCHS, **({"num_clusters": 4} if method == "rgnn" else {})},
        )
        for seed in (0, 1)
        for epsilon_x in (1.0, 0.5)
        for epsilon_y in (1.0, 2.0)
    ]


@pytest.mark.parametrize("method", METHODS)
def test_cells_of_every_method_that_are_fitted_together_equal_separate_fits(method: str) -> None:
    cells = cells_of(method)
    together = {id(fit.cell): fit for fit in fit_cells(cells, PRIVATE, "cpu")}
    assert set(together) == set(map(id, cells))
    for cell in cells:
        found = together[id(cell)]
        [alone] = fit_cells([cell], PRIVATE, "cpu")
        assert np.allclose(found.method.predict_proba(), alone.method.predict_proba(), rtol=0, atol=TOLERANCE)
        assert found.seconds > 0
        assert 0 <= found.accuracy <= 1
        assert (found.perturbed.labels == alone.perturbed.labels).all()


@pytest.mark.parametrize("method", ["rgnn", "lpgnn"])
def test_cells_of_one_seed_and_feature_budget_share_one_array_of_reports(method: str) -> None:
    drawn = [(cell, draw_reports(cell, PRIVATE)[0]) for cell in cells_of(method)]
    for cell, perturbed in drawn:
        for other_cell, other in drawn:
            same = (cell.seed, cell.epsilon_x) == (other_cell.seed, other_cell.epsilon_x)
            assert (perturbed.features is other.features) == same
            if not same:
                assert (perturbed.features != other.features).any()
