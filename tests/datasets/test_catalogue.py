"""The catalogue is complete and consistent, and its files are found in the right folder and checked before use."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from tests.support.originals import SMALL, small_archive
from tests.support.public_data import real_archive, real_folder
from veilgraph.datasets import EMBEDDED, load
from veilgraph.datasets.archive import Archive
from veilgraph.datasets.catalogue import (
    Dataset,
    Statistics,
    data_folders,
    differing,
    find_archive,
    find_dataset,
    known_datasets,
    measure,
    open_archive,
)
from veilgraph.datasets.converters import CONVERTERS
from veilgraph.errors import GraphError, RunError

GROUPS = {"citeseer": 70, "cora": 25, "dblp": 50, "facebook": 100, "german": 1, "student": 1}
DATASETS = sorted(known_datasets().values(), key=lambda dataset: dataset.name)


def named(dataset: Dataset) -> str:
    return dataset.name


def test_the_papers_data_sets_are_grouped_as_in_the_paper() -> None:
    in_the_paper = {dataset.name: dataset.group for dataset in DATASETS if dataset.published}
    assert in_the_paper == GROUPS
    assert {dataset.name for dataset in DATASETS} - set(GROUPS) == {"flickr", "lastfm", "pubmed", "twitch_engb"}


@pytest.mark.parametrize("dataset", DATASETS, ids=named)
def test_every_origin_can_be_converted_and_is_fetched_over_tls(dataset: Dataset) -> None:
    for origin in dataset.origins:
        assert origin.format in CONVERTERS
        assert all(file.url.startswith("https://") for file in origin.files)
        assert all(re.fullmatch("[0-9a-f]{64}", file.sha256) for file in origin.files if file.sha256)


@pytest.mark.parametrize("dataset", DATASETS, ids=named)
def test_every_address_names_a_commit_and_the_preferred_originals_are_pinned(dataset: Dataset) -> None:
    for origin in dataset.origins:
        for file in origin.files:
            owner_and_name = "[A-Za-z]+/[A-Za-z0-9]+|karuna-bhaila/RGNN"
            assert re.match(rf"https://raw\.githubusercontent\.com/({owner_and_name})/[0-9a-f]{{40}}/", file.url)
    assert all(file.sha256 for file in dataset.origins[0].files)


def test_one_original_has_no_known_hash() -> None:
    unknown = [f.url for dataset in DATASETS for o in dataset.origins for f in o.files if f.sha256 is None]
    assert [url.split("/")[4] for url in unknown] == ["graph2gauss"]


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


# Files on this machine.


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    monkeypatch.setenv("VEILGRAPH_DATA", str(tmp_path / "variable"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return {"option": tmp_path / "option", "variable": tmp_path / "variable", "cache": tmp_path / "cache" / "veilgraph"}


def test_folders_are_looked_in_by_option_variable_and_home(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in reversed(folders.values()):
        small_archive().write(folder / "small.npz")
        assert find_archive("small", folders["option"]) == folder / "small.npz"
    assert data_folders() == (folders["variable"], folders["cache"])
    monkeypatch.delenv("VEILGRAPH_DATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert data_folders() == (tmp_path / ".cache" / "veilgraph",)


def test_a_file_that_is_missing_cut_short_or_another_one_is_refused_with_the_remedy(folders: dict[str, Path]) -> None:
    with pytest.raises(RunError) as caught:
        find_archive("small", folders["option"])
    message = str(caught.value)
    assert all(str(folder) in message for folder in folders.values())
    assert "run 'veilgraph lab data small --fetch'" in message
    assert "VEILGRAPH_DATA" in message
    archive = small_archive()
    labels = archive.arrays["y"].copy()
    labels[0] = 1
    Archive(name="small", arrays={**archive.arrays, "y": labels}).write(folders["cache"] / "small.npz")
    with pytest.raises(GraphError, match=r"does not hold the catalogued small .*lab data small --fetch"):
        open_archive(SMALL)
    path = folders["cache"] / "small.npz"
    small_archive().write(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(GraphError, match="not a readable data set"):
        open_archive(SMALL)


def test_a_public_data_set_is_loaded_by_name_with_or_without_merging(folders: dict[str, Path]) -> None:
    public = {"small": SMALL}
    small_archive().write(folders["option"] / "small.npz")
    private = load("small", folders["option"], public=public)
    assert private.features.shape == (6, 2)
    assert private.graph.num_edges == SMALL.edges
    assert load("small", folders["option"], merge_columns=False, public=public).features.shape == (6, 6)
    assert np.array_equal(private.graph.edges, small_archive().arrays["edge_index"])


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
