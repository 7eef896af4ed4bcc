"""Worker threads: separate computations at once, and one torch thread in each."""

from __future__ import annotations

import threading

import pytest
import torch

from veilgraph.reconstruct.threads import map_in_threads, thread_workers

CPU = torch.device("cpu")


@pytest.fixture
def _two_threads() -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_two_threads")
def test_two_items_are_computed_at_once_and_each_has_one_torch_thread() -> None:
    both = threading.Barrier(2, timeout=10)

    def meet(item: int) -> tuple[int, int, list[int]]:
        both.wait()
        return item, torch.get_num_threads(), map_in_threads(lambda _: threading.get_ident(), [1, 2], "work")

    with thread_workers(CPU):
        found = map_in_threads(meet, [3, 4], "work")
    assert [item for item, _, _ in found] == [3, 4]
    assert [threads for _, threads, _ in found] == [1, 1]
    assert all(len(set(inner)) == 1 for *_, inner in found)  # no nested threads
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("_two_threads")
@pytest.mark.parametrize("device", ["cuda", None])
def test_without_workers_or_with_a_gpu_everything_runs_in_this_thread(device: str | None) -> None:
    def where(_: int) -> int:
        return threading.get_ident()

    here = {threading.get_ident()}
    if device is None:
        assert set(map_in_threads(where, [1, 2], "work")) == here
    else:
        with thread_workers(torch.device(device)):
            assert set(map_in_threads(where, [1, 2], "work")) == here


@pytest.mark.usefixtures("_two_threads")
def test_an_error_is_raised_and_the_number_of_torch_threads_is_restored() -> None:
    def fail(item: int) -> None:
        raise ValueError(item)

    with pytest.raises(ValueError, match="1"), thread_workers(CPU):
        map_in_threads(fail, [1, 2], "work")
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("_two_threads")
def test_items_one_at_a_time_have_all_threads() -> None:
    both = threading.Barrier(2, timeout=10)

    def meet(_: int) -> int:
        return both.wait()

    with thread_workers(CPU):
        found = map_in_threads(lambda _: map_in_threads(meet, [1, 2], "inner"), [1, 2, 3], "outer", at_once=1)
    assert [sorted(each) for each in found] == [[0, 1]] * 3
