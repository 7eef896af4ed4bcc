"""The search of a rival begins with its defaults and stays in its space."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies.methods import RIVALS
from studies.rivals.tune import SPACES

from tests.support.miniatures import SMALL
from veilgraph.experiments.grid import BEST_LABELS, make_cell
from veilgraph.experiments.tune import FIRST_SEED, Search, tune

pytestmark = pytest.mark.usefixtures("registered")


@pytest.mark.parametrize("method", SPACES)
def test_every_parameter_that_is_searched_reaches_the_tables(method: str) -> None:
    assert SPACES[method].keys() <= RIVALS[method].parameters


@pytest.mark.parametrize("method", SPACES)
def test_the_search_begins_with_the_defaults_and_stays_in_its_space(tmp_path: Path, method: str) -> None:
    def search(trials: int) -> dict[str, object]:
        cell = make_cell(
            dataset="cora",
            method=method,
            label_mechanism=BEST_LABELS,
            epsilon_x=1.0,
            epsilon_y=2.0,
            sampled=10,
            seed=FIRST_SEED,
            parameters={},
        )
        options = Search(space=SPACES[method], trials=trials, seeds=2, epochs=2, device="cpu")
        found = tune(cell, options, journal=tmp_path / "journal", data=SMALL)
        return dict(found.best)

    assert search(1) == {name: getattr(RIVALS[method].make({}), name) for name in SPACES[method]}
    assert all(value in SPACES[method][name] for name, value in search(3).items())
