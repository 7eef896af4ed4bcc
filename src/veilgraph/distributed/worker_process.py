"""Work in a process of its own: when it is done, so is the memory that it took."""

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

_PATIENCE = 5.0
"""Seconds for a process that is asked to end; a library that computes does not listen."""

_REMEDY = "use a machine with more"
_ON_PURPOSE = VeilgraphError, OSError


def made_apart(make: Callable[[], Iterable[object]], what: str) -> Generator[bytes]:
    """What `make` yields in a process of its own, one thing at a time and pickled, for whoever only hands it on.

    What it raises on purpose is raised here; its process ends with this one, and when the iterator is closed.

    Args:
        make: a function of a module, or a partial of one.
        what: it does, in case its process ends before it is done.
    """
    context = multiprocessing.get_context("spawn")
    arriving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(make, what, sending), daemon=True)
    process.start()
    sending.close()  # here: it is open in the other process alone, whose end is then the end of what arrives
    try:
        while True:
            if (error := arriving.recv()) is not None:
                raise error
            yield arriving.recv_bytes()
    except EOFError:
        process.join()
        if process.exitcode:
            raise RunError(f"{what}: its process {_fate(process.exitcode)}") from None
    finally:
        process.terminate()
        process.join(_PATIENCE)
        process.kill()
        process.join()
        arriving.close()


def unpickled(pickled: bytes | memoryview) -> Any:
    """What another process of the same run pickled; never to be asked of anything that came from elsewhere."""
    return pickle.loads(pickled)  # noqa: S301


def _work(make: Callable[[], Iterable[object]], what: str, sending: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever waits for it is interrupted as well, and ends it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that it tidies up
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        for thing in make():
            pickled = pickle.dumps(thing, protocol=pickle.HIGHEST_PROTOCOL)
            sending.send(None)
            sending.send_bytes(pickled)
            del thing, pickled  # before the next is made
    except MemoryError as error:
        sending.send(RunError(f"{what}: memory ran out ({error}); {_REMEDY}"))
    except _ON_PURPOSE as error:
        sending.send(error)


def _end_with_parent() -> None:
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)


def _fate(exitcode: int) -> str:
    if exitcode == -signal.SIGKILL:
        return f"was killed, as happens when memory runs out; {_REMEDY}"
    return f"ended with status {exitcode} before it was done"
