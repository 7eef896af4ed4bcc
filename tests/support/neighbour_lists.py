"""The text of a randomized neighbour list, written down once more for tests."""

from __future__ import annotations

from collections.abc import Iterable

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def text_of(rows: Iterable[int], people: int) -> str:
    """Return the text that names some rows: six bits to a character, of bytes whose lowest bit is the first row."""
    named = set(rows)
    count = 8 * -(-people // 8)
    places = [8 * (place // 8) + 7 - place % 8 for place in range(count)]  # bits of a byte from the highest
    bits = [int(row in named) for row in places] + [0] * (-count % 6)
    sixes = (bits[start : start + 6] for start in range(0, len(bits), 6))
    return "".join(ALPHABET[int("".join(map(str, six)), 2)] for six in sixes)


def rows_in(text: str) -> tuple[int, ...]:
    """Return the rows that a text names, in ascending order."""
    bits = "".join(f"{ALPHABET.index(character):06b}" for character in text)
    return tuple(sorted(8 * (place // 8) + 7 - place % 8 for place, bit in enumerate(bits) if bit == "1"))
