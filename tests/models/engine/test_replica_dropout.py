"""Dropout: the masks of a replica depend on its seed, not on the other replicas."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from veilgraph.distributed.communicator import LocalCommunicator
from veilgraph.graph.counters import mix
from veilgraph.models.engine.replica_dropout import ReplicaDropout, counted_bytes

CPU = torch.device("cpu")


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 0.75]), st.integers(0, 3)), min_size=1, max_size=6),
    st.integers(1, 5),
    st.integers(1, 20),
)
def test_masks_of_a_replica_do_not_depend_on_other_replicas(
    replicas: list[tuple[float, int]], units: int, nodes: int
) -> None:
    together = ReplicaDropout([p for p, _ in replicas], [seed for _, seed in replicas], CPU)
    alone = [ReplicaDropout([p], [seed], CPU) for p, seed in replicas]
    for _ in range(3):
        found = together.masks(units, nodes)
        which = [mask for mask in together.mask_index if mask is not None]
        assert found.shape == (len(set(which)), units, nodes)
        assert torch.equal(found[which], torch.cat([each.masks(units, nodes) for each in alone]))
    assert together.masked_replicas.tolist() == [place for place, (p, _) in enumerate(replicas) if p > 0]
    assert torch.equal(together.scales, torch.cat([each.scales for each in alone]))


def test_other_seeds_and_later_draws_have_other_masks() -> None:
    dropout = ReplicaDropout([0.5, 0.5, 0.5], [0, 1, 0], CPU)
    first, second = dropout.masks(16, 100), dropout.masks(16, 100)
    assert dropout.mask_index == [0, 1, 0]
    # Two independent masks agree in half of 1600 places, with a standard deviation of 20.
    for one, other in ((first[0], first[1]), (first[0], second[0])):
        assert abs(int((one == other).sum()) - 800) < 5 * 20


@pytest.mark.parametrize("probability", [0.1, 0.25, 0.5, 0.75, 0.9])
def test_the_share_of_dropped_units_is_the_probability_to_the_nearest_256th(probability: float) -> None:
    units, nodes = 16, 10_000
    dropout = ReplicaDropout([probability], [3], CPU)
    mask = dropout.masks(units, nodes)
    rounded = round(probability * 256) / 256
    assert abs(rounded - probability) <= 1 / 512
    deviation = math.sqrt(rounded * (1 - rounded) / (units * nodes))
    assert abs(1 - float(mask.mean()) - rounded) < 5 * deviation
    assert set(mask.flatten().tolist()) == {0.0, 1.0}
    # The scale compensates for the rounded probability, which is the one that is applied.
    assert float(dropout.scales) == pytest.approx(1 / (1 - rounded), rel=1e-6)


def test_masks_at_one_seed_are_nested() -> None:
    # One byte decides for all probabilities: a unit that is kept at a high one is kept at a low one.
    low, high = ReplicaDropout([0.25, 0.75], [0, 0], CPU).masks(16, 100)
    assert (low >= high).all()
    assert (low > high).any()


def test_a_probability_of_zero_drops_nothing() -> None:
    dropout = ReplicaDropout([0.0, 0.5], [0, 0], CPU)
    assert dropout.mask_index == [None, 0]
    assert float(dropout.scales[0]) == 1
    assert dropout.active
    assert not ReplicaDropout([0.0, 0.0], [0, 1], CPU).active


def test_counted_masks_of_a_part_are_those_of_the_whole_graph_and_resume() -> None:
    numbers = torch.tensor([3, 4, 9, 17])
    whole = ReplicaDropout([0.5, 0.25], [0, 1], CPU, LocalCommunicator(torch.arange(20)))
    part = ReplicaDropout([0.5, 0.25], [0, 1], CPU, LocalCommunicator(numbers))
    for _ in range(2):
        assert torch.equal(whole.masks(11, 20)[:, :, numbers], part.masks(11, 4))
    again = ReplicaDropout([0.5, 0.25], [0, 1], CPU, LocalCommunicator(numbers))
    again.resume(part.state)
    assert torch.equal(whole.masks(11, 20)[:, :, numbers], again.masks(11, 4))


def test_counted_masks_drop_the_asked_share_and_differ_by_step() -> None:
    dropout = ReplicaDropout([0.25], [0], CPU, LocalCommunicator(torch.arange(4000)))
    first, second = dropout.masks(10, 4000), dropout.masks(10, 4000)
    # Five standard errors of the share of 40,000 independent units.
    assert abs(float(1 - first.mean()) - 0.25) < 5 * math.sqrt(0.25 * 0.75 / 40_000)
    assert abs(float((first == second).float().mean()) - 0.625) < 5 * math.sqrt(0.625 * 0.375 / 40_000)


def test_counted_bytes_are_the_words_of_counters() -> None:
    key = np.random.SeedSequence([5, 1]).generate_state(2, np.uint64)
    words = mix(mix(np.arange(6, dtype=np.uint64) ^ key[0]) ^ key[1])
    assert counted_bytes(torch.arange(6), 8, seed=5, step=1).T.numpy().tobytes() == words.tobytes()
