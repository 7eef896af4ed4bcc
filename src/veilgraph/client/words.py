"""Words of randomness, and the order in which a report takes them.

**The words that decide a report.** All randomness is a stream of *words*, uniform integers below 2**53. *A number
below n* takes words until one is below 2**53 - (2**53 mod n), and is that word mod n. *To choose m of n things* goes
through them in order: with l of them left and c still to choose, a thing is chosen if a number below l is less than c.
*A word u by the table (k, true, other) of the value v* reports v if u < true, else v + 1 + (u - true) div other,
modulo k. First, for each feature that the person leaves out, in order, a number below its domain size takes the place
of its value. Then the features are drawn, by one of two mechanisms:

- GRR-FS chooses m of the d features. As soon as a feature is chosen, one word decides its report by its table; if it
  is not chosen, a number below its domain size is reported.
- Joint GRR chooses m of the d features, and reports nothing for the others. Then one word, by the table of their joint
  domain size, decides the reports of all m: their codes are the digits of one value, the first feature's the lowest.

Then the label is drawn, if it is reported, by one of two mechanisms:

- GRR takes one word, by its table.
- Subset selection takes one word u, and the set holds the true class if u < inside. Of the other k - 1 classes, in
  ascending order, it chooses one less than its size, or as many as its size if the true class is outside.

A series of rounds reports each question by L-GRR. In the first round it chooses m of the d features, which stay chosen.
In every round it reports the chosen features in order, then the label, each as follows. If a value occurs for the first
time, one word by the question's table decides its permanent answer, which is kept. The series says how many values are
answered; one beyond these counts as the value before. Then one word, by the question's table of the rounds, decides the
report from the permanent answer. A feature that is left out has a value of its own, whose permanent answer is a number
below its domain size. The others are not reported.

The mechanisms of the package on one row, and the browser's module, take the same words in the same order.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

WORD_BITS = 53
WORDS = 2**WORD_BITS
Word = Callable[[], int]
Codes = tuple[int, ...]
Answers = tuple[int | None, ...]
ReportedFeatures = tuple[int | None, ...]
ReportedLabel = int | Codes


def system_word() -> int:
    """Return a word of the operating system's randomness."""
    return secrets.randbits(WORD_BITS)


def uniform_below(bound: int, word: Word) -> int:
    """Return a uniform number below `bound`. Words beyond the last whole multiple of it are rejected, against bias."""
    limit = WORDS - WORDS % bound
    while (drawn := word()) >= limit:
        pass
    return drawn % bound


def choose(wanted: int, count: int, word: Word) -> Iterator[bool]:
    """Yield for each of `count` things whether it is chosen; every set of `wanted` things is equally likely."""
    for left in range(count, 0, -1):
        chosen = uniform_below(left, word) < wanted
        wanted -= chosen
        yield chosen
