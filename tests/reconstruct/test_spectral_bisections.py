"""Bisections by eigenvectors: equal halves, other trees for other seeds, the same in any number of parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.support.thread_communicator import ThreadCommunicator, in_threads
from veilgraph.reconstruct.spectral_bisections import spectral_bisections
from veilgraph.reconstruct.threads import thread_workers


def test_halves_have_equal_size_and_trees_differ() -> None:
    places = torch.from_numpy(np.random.default_rng(0).standard_normal((103, 5)).astype(np.float32))
    with thread_workers(torch.device("cpu")):
        trees = spectral_bisections(places, 3, 4)
    for codes in trees:
        for level in range(3):
            halves = np.bincount(codes >> (2 - level), minlength=2 ** (level + 1)).reshape(-1, 2)
            assert np.abs(halves[:, 0] - halves[:, 1]).max() <= 1
    assert len({codes.tobytes() for codes in trees}) == 4
    assert all((one == other).all() for one, other in zip(trees, spectral_bisections(places, 3, 4), strict=True))


def test_the_first_halves_of_a_long_cloud_away_from_zero_are_its_ends() -> None:
    rng = np.random.default_rng(0)
    places = (rng.standard_normal((400, 3)) * [1, 8, 2] + [90, 5, -40]).astype(np.float32)
    for codes in spectral_bisections(torch.from_numpy(places), 1, 3):
        upper = places[:, 1] > np.median(places[:, 1])
        assert max((codes == upper).mean(), (codes != upper).mean()) > 0.95


def test_nodes_in_one_place_stay_together() -> None:
    places = torch.cat([torch.zeros(60, 3), torch.arange(120.0).view(40, 3)])
    for codes in spectral_bisections(places, 4, 2):
        assert len(set(codes[:60].tolist())) == 1


@pytest.mark.parametrize("parts", [2, 5])
def test_any_number_of_parts_finds_the_same_trees(parts: int) -> None:
    rng = np.random.default_rng(0)
    vectors = torch.from_numpy(rng.standard_normal((5000, 16)).astype(np.float32))
    part_of = torch.from_numpy(rng.integers(parts, size=len(vectors)))
    part_of[part_of == 1] = 0  # one part has no node
    part_of[0] = parts - 1
    whole = spectral_bisections(vectors, 8, 3)

    def one(communicator: ThreadCommunicator) -> list[np.ndarray[tuple[int, ...], np.dtype[np.int32]]]:
        return spectral_bisections(vectors[communicator.counted_nodes], 8, 3, communicator)

    for rank, found in enumerate(in_threads(part_of, one)):
        for codes, expected in zip(found, whole, strict=True):
            assert np.array_equal(codes, expected[part_of.numpy() == rank])
