"""The limit of torch threads on small graphs."""

from __future__ import annotations

import torch

from veilgraph.models.engine.device import torch_threads_for


def test_a_small_graph_has_one_torch_thread_and_the_number_is_restored() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with torch_threads_for(100):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
