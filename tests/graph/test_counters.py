"""Words of counters are uniform, and depend on seed, stream and number alone."""

from __future__ import annotations

import numpy as np

from veilgraph.graph.counters import counter_words, mix


def test_words_depend_on_their_number_and_not_on_the_others() -> None:
    whole = counter_words(np.arange(1000), seed=3, stream=1)
    np.testing.assert_array_equal(counter_words(np.arange(500, 700), seed=3, stream=1), whole[500:700])


def test_each_bit_of_the_words_is_set_half_of_the_time() -> None:
    words = counter_words(np.arange(2**14), seed=0, stream=2)
    shares = np.unpackbits(words.view(np.uint8)).reshape(-1, 64).mean(axis=0)
    # Five standard errors of a share of 2^14 fair bits; one of 64 shares exceeds that once in 27,000 seeds.
    assert abs(shares - 0.5).max() < 5 * 0.5 / 2**7


def test_mixing_is_a_bijection() -> None:
    assert len(np.unique(mix(np.arange(2**16, dtype=np.uint64)))) == 2**16
