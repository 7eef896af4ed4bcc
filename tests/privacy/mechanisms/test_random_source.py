"""Uniform integers from the operating system."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from veilgraph.privacy.mechanisms.random_source import WORD_BITS, WORDS, OSRandom


@pytest.mark.parametrize(("low", "high"), [(0, 2), (0, 6), (-3, 4), (5, 6)])
def test_every_integer_of_the_range_is_equally_likely(low: int, high: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.urandom", np.random.default_rng(0).bytes)  # seeded, so that the test is deterministic
    drawn = OSRandom().integers(low, high, size=60_000)
    observed = np.bincount(drawn - low, minlength=high - low)
    # A correct source fails for one seed in a million. A range of one value must give only this value.
    assert len(observed) == high - low
    assert high - low == 1 or chisquare(observed).pvalue > 1e-6


def test_words_fill_all_53_bits_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.urandom", np.random.default_rng(0).bytes)
    words = OSRandom().integers(0, WORDS, size=10_000)
    ones = [((words >> bit) & 1).mean() for bit in range(53)]
    # Five standard errors of the share of ones in 10 000 fair bits, for each bit.
    assert np.abs(np.array(ones) - 0.5).max() < 5 * 0.5 / np.sqrt(10_000)
    assert words.max() < WORDS


def test_words_that_would_favour_small_integers_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    # 2**53 is 2 more than a multiple of 3: its last two words would make 0 and 1 likelier than 2.
    batches = iter([[WORDS - 1, 5, WORDS - 2, WORDS - 3], [4, WORDS - 1], [8]])

    def scripted(num_bytes: int) -> bytes:
        batch = np.array(next(batches), dtype=np.uint64)
        assert num_bytes == 8 * len(batch)
        return (batch << np.uint64(64 - WORD_BITS)).tobytes()  # a word is the upper 53 bits of 64

    monkeypatch.setattr("os.urandom", scripted)
    assert OSRandom().integers(0, 3, size=4).tolist() == [1, 2, 2, (WORDS - 3) % 3]


def test_zero_integers_can_be_drawn() -> None:
    assert OSRandom().integers(0, 5, size=0).shape == (0,)


def test_two_draws_differ() -> None:
    first, second = (OSRandom().integers(0, WORDS, size=8) for _ in range(2))
    assert (first != second).any()  # equal with probability 2**-424


@pytest.mark.parametrize(("low", "high"), [(0, 0), (3, 1), (0, WORDS + 1)])
def test_a_span_that_words_cannot_cover_is_refused(low: int, high: int) -> None:
    with pytest.raises(ValueError, match=f"cannot draw from {high - low} values"):
        OSRandom().integers(low, high, size=1)
