"""Nothing is known about a person whom no path of links joins to a report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tests.support.torchrun import forked
from tests.support.unknown_cases import NODES, perturbed
from veilgraph.deploy.prediction import unknown_people


def expected() -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return the people of the connected components without a report."""
    reports = perturbed()
    edges = coo_array((np.ones(reports.graph.num_edges), tuple(reports.graph.edges)), shape=(NODES, NODES))
    _, piece = connected_components(edges, directed=False)
    return np.asarray(~np.isin(piece, piece[reports.has_label]))


def test_people_of_pieces_without_a_report_are_unknown() -> None:
    unknown = unknown_people(perturbed())
    assert unknown.tolist() == expected().tolist()
    linked = unknown & (perturbed().graph.degrees > 0)
    assert 0 < linked.sum() < NODES / 2, "contacts alone are no knowledge"


@pytest.mark.slow
def test_processes_that_share_a_graph_know_as_much_as_one(tmp_path: Path) -> None:
    started = forked(3, "tests.support.unknown_cases", tmp_path / "found.npy")
    said, _ = started.communicate(timeout=120)
    assert started.returncode == 0, said
    assert np.load(tmp_path / "found.npy").tolist() == expected().tolist()
