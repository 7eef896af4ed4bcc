"""Batch plans are complete, within memory, and share every input equally."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from veilgraph.errors import FitError
from veilgraph.models.engine.batch_planner import CACHE_BYTES, Batch, plan_batches

Job = tuple[int, str, int]
"""A number, a shape and an input."""

GPU = torch.device("cuda")
CPU = torch.device("cpu")
SPECIFICATIONS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5)), max_size=40)


def plan(
    specifications: list[tuple[str, int]],
    *,
    input_bytes: int = 3,
    replica_bytes: int = 2,
    memory: int = 100,
    device: torch.device = GPU,
    cache_bytes: int = CACHE_BYTES,
) -> list[Batch[Job]]:
    jobs: list[Job] = [(number, *specification) for number, specification in enumerate(specifications)]
    return list(
        plan_batches(
            jobs,
            shape_of=lambda job: job[1],
            input_of=lambda job: job[2],
            input_bytes=input_bytes,
            replica_bytes=replica_bytes,
            memory=memory,
            device=device,
            cache_bytes=cache_bytes,
        )
    )


@given(SPECIFICATIONS, st.integers(1, 9), st.integers(1, 9), st.integers(0, 60), st.sampled_from([CPU, GPU]))
def test_every_task_is_planned_once_within_memory_and_with_inputs_shared_equally(
    specifications: list[tuple[str, int]], input_bytes: int, replica_bytes: int, spare: int, device: torch.device
) -> None:
    memory = input_bytes + replica_bytes + spare
    batches = plan(specifications, input_bytes=input_bytes, replica_bytes=replica_bytes, memory=memory, device=device)
    assert Counter(job for batch in batches for job in batch.tasks) == Counter(
        (number, *specification) for number, specification in enumerate(specifications)
    )
    for batch in batches:
        shares = [batch.tasks[start : start + batch.sharing] for start in range(0, len(batch.tasks), batch.sharing)]
        assert len(shares) * batch.sharing == len(batch.tasks) > 0
        assert len({shape for _, shape, _ in batch.tasks}) == 1
        assert all(len({which for _, _, which in share}) == 1 for share in shares)
        assert len(shares) * input_bytes + len(batch.tasks) * replica_bytes <= memory


@given(SPECIFICATIONS)
def test_with_memory_to_spare_equally_shared_inputs_are_one_batch(specifications: list[tuple[str, int]]) -> None:
    # As many batches as there are different numbers of tasks per input, for each shape.
    expected = {(shape, count) for (shape, _), count in Counter(specifications).items()}
    assert len(plan(specifications, memory=10**6)) == len(expected)


@given(SPECIFICATIONS)
def test_larger_shares_come_first(specifications: list[tuple[str, int]]) -> None:
    batches = plan([(shape, which) for shape, which in specifications if shape == "a"])
    assert all(one.sharing >= other.sharing for one, other in pairwise(batches))


def test_an_input_that_too_many_tasks_share_is_split() -> None:
    # The limit is 3 + 2 * 2 bytes: two tasks at a time.
    batches = plan([("a", 0)] * 5, memory=8)
    assert [(len(batch.tasks), batch.sharing) for batch in batches] == [(2, 2), (2, 2), (1, 1)]


def test_a_batch_on_a_cpu_fits_into_the_cache() -> None:
    assert [len(batch.tasks) for batch in plan([("a", 0)] * 5, device=CPU, cache_bytes=8)] == [2, 2, 1]
    assert [len(batch.tasks) for batch in plan([("a", 0)] * 5, device=GPU, cache_bytes=8)] == [5]
    # A task that is larger than the cache is still planned.
    assert [len(batch.tasks) for batch in plan([("a", 0)] * 2, device=CPU, input_bytes=20, cache_bytes=8)] == [1, 1]


@pytest.mark.parametrize("device", [CPU, GPU])
def test_too_little_memory_for_one_task_is_refused_with_both_numbers(device: torch.device) -> None:
    with pytest.raises(FitError, match=r"one fit needs about 3072.0 MiB and 2560.0 MiB are allowed: allow more memory"):
        plan([("a", 0)], input_bytes=2**30, replica_bytes=2 * 2**30, memory=5 * 2**29, device=device)
    assert len(plan([("a", 0)], input_bytes=1, replica_bytes=2, memory=3, device=device)) == 1


def test_no_tasks_make_no_batch() -> None:
    assert plan([]) == []
