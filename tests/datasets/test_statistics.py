"""Statistics of a small graph, worked out by hand, and the paper's table from the public graphs."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from tests.support.originals import small_archive
from tests.support.public_data import real_archive, real_folder
from veilgraph.datasets import load
from veilgraph.datasets.catalogue import find_dataset, known_datasets
from veilgraph.datasets.statistics import Statistics, differing, measure

NAMES = sorted(known_datasets())


def test_a_small_graph_is_measured() -> None:
    assert asdict(measure(small_archive(), group=4)) == pytest.approx(
        {
            "nodes": 6,
            "edges": 5,
            "average_degree": 10 / 6,
            "columns": 6,
            "sparsity": 100 * 29 / 36,
            "classes": 2,
            "features": 2,
            "feature_sparsity": 100 * 6 / 12,
        }
    )


@pytest.mark.parametrize("group", [1, 4, 6])
def test_sparsity_is_that_of_the_features_that_are_reported(group: int) -> None:
    reported = small_archive().private_graph(group=group).features
    statistics = measure(small_archive(), group=group)
    assert statistics.feature_sparsity == pytest.approx(100 * (reported == 0).mean())
    assert statistics.features == reported.shape[1]


def test_a_figure_that_was_not_published_cannot_differ() -> None:
    ours = measure(small_archive(), group=4)
    published = Statistics(nodes=6, edges=7, average_degree=1.7, columns=6, sparsity=80.6, classes=2)
    assert differing(ours, published) == ("edges",)


@pytest.mark.parametrize("name", NAMES)
def test_a_real_graph_is_as_catalogued(name: str) -> None:
    archive, dataset = real_archive(name), find_dataset(name)
    assert archive.checksum == dataset.checksum
    ours = measure(archive, group=dataset.group)
    for figure in ("nodes", "edges", "columns", "classes", "features"):
        assert getattr(ours, figure) == getattr(dataset, figure)


@pytest.mark.parametrize("name", [name for name in NAMES if find_dataset(name).published])
def test_a_real_graph_has_the_published_figures_except_for_explained_differences(name: str) -> None:
    dataset = find_dataset(name)
    assert dataset.published is not None
    ours = measure(real_archive(name), group=dataset.group)
    assert set(differing(ours, dataset.published)) == set(dataset.differences)


@pytest.mark.parametrize("name", NAMES)
def test_a_real_graph_is_loaded_with_the_features_that_are_reported(name: str) -> None:
    real_archive(name)  # skipped where it is not
    dataset = find_dataset(name)
    private = load(name, real_folder())
    assert private.features.shape == (dataset.nodes, dataset.features)
    assert private.graph.num_edges == dataset.edges
    assert private.schema.num_classes == dataset.classes
    assert (private.labels < 0).sum() == (15 if name == "citeseer" else 0)
