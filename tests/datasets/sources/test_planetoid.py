"""Planetoid files are converted without loss."""

from __future__ import annotations

import pytest

from tests.support.originals import planetoid_files, small_archive
from tests.support.public_data import real_archive
from veilgraph.datasets.catalogue import find_dataset
from veilgraph.datasets.sources.planetoid import convert


@pytest.mark.parametrize("unlabeled", [False, True])
@pytest.mark.parametrize("weight", [1.0, 0.03])
def test_a_small_graph_is_converted_whole(unlabeled: bool, weight: float) -> None:
    archive = small_archive(unlabeled=unlabeled)
    assert convert("small", planetoid_files(archive, rest=3, weight=weight)).checksum == archive.checksum


def test_a_node_that_no_file_mentions_has_neither_features_nor_label() -> None:
    converted = convert("small", planetoid_files(small_archive(unlabeled=True), rest=3))
    assert converted.arrays["unlabeled_nodes"].tolist() == [4]
    assert converted.features[4].sum() == 0


@pytest.mark.parametrize(("name", "rest"), [("cora", 1708), ("citeseer", 2312), ("pubmed", 18717)])
def test_files_like_the_real_ones_give_the_catalogued_arrays(name: str, rest: int) -> None:
    assert convert(name, planetoid_files(real_archive(name), rest=rest)).checksum == find_dataset(name).checksum
