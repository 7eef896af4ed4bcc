"""The study of links: what drawn links tell, and a cell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from studies.links import CLASSES, GRAPHS, METHODS, NODES, compare, joined, summary, table


def test_links_end_where_they_should() -> None:
    rng = np.random.default_rng(0)
    groups = rng.integers(0, CLASSES, NODES)
    starts, ends = joined(rng, groups, 8, 0.6, shift=1)
    # 0.6 and a quarter of the rest go on to the next class: 0.7, of 3,200 links, within five standard errors
    assert (groups[ends] == (groups[starts] + 1) % CLASSES).mean() == pytest.approx(0.7, abs=0.041)


@pytest.mark.parametrize("name", [name for name in GRAPHS if "random" not in name])
def test_what_tells_is_there(name: str) -> None:
    labels = np.random.default_rng(0).integers(0, CLASSES, NODES)
    ends, links = GRAPHS[name](np.random.default_rng(1), labels)
    (told,) = links.values()
    assert told is True or len(told) == ends.shape[1]


def test_a_cell_scores_every_method() -> None:
    cell = compare((Path(), "weights tell the class", 4.0, 0))
    assert cell["links"] > cell["largest"]
    assert "| weights tell the class | 4 | 2 |" in table([summary([cell, cell])])
    assert set(METHODS) < set(cell)
