"""The study of graphs that played no part in the design: what they are, and that methods read reports of them."""

from __future__ import annotations

import numpy as np
import pytest
from studies.other_graphs import GENERATED, compare, names_in

from veilgraph.experiments.label_fields import assortativity


@pytest.mark.parametrize("name", GENERATED)
def test_a_seed_decides_on_a_graph_whose_edges_say_something(name: str) -> None:
    first, again = GENERATED[name](3), GENERATED[name](3)
    assert np.array_equal(first.graph.edges, again.graph.edges)
    assert np.array_equal(first.labels, again.labels)
    assert 0.3 < assortativity(first.graph, first.labels) < 1


def test_without_a_folder_there_are_generated_graphs_alone() -> None:
    assert names_in(None) == list(GENERATED)


def test_a_cell_scores_both_methods_beside_the_largest_class() -> None:
    veil, control, largest = compare(GENERATED["cliques"](0), 4.0, 0)
    assert min(veil, control) > largest
