"""Process groups: one process needs none, and the loss of a process is an error of one sentence."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
import torch
from torch import distributed

from veilgraph.distributed.process_group import LostProcessError, communication, join_process_group, one_message
from veilgraph.errors import GraphError, RunError


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_without_torchrun_this_process_leads_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with join_process_group(torch.device("cpu")) as processes:
        assert (processes.is_leader, processes.world_size) == (True, 1)
        assert not distributed.is_initialized()


def test_a_process_without_a_gpu_of_its_own_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WORLD_SIZE": "4", "RANK": "3", "LOCAL_RANK": "3"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with (
        pytest.raises(RunError, match="there are 2: start 2 processes"),
        join_process_group(torch.device("cuda")),
    ):
        pass


def test_a_lost_process_is_an_error_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    expected = (
        r"^process 1 of 2 stops, .* see its message, .* a training goes on .*\(Connection closed by peer \[::1\]:5\)$"
    )
    with pytest.raises(RunError, match=expected), communication():
        raise RuntimeError("[/a/pair.cc:553] Connection closed by peer [::1]:5. This is typical. Good luck\nat main()")
    # torchrun's request to terminate must not cut the message short.
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN


def test_the_message_of_the_process_that_refuses_is_the_only_one() -> None:
    store = distributed.HashStore()  # type: ignore[attr-defined]
    with pytest.raises(GraphError, match="no shard"), one_message(store):
        raise GraphError("no shard")
    with pytest.raises(SystemExit) as ends, one_message(store):
        raise LostProcessError("another one ended")
    assert ends.value.code == 2


def test_the_loss_of_a_process_that_refused_nothing_is_told() -> None:
    store = distributed.HashStore()  # type: ignore[attr-defined]
    for _ in range(2):  # the message of one process that lost another does not silence the next
        with pytest.raises(LostProcessError, match="another one ended"), one_message(store):
            raise LostProcessError("another one ended")


def test_a_lost_store_silences_nothing() -> None:
    class Lost:
        def check(self, keys: list[str]) -> bool:
            raise RuntimeError("Connection reset by peer")

        def set(self, key: str, value: str) -> None:
            raise RuntimeError("Connection reset by peer")

    for error in (LostProcessError("another one ended"), GraphError("no shard")):
        with pytest.raises(type(error), match=str(error)), one_message(Lost()):
            raise error
