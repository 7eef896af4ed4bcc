"""Amounts of memory, as people write them."""

from __future__ import annotations

import math
import re

from veilgraph.errors import RunError

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12} | {
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}


def parse_bytes(text: str) -> int:
    """The number of bytes.

    >>> parse_bytes("8GiB") == 8 * 2**30, parse_bytes("500 MB") == 500_000_000
    (True, True)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?B|)\s*", text, re.IGNORECASE)
    size = float(match[1]) * _UNITS[match[2].upper()] if match else 0
    if not 1 <= size < math.inf:
        raise RunError(f"memory is '{text}': write a number and a unit, such as 8GiB or 500MB")
    return int(size)
