"""Which nodes' logits are asked for."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from veilgraph.learn.asked import EVERYWHERE, Asked


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_every_wanted_value_is_picked_where_its_place_says(inputs: int, sharing: int, nodes: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    wanted = [random.random(nodes) < 0.5 for _ in range(inputs * sharing)]
    asked = Asked.of(wanted, sharing=sharing)
    values = torch.from_numpy(random.random((inputs * sharing, 2, nodes)))
    picked = asked.pick(values)
    assert picked.shape == (inputs * sharing, 2, asked.size(nodes))
    for replica, mask in enumerate(wanted):
        marked = torch.from_numpy(np.flatnonzero(mask))
        places = asked.places(replica, marked)
        assert torch.equal(picked[replica][:, places], values[replica][:, marked])


def test_replicas_of_an_input_are_asked_for_the_same_nodes() -> None:
    asked = Asked.of([np.array([True, False, False]), np.array([False, False, True])], sharing=2)
    assert asked.pick(torch.tensor([[1, 2, 3], [4, 5, 6]])).tolist() == [[1, 3], [4, 6]]


def test_everywhere_leaves_values_and_places_alone() -> None:
    values, nodes = torch.rand(2, 3, 4), torch.tensor([1, 3])
    assert EVERYWHERE.pick(values) is values
    assert EVERYWHERE.places(1, nodes) is nodes
    assert EVERYWHERE.size(4) == 4
