r"""Guesses of the record behind a report, learned from some reports, and the exact epsilon that their score proves.

A *bet* names, for some reports, one record of a group of g records. Each of them is equally likely to be behind the
report. Where reports are epsilon-LDP, a bet on a report o is right with probability

.. math:: \frac{P(o \mid x)}{\sum_{x'} P(o \mid x')} \le \frac{e^\epsilon}{e^\epsilon + g - 1}

whatever the bet is and whatever its report. So the number of right ones among N bets is at most binomial, and
:math:`\epsilon \ge \ln \frac{R}{1 - R} + \ln(g - 1)` with the Clopper-Pearson lower bound R of their share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from veilgraph.privacy.auditing.columns import row_keys

_Z_CHOICE = 4.0
"""Standard errors of the nominating draws that a promise is lowered by: the best of many bets is a lucky one."""
_Z_PROOF = 3.0
"""Standard errors of the draws that will prove a bet, which are of its group alone."""
_DEVIATIONS = 5.0
"""Standard deviations above its mean from which a column's statistic says that it tells records apart."""
_MOST_GROUPS = 2
_FEWEST_FOR_EACH_REPORT = 4
_MOST_CODES, _PAIRED_CODES, _PAIRED_REPORTS, _MOST_PAIRS = 64, 512, 20_000, 8
"""Of pairs: codes of a column, of all columns together, reports that choose pairs, and pairs that are chosen."""
_CHANCE_PAIR = 1e-3
"""Largest chance that any pair is chosen that says nothing."""

Group = tuple[int, ...]
"""Numbers of records of which any two are neighbours."""

Places = tuple[int, ...]
"""Numbers of one or two columns, or marks, that are read together."""

WHOLE, COLUMNS, TELLING, STATED = "whole reports", "columns", "telling columns", "stated"
"""Where log-likelihoods are from. A bound holds for any of them: stated ones are a score, and nothing rests on them."""
EXTREMES: Group = (0, 1)
"""The records that are told apart best, as their mechanism states it."""


@dataclass(frozen=True)
class Sample:
    """Reports of random records.

    Attributes:
        codes: the reports, [reports, columns].
        numbers: record of each report, [reports].
        stated: stated log-likelihoods of the extreme records [reports, 2]; None where none are stated.
        marks: how the reports are written, [reports, marks]; None where this says nothing more.
    """

    codes: NDArray[np.int16]
    numbers: NDArray[np.int64]
    stated: NDArray[np.float64] | None = None
    marks: NDArray[np.int16] | None = None

    @property
    def with_marks(self) -> NDArray[np.int16]:
        """The columns of the reports and the marks beside them, [reports, columns + marks]."""
        return self.codes if self.marks is None else np.hstack([self.codes, self.marks])

    def take(self, rows: NDArray[np.int64]) -> Sample:
        """Return some of the reports."""
        return Sample(
            self.codes[rows],
            self.numbers[rows],
            None if self.stated is None else self.stated[rows],
            None if self.marks is None else self.marks[rows],
        )


@dataclass(frozen=True)
class Learned:
    """Log-likelihoods of records, learned from reports: of whole reports, and as a product over their columns.

    Attributes:
        keys: sorted keys of the whole reports; none, where nearly every report is another one.
        whole: log-likelihood of each key, and 0 for a report that is new, [keys + 1, records].
        single: log-likelihoods of the codes of each column, 0 for a new one, [codes + 1, records].
        telling: log-likelihoods of the columns and marks that differ between records by more than chance, and of pairs
            of them that do so jointly, by their numbers.
        sizes: number of codes of each column, then of each mark.
    """

    keys: NDArray[np.int64]
    whole: NDArray[np.float64]
    single: tuple[NDArray[np.float64], ...]
    telling: Mapping[Places, NDArray[np.float64]] = field(default_factory=dict)
    sizes: Sequence[int] = ()

    @classmethod
    def fit(cls, sample: Sample, sizes: Sequence[int], records: int) -> Learned:
        """Learn from reports; half a report is added to each count.

        Args:
            sample: the reports.
            sizes: number of codes of each column, then of each mark.
            records: number of records.
        """
        codes, numbers = sample.codes, sample.numbers
        keys, places = np.unique(row_keys(codes), return_inverse=True)
        few = len(keys) * _FEWEST_FOR_EACH_REPORT <= len(codes)
        keys = keys if few else keys[:0]
        whole = _log_shares(places, numbers, len(keys), records) if few else np.zeros((1, records))
        single: tuple[NDArray[np.float64], ...] = ()
        if codes.shape[1] > 1:
            columns = codes.astype(np.int64).T
            single = tuple(
                _log_shares(column, numbers, size, records) for column, size in zip(columns, sizes, strict=False)
            )
        telling: dict[Places, NDArray[np.float64]] = {}
        if sample.marks is not None:
            read = sample.with_marks
            parts = enumerate(read.astype(np.int64).T)
            alone = [place for place, part in parts if _tells(part, numbers, sizes[place], records)]
            for chosen in [*((place,) for place in alone), *_telling_pairs(read, numbers, sizes, records, alone)]:
                joint, size = _joint_codes(read, chosen, sizes)
                telling[chosen] = _log_shares(joint, numbers, size, records)
        return cls(keys, whole, single, telling, sizes)

    @property
    def views(self) -> tuple[str, ...]:
        """What was learned of: whole reports, their columns, those of them and of the marks that tell records apart."""
        return (WHOLE,) * bool(len(self.keys)) + (COLUMNS,) * bool(self.single) + (TELLING,) * bool(self.telling)

    def log_likelihoods(self, sample: Sample, group: Group, view: str) -> NDArray[np.float64]:
        """Return the log-likelihoods of the records of a group, [reports, group]."""
        if view == STATED:
            assert sample.stated is not None  # noqa: S101 - a bet on them was nominated
            return sample.stated
        codes, members = sample.codes, list(group)
        if view == WHOLE:
            keys = row_keys(codes)
            places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
            places = np.where(self.keys[places] == keys, places, len(self.keys))
            return self.whole[:, members][places]
        found = np.zeros((len(codes), len(members)))
        single: dict[Places, NDArray[np.float64]] = {(place,): table for place, table in enumerate(self.single)}
        tables, codes = (self.telling, sample.with_marks) if view == TELLING else (single, codes)
        for read, log_shares in tables.items():
            found += log_shares[:, members][_joint_codes(codes, read, self.sizes)[0]]
        return found


def _log_shares(codes: NDArray[np.int64], numbers: NDArray[np.int64], size: int, records: int) -> NDArray[np.float64]:
    """Return log shares of codes by record [size + 1, records]; the last row is 0, for a code that is new."""
    counts = np.bincount(codes * records + numbers, minlength=size * records).reshape(size, records)
    shares = (counts + 0.5) / (counts.sum(axis=0) + 0.5 * size)
    return np.vstack([np.log(shares), np.zeros(records)])


def _tells(codes: NDArray[np.int64], numbers: NDArray[np.int64], size: int, records: int) -> bool:
    """Return whether codes depend on the record: Pearson's statistic is far above its mean. It only chooses."""
    counts = np.bincount(codes * records + numbers, minlength=size * records).reshape(-1, records)
    counts = counts[counts.any(axis=1)]
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    freedom = (len(counts) - 1) * (records - 1)
    statistic = ((counts - expected) ** 2 / np.maximum(expected, 1e-12)).sum()
    return bool(statistic > freedom + _DEVIATIONS * np.sqrt(2 * freedom))


def _joint_codes(codes: NDArray[np.int16], places: Places, sizes: Sequence[int]) -> tuple[NDArray[np.int64], int]:
    """Return one code for each report of some columns together, [reports], and the number of these codes."""
    joint, count = codes[:, places[0]].astype(np.int64), sizes[places[0]]
    for place in places[1:]:  # a column has a code more, for values that are new
        joint, count = joint * (sizes[place] + 1) + codes[:, place], (count + 1) * (sizes[place] + 1)
    return joint, count


def _telling_pairs(
    codes: NDArray[np.int16], numbers: NDArray[np.int64], sizes: Sequence[int], records: int, alone: Sequence[int]
) -> list[Places]:
    """Return the pairs of columns that say something of the record together, and nothing alone.

    Products of one-hot codes count the codes of all pairs at once. Pearson's statistic of a pair is above f degrees of
    freedom by more than 2 sqrt(f t) + 2 t with a chance of e^-t (Laurent and Massart 2000). It only chooses.
    """
    order = sorted((size, place) for place, size in enumerate(sizes) if 1 < size <= _MOST_CODES and place not in alone)
    total = np.cumsum([size for size, _ in order])
    paired = sorted(place for _, place in order[: int(np.searchsorted(total, _PAIRED_CODES, side="right"))])
    if len(paired) < 2:
        return []
    some, widths = slice(0, _PAIRED_REPORTS), [sizes[place] for place in paired]
    shown = np.hstack([codes[some, [place]] == np.arange(sizes[place]) for place in paired]).astype(np.float32)
    own = [shown[numbers[some] == number] for number in range(records)]
    counts = np.array([each.T @ each for each in own])
    shares = np.array([len(each) for each in own]) / len(shown)
    expected = counts.sum(axis=0) * shares[:, None, None]
    cells = ((counts - expected) ** 2 / np.maximum(expected, 1e-12)).sum(axis=0)
    starts = np.cumsum([0, *widths[:-1]])
    statistics = np.add.reduceat(np.add.reduceat(cells, starts, axis=0), starts, axis=1)
    pairs = [(i, j) for i in range(len(paired)) for j in range(i)]
    rarity = np.log(len(pairs) / _CHANCE_PAIR)
    found = []
    for i, j in pairs:
        freedom = (widths[i] * widths[j] - 1) * (records - 1)
        if (above := statistics[i, j] - freedom) > 2 * np.sqrt(freedom * rarity) + 2 * rarity:
            found.append((float(above / np.sqrt(freedom)), (paired[j], paired[i])))
    return [places for _, places in sorted(found, reverse=True)[:_MOST_PAIRS]]


@dataclass(frozen=True)
class Bet:
    """Reports for which a record is named: those with a score of at least a threshold.

    Attributes:
        group: records that the reports are drawn from.
        view: where the log-likelihoods are from.
        winner: place in the group of the only record that is named; None, where any may be.
        threshold: lowest score at which a record is named.
        promise: estimate of the epsilon, less some standard errors.
    """

    group: Group
    view: str
    winner: int | None
    threshold: float
    promise: float

    def count(self, winners: NDArray[np.int64], scores: NDArray[np.float64], own: NDArray[np.int64]) -> tuple[int, int]:
        """Return how many named records were right and wrong.

        Args:
            winners: likeliest place in the group, [reports].
            scores: score of each report, [reports].
            own: place in the group of the true record, [reports].
        """
        named = scores >= self.threshold
        if self.winner is not None:
            named &= winners == self.winner
        right = int((winners[named] == own[named]).sum())
        return right, int(named.sum()) - right


def guesses(log_likelihoods: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the likeliest place [reports] and how much likelier it is than the mean of the others, as a logarithm."""
    reports = np.arange(len(log_likelihoods))
    winners = log_likelihoods.argmax(axis=1)
    best = log_likelihoods[reports, winners]
    others = log_likelihoods.copy()
    others[reports, winners] = -np.inf
    rest = np.logaddexp.reduce(others, axis=1) - np.log(log_likelihoods.shape[1] - 1)
    with np.errstate(invalid="ignore"):  # a report that is stated to be impossible for all
        return winners, np.nan_to_num(best - rest, nan=0.0, posinf=np.inf)


def nominate(learned: Learned, sample: Sample, groups: Sequence[Group], most: int) -> list[Bet]:
    """Return the best bet on stated log-likelihoods, and those that promise most, on two groups at most.

    Args:
        learned: learned from other reports than these.
        sample: reports of all records alike.
        groups: groups of neighbouring records.
        most: number of bets.
    """
    by_record = {number: np.flatnonzero(sample.numbers == number) for group in groups for number in group}
    bets: list[Bet] = []
    for view in learned.views:
        everyone = tuple(sorted(by_record))
        likelihoods = learned.log_likelihoods(sample, everyone, view)
        for group in groups:
            rows = np.concatenate([by_record[number] for number in group])
            places = np.searchsorted(everyone, group)
            bets += _bets_of(group, view, likelihoods[rows][:, places], sample.numbers[rows], len(sample.numbers))
    chosen: list[Bet] = []
    if sample.stated is not None:  # the best bet there is, if the mechanism is what it states
        rows = np.concatenate([by_record[number] for number in EXTREMES])
        stated = _bets_of(EXTREMES, STATED, sample.stated[rows], sample.numbers[rows], len(sample.numbers))
        chosen.append(max(stated, key=lambda bet: bet.promise))
    for bet in sorted(bets, key=lambda bet: -bet.promise):
        known = {other.group for other in chosen}
        if len(chosen) < most and (bet.group in known or len(known) < _MOST_GROUPS):
            chosen.append(bet)
    return chosen


def _bets_of(
    group: Group, view: str, log_likelihoods: NDArray[np.float64], numbers: NDArray[np.int64], draws: int
) -> Iterator[Bet]:
    """Yield the best bet on any record of a group, and the best one on each of them.

    Args:
        group: numbers of the records.
        view: where the log-likelihoods are from.
        log_likelihoods: of the records of the group, [reports, group].
        numbers: record of each report, [reports].
        draws: number of draws of all records.
    """
    winners, scores = guesses(log_likelihoods)
    right = winners == np.searchsorted(group, numbers)
    # Twice as many draws will prove a bet, all of its group.
    error = _Z_CHOICE + _Z_PROOF * np.sqrt(len(numbers) / (2 * draws))
    order = np.argsort(-scores, kind="stable")
    winners, scores, right = winners[order], scores[order], right[order]
    for winner in (None, *range(len(group))):
        chosen = slice(None) if winner is None else winners == winner
        threshold, promise = _best_threshold(scores[chosen], right[chosen], error)
        yield Bet(group, view, winner, threshold, promise + float(np.log(len(group) - 1)))


def _best_threshold(scores: NDArray[np.float64], right: NDArray[np.bool_], error: float) -> tuple[float, float]:
    """Return the threshold with the highest lower end of its log-odds, and this lower end.

    Square roots of counts have a standard error of 1/2; the errors of hits and misses are divided by their variances.
    """
    if not len(scores):
        return np.inf, -np.inf
    hits = np.cumsum(right)
    misses = np.arange(1, len(scores) + 1) - hits + 1.0
    share = hits / (hits + misses)
    fewer = np.sqrt(hits) - error / 2 * np.sqrt(1 - share)
    more = np.sqrt(misses) + error / 2 * np.sqrt(share)
    ends = 2 * np.log(np.maximum(fewer, 1e-9) / more)
    ends[:-1][scores[:-1] == scores[1:]] = -np.inf  # a threshold takes all reports of one score
    best = int(ends.argmax())
    return float(scores[best]), float(ends[best])


def proven_epsilon(right: int, wrong: int, group_size: int, error: float) -> float:
    """Return the epsilon that right and wrong bets prove, but for a chance of `error`.

    >>> round(proven_epsilon(900, 100, 2, 0.01), 3)
    1.953
    >>> proven_epsilon(0, 0, 2, 0.01)
    0.0
    """
    from scipy.special import betaincinv  # slow to import, and scipy.stats slower

    if right == 0:
        return 0.0
    share = float(betaincinv(right, wrong + 1, error))
    return max(0.0, float(np.log(share) - np.log1p(-share) + np.log(group_size - 1))) if share < 1 else float("inf")
