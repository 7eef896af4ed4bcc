"""The catalogue is complete and agrees with itself."""

from __future__ import annotations

import re

import pytest

from veilgraph.datasets import EMBEDDED
from veilgraph.datasets.catalogue import Dataset, find_dataset, known_datasets
from veilgraph.datasets.sources import CONVERTERS
from veilgraph.errors import RunError

GROUPS = {"citeseer": 70, "cora": 25, "dblp": 50, "facebook": 100, "german": 1, "student": 1}
DATASETS = sorted(known_datasets().values(), key=lambda dataset: dataset.name)


def named(dataset: Dataset) -> str:
    return dataset.name


def test_the_papers_data_sets_are_grouped_as_in_the_paper() -> None:
    in_the_paper = {dataset.name: dataset.group for dataset in DATASETS if dataset.published}
    assert in_the_paper == GROUPS
    assert {dataset.name for dataset in DATASETS} - set(GROUPS) == {"pubmed", "twitch_engb"}


@pytest.mark.parametrize("dataset", DATASETS, ids=named)
def test_every_origin_can_be_converted_and_is_fetched_over_tls(dataset: Dataset) -> None:
    for origin in dataset.origins:
        assert origin.format in CONVERTERS
        assert all(file.url.startswith("https://") for file in origin.files)
        assert all(re.fullmatch("[0-9a-f]{64}", file.sha256) for file in origin.files if file.sha256)


@pytest.mark.parametrize("dataset", DATASETS, ids=named)
def test_every_entry_says_what_it_is_and_whom_to_cite(dataset: Dataset) -> None:
    assert re.fullmatch("[0-9a-f]{64}", dataset.checksum)
    assert dataset.title
    assert dataset.licence
    assert dataset.citation


@pytest.mark.parametrize("dataset", [dataset for dataset in DATASETS if dataset.published], ids=named)
def test_the_published_row_agrees_with_the_entry_except_for_explained_differences(dataset: Dataset) -> None:
    assert dataset.published is not None
    assert dataset.published_accuracy is not None
    for figure in ("nodes", "edges", "columns", "classes"):
        assert (getattr(dataset, figure) == getattr(dataset.published, figure)) or figure in dataset.differences
    assert dataset.published.features in (dataset.features, None)


def test_no_public_name_hides_an_embedded_one() -> None:
    assert not set(EMBEDDED) & set(known_datasets())


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(RunError, match="no public data set 'core': known are citeseer, cora, dblp"):
        find_dataset("core")
