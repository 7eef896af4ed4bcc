"""What a command returns, and the one function that prints it: in words with tables, or as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console
from rich.table import Table

from veilgraph.cli._common import echo, echo_json

Sentence = str | Table
"""A line, or a table between lines."""


class Result(Protocol):
    """What a command found or did."""

    @property
    def document(self) -> object:
        """The result as JSON-ready values, for scripts."""

    @property
    def sentences(self) -> Iterable[Sentence]:
        """The result in words, for people."""


@dataclass(frozen=True)
class Facts:
    """A result of a few facts.

    Attributes:
        document: the facts as JSON-ready values.
        sentences: the facts in words.
    """

    document: object
    sentences: Iterable[Sentence]


def emit(result: Result, *, as_json: bool) -> None:
    """Print a result: its document, or its sentences and tables in their order."""
    if as_json:
        echo_json(result.document)
        return
    for sentence in result.sentences:
        if isinstance(sentence, Table):
            Console(markup=False).print(sentence)
        else:
            echo(sentence)
