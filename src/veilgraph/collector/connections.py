"""Limits on open connections: in all below what the process may open, and a part of that for one sender."""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass
from typing import Self

from veilgraph.errors import RunError

# Number of connections that one turn of the event loop accepts. Few, so that open connections get their turn.
ACCEPTED_PER_TURN = 64
# A connection that is refused is closed three turns after it was accepted.
_BEING_REFUSED = 4 * ACCEPTED_PER_TURN
# Descriptors of the database's connections, of exports and of the server itself.
_RESERVED = 128
_MOST_DESCRIPTORS = 65_536
_MOST_CONNECTIONS = 10_000
_MOST_OF_ONE_SENDER = 256
_FEWEST_CONNECTIONS = 128


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """Maximum numbers of open connections.

    Args:
        total: of all senders together.
        per_sender: of one sender; trusted proxies, which speak for many, have no such limit.
    """

    total: int
    per_sender: int

    @classmethod
    def within(cls, descriptors: int) -> Self:
        """Return limits that a process with this number of descriptors can keep.

        >>> ConnectionLimits.within(1024)
        ConnectionLimits(total=640, per_sender=160)
        >>> ConnectionLimits.within(65_536)
        ConnectionLimits(total=10000, per_sender=256)
        >>> ConnectionLimits.within(256)
        Traceback (most recent call last):
        veilgraph.errors.RunError: 256 open files are allowed, 512 are needed: raise the limit, 'ulimit -n 1024'
        """
        total = min(_MOST_CONNECTIONS, descriptors - _BEING_REFUSED - _RESERVED)
        if total < _FEWEST_CONNECTIONS:
            needed = _FEWEST_CONNECTIONS + _BEING_REFUSED + _RESERVED
            raise RunError(
                f"{descriptors} open files are allowed, {needed} are needed: raise the limit, 'ulimit -n 1024'"
            )
        return cls(total=total, per_sender=min(_MOST_OF_ONE_SENDER, total // 4))


def raise_descriptor_limit() -> int:
    """Raise the limit on open files as far as the system allows, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return wanted if soft == resource.RLIM_INFINITY else soft


class OpenConnections:
    """Count of the open connections of each sender.

    Args:
        limits: maximum numbers of them.
        proxies: senders that speak for many, and count in all only.

    >>> connections = OpenConnections(ConnectionLimits(total=3, per_sender=1), proxies={"proxy"})
    >>> [connections.admit(sender) for sender in ("a", "a", "proxy", "proxy", "b")]
    [True, False, True, True, False]
    >>> connections.release("a")
    >>> connections.admit("b")
    True
    """

    def __init__(self, limits: ConnectionLimits, *, proxies: Set[str] = frozenset()) -> None:
        self._limits, self._proxies = limits, proxies
        self._open: Counter[str] = Counter()
        self._total = 0

    def admit(self, sender: str) -> bool:
        """Count a connection of the sender if the limits allow it, and return whether they do."""
        if self._total >= self._limits.total:
            return False
        if self._open[sender] >= self._limits.per_sender and sender not in self._proxies:
            return False
        self._open[sender] += 1
        self._total += 1
        return True

    def release(self, sender: str) -> None:
        """Count the end of a connection that was admitted."""
        self._total -= 1
        self._open[sender] -= 1
        if not self._open[sender]:
            del self._open[sender]
