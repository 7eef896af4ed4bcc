"""A device that answers campaigns: what tests of the Python client share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.campaigns import BEFORE, CAMPAIGNS
from tests.support.forgeries import RECORD
from veilgraph.client import answer
from veilgraph.client.question import Question
from veilgraph.client.rounds import Rounds
from veilgraph.client.series import Memory
from veilgraph.client.words import Answers, Word

BINARY = CAMPAIGNS["binary"]
SETS = CAMPAIGNS["a set of 6 of 18 classes"]


class Untouchable(dict[str, Any]):
    """A record that must not be read."""

    def __getitem__(self, key: str) -> Any:
        pytest.fail("the record was looked at")

    def __contains__(self, key: object) -> bool:
        pytest.fail("the record was looked at")


def rounds_of(question: Question) -> Rounds:
    asked = question.asked
    assert isinstance(asked, Rounds)
    return asked


def remember(question: Question, memory: Memory, features: Answers | None, label: int | None, *, word: Word) -> Memory:
    """Return what a device remembers after the round that the campaign's notice opens."""
    return rounds_of(question).remember(memory, question.notice.round, lambda: (features, label), word)


def ask(text: str, store: Path, record: Any = RECORD, **settings: Any) -> dict[str, Any]:
    defaults: dict[str, Any] = {"node": "u1", "store": store, "max_epsilon": 5.0, "now": BEFORE}
    return answer(text, record, **(defaults | settings))
