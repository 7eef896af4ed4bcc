"""Commands that need more than the contract say so in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from veilgraph.errors import MissingExtraError


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Import inside: a library that is not installed becomes the name of the extra that brings it."""
    try:
        yield
    except MissingExtraError:
        raise
    except ImportError as error:
        raise MissingExtraError(error.name or "a library", extra) from error
