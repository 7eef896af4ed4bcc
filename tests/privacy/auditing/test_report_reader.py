"""A complete leak that stands in a report is found, however the report is written."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable

import numpy as np
import pytest

from veilgraph.errors import BudgetError
from veilgraph.privacy.audit import audit_randomizer
from veilgraph.privacy.auditing.report_reader import ReportReader

LEAKS: dict[str, Callable[[int], object]] = {
    "a key beside a nonce": lambda bit: {"answer": bit, "nonce": secrets.randbits(40)},
    "a word of a text": lambda bit: f"answer={bit} id={secrets.token_hex(4)}",
    "an entry of a list of any length": lambda bit: [
        bit,
        *(secrets.randbits(40) for _ in range(1 + secrets.randbelow(4))),
    ],
    "the length of a list": lambda bit: [secrets.randbits(40) for _ in range(bit + 2)],
    "the low bit of an integer": lambda bit: 2 * secrets.randbits(40) + bit,
    "the low bit of a large integer": lambda bit: 2 * secrets.randbits(90) + bit,
    "the sign of zero": lambda bit: [-0.0 if bit else 0.0, secrets.randbits(40)],
    "the type of a number": lambda bit: [1.0 if bit else 1, secrets.randbits(40)],
    "a flag for a number": lambda bit: [True if bit else 1, secrets.randbits(40)],
    "the order of keys": lambda bit: dict(sorted({"a": 1, "b": secrets.randbits(40)}.items(), reverse=bool(bit))),
    "a space at the end": lambda bit: secrets.token_hex(4) + " " * bit,
    "a number that is none": lambda bit: [float("nan") if bit else 0.5, secrets.randbits(40)],
}


@pytest.mark.parametrize("leak", LEAKS.values(), ids=LEAKS.keys())
def test_a_leak_that_stands_in_the_report_is_found(leak: Callable[[int], object]) -> None:
    found = audit_randomizer(leak, [0, 1], claim=1.0, trials=4_000, rng=np.random.default_rng(0), fresh_processes=False)
    assert found.lower_bound > 3
    assert found.refuted


def test_reports_that_never_repeat_are_said_to_be_compared_in_parts_alone() -> None:
    rng = np.random.default_rng(0)
    quiet = audit_randomizer(
        lambda bit: secrets.token_hex(8), [0, 1], claim=1.0, trials=4_000, rng=rng, fresh_processes=False
    )
    assert not quiet.refuted
    assert quiet.notes == ("reports never repeat: only their parts were compared",)
    few = audit_randomizer(
        lambda bit: secrets.randbits(1), [0, 1], claim=1.0, trials=4_000, rng=rng, fresh_processes=False
    )
    assert few.notes == ()


def test_a_report_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(BudgetError, match="nested too deeply"):
        ReportReader().read([json.loads("[" * 200 + "]" * 200)])


@pytest.mark.parametrize(
    ("reports", "distinct"),
    [
        ([1, 2, 1], 2),
        (["a", "b", "a"], 2),
        ([{"a": 1, "b": [2]}, {"b": [2], "a": 1}], 1),
        ([{1, 2}, {2, 1}, {1}], 2),
        ([(1, "x"), (1, "y")], 2),
        ([[1], [1, 2], [1, 2]], 2),
        ([np.array([0, 1]), np.array([1, 1])], 2),
        ([2**70, 2**71], 2),
        ([None, True, 0], 3),
    ],
)
def test_equal_reports_are_equal_rows_and_others_are_not(reports: list[object], distinct: int) -> None:
    columns = ReportReader().read(reports)[0]
    assert len({tuple(row) for row in columns.tolist()}) == distinct


def test_a_report_of_another_length_is_a_value_of_its_own() -> None:
    reader = ReportReader()
    reader.read([[0, 1], [1, 0]])
    first, second = reader.read([[0, 1], [0]])[0]
    assert first.tolist() == [0, 1]
    assert second.tolist() != [0, 1]
