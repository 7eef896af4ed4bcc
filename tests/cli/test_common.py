"""Helpers of the commands: amounts of memory, and messages of the library on standard error."""

from __future__ import annotations

import logging

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from veilgraph.cli._common import parse_bytes, show_progress
from veilgraph.errors import RunError
from veilgraph.progress import say

UNITS = {
    "": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}


@given(st.integers(1, 4096), st.sampled_from(sorted(UNITS)), st.sampled_from(["", " "]))
def test_a_number_and_a_unit_are_their_product(number: int, unit: str, space: str) -> None:
    assume(unit or number >= 1000)  # a smaller one lacks its unit
    for spelled in (unit, unit.lower(), unit.upper()):
        assert parse_bytes(f"{number}{space}{spelled}") == number * UNITS[unit]


def test_fractions_and_spaces_are_understood_and_anything_else_is_refused_with_the_remedy() -> None:
    understood = {"1.5GiB": 3 * 2**29, "0.25 MB": 250_000, " 8GiB ": 2**33, "1000": 1000}
    assert {text: parse_bytes(text) for text in understood} == understood
    refused = ["", "GiB", "8 G", "8Gi", "-8GiB", "+8GiB", "0", "8", "0.3", "0GiB", "8,5GiB", "8GiB/s", "8.GiB", "1e9"]
    for text in (*refused, "inf", "nan", "8PiB", "9" * 400 + "GiB"):
        with pytest.raises(RunError, match="write a number and a unit, such as 8GiB or 500MB") as caught:
            parse_bytes(text)
        assert f"memory is '{text}'" in str(caught.value)


def test_messages_of_the_library_are_printed_only_while_a_task_runs(capsys: pytest.CaptureFixture[str]) -> None:
    level = logging.getLogger("veilgraph").level
    with show_progress("run"):
        say("bags: [streamed]")
    say("not printed")
    printed = capsys.readouterr()
    assert printed.err == "run: bags: [streamed]\n"
    assert printed.out == ""
    assert logging.getLogger("veilgraph").level == level
