"""A worker process that streams results: its memory is free again when it ends."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from multiprocessing.connection import Connection
from typing import Any

from veilgraph.errors import RunError, VeilgraphError

_REMEDY = "use a machine with more"
_EXPECTED_ERRORS = VeilgraphError, OSError


def stream_from_worker_process(
    make: Callable[[], Iterable[object]], task: str, *, termination_timeout: float = 5.0
) -> Generator[bytes]:
    """Iterate over `make()` in a worker process, and yield each result pickled.

    Results stay pickled because most callers only forward them. An expected error (`VeilgraphError`, `OSError`) of
    the worker is raised here. The worker ends with this process, and when the generator is closed.

    Args:
        make: function at the top level of a module, or a partial of one.
        task: what the worker does, for error messages.
        termination_timeout: seconds from SIGTERM to SIGKILL; a library that computes does not handle SIGTERM.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(make, task, sender), daemon=True)
    process.start()
    sender.close()  # the worker then holds the only copy, so its end is the end of the stream
    try:
        while True:
            if (error := receiver.recv()) is not None:
                raise error
            yield receiver.recv_bytes()
    except EOFError:
        process.join()
        if process.exitcode:
            raise RunError(f"{task}: its process {_fate(process.exitcode)}") from None
    finally:
        process.terminate()
        process.join(termination_timeout)
        process.kill()
        process.join()
        receiver.close()


def unpickle_trusted(pickled: bytes | memoryview) -> Any:
    """Unpickle an object from another process of the same run. Never use it for data from elsewhere."""
    return pickle.loads(pickled)  # noqa: S301


def _work(make: Callable[[], Iterable[object]], task: str, sender: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which ends this process
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # run `finally` blocks
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    try:
        for result in make():
            pickled = pickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL)
            sender.send(None)
            sender.send_bytes(pickled)
            del result, pickled  # free the memory before the next result is made
    except MemoryError as error:
        sender.send(RunError(f"{task}: memory ran out ({error}); {_REMEDY}"))
    except _EXPECTED_ERRORS as error:
        sender.send(error)


def _exit_with_parent() -> None:
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)


def _fate(exitcode: int) -> str:
    if exitcode == -signal.SIGKILL:
        return f"was killed, as happens when memory runs out; {_REMEDY}"
    return f"ended with status {exitcode} before it was done"
