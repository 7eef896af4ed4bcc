"""The participant's client, in one file of the standard library.

Copy this file into any program; it needs nothing else of veilgraph. It does not trust the campaign: before it reads
the record, it checks the campaign's id, its integer tables and the guarantee that they give. It shares no code with
the program that wrote the campaign.

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

A series of waves reports each question by L-GRR. In the first wave it chooses m of the d features, which stay chosen.
In every wave it reports the chosen features in order, then the label, each as follows. If a value occurs for the first
time, one word by the question's table decides its permanent answer, which is kept. The series says how many values are
answered; one beyond these counts as the value before. Then one word, by the question's table of the waves, decides the
report from the permanent answer. A feature that is left out has a value of its own, whose permanent answer is a number
below its domain size. The others are not reported.

The mechanisms of the package on one row, and the browser's module, take the same words in the same order.

A wave about private neighbours reports a list by one of three mechanisms. Two of them add up what is published about
the people in the list, one whole number for each class, and report these sums:

- The class takes, of the n classes with the largest sum, the one that a number below n names, in ascending order. Then
  it reports this class by subset selection.
- The histogram goes through the classes in order. It counts the words below `more` until one is not, and then does so
  again. It adds the first number to the sum, and takes the second one off. Sums are cut at the cap before that, and
  counts at the largest count after it.

The third reports the list itself:

- The randomized list goes through all people, in the order of their rows in the published file. One word for each, by
  its table of the value 1 for a neighbour and 0 for everybody else, decides the reported value. The person's own row is
  like every other one. The answer is the reported values as text: eight to a byte, row 0 in the lowest bit of the first
  byte, and the bytes in base64url without padding. So all lists have one length.

The browser's module takes the same words; the package draws many lists at once, in another order.

**In turns.** A series about private neighbours may ask each person in one of its T waves: `turn_of` says which, from
the person's id alone, so everybody can compute it. A device answers no other wave of the series, and none after the
first that it has answered, whatever later documents say about turns. So the answers of a person cost what the dearest
wave costs, and not what all waves cost together.

**What is sent has one length.** Who watches the network sees how long a message is. So spaces follow a report, up to
the length of the longest one that its campaign allows, and the id counts as a multiple of 256 bytes: the length tells
nothing of what is answered, nor whether an answer is left out.

**An answer that is left out costs no hidden bit.** Let M(r | v) be the probability of a report r under the value v of
one feature. The other values are given. For a feature that is left out, r has the probability
M(r | none) = (M(r | 0) + ... + M(r | k - 1)) / k. A mean lies between the least and the largest of its terms. So
M(r | none) / M(r | v) and M(r | v) / M(r | none) are at most max over u, w of M(r | u) / M(r | w), which is at most
exp(epsilon): "none" raises neither the user level nor an attribute level. Both mechanisms treat all values of a feature
alike, so its report is exactly uniform, and independent of all other reports: pure chance. In a series the permanent
answer takes the place of the report, and what is left out is one more value of a history: the epsilons count it.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import ipaddress
import json
import os
import re
import secrets
import ssl
import sys
import time
import unicodedata
import urllib.error
import urllib.parse
import urllib.request
import warnings
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, Decimal, localcontext
from email.utils import parsedate_to_datetime
from fractions import Fraction
from functools import cache, lru_cache
from itertools import accumulate, combinations, pairwise, product
from math import comb, prod
from operator import sub
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, TypeGuard, TypeVar

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

try:
    from veilgraph.errors import CampaignError, DomainError, RunError, SendError
except ImportError:  # without the package

    class CampaignError(ValueError):  # type: ignore[no-redef]
        """A campaign that must not be answered."""

    class DomainError(ValueError):  # type: ignore[no-redef]
        """A private value outside its declared domain; the message names the column, never the value."""

    class RunError(Exception):  # type: ignore[no-redef]
        """A folder of reports that cannot be used."""

    class SendError(Exception):  # type: ignore[no-redef]
        """A report that could not be sent."""


__all__ = [
    "CampaignError",
    "ClockWarning",
    "DomainError",
    "DrawnReport",
    "Ledger",
    "NoticeWarning",
    "Receipt",
    "RunError",
    "SendError",
    "WithdrawalReceipt",
    "answer",
    "answer_neighbours",
    "answered",
    "check_receipt",
    "encode",
    "fetch",
    "ledger",
    "randomize",
    "send",
    "set_limit",
    "turn_of",
    "verify",
    "withdraw",
]

WORD_BITS = 53
WORDS = 2**WORD_BITS

Word = Callable[[], int]
Codes = tuple[int, ...]
Answers = tuple[int | None, ...]
ReportedFeatures = tuple[int | None, ...]
ReportedLabel = int | Codes
T = TypeVar("T")

_MAX_CAMPAIGN_LENGTH = 64 * 2**20
_MAX_DEPTH = 16  # levels of JSON; no document of a campaign has more than 7
_MAX_FEATURES = 2**14
_MAX_STEPS = 1_000_000
_MAX_JOINT_SIZE = 2**16
_MAX_WAVES = 36
_BYTES_OF_TURN = slice(30, 32)  # of the hash of an id: those after the bytes that the file of people uses
_MAX_KINDS_OF_SERIES = 16
_MOST_DIVISIONS = 4_000
_MAX_COUNT = 2**15 - 1
_MAX_CAP = 2**31 - 1
_MAX_LISTED_PEOPLE = 50_000  # a randomized list takes a word for each of them, and a collector a bit for every two
_MAX_NOISE_WORDS = 2**17  # expected words of one geometric variable, which a device draws in a moment
_BELIEFS = 2**16
_FINEST_SCALE = 60
_TABLE_MAGIC = b"veilgraph-beliefs-1\n"
_PEOPLE_MAGIC = b"veilgraph-people-1\n"
_PER_BUCKET = 16
_PARTS_OF_HASH = 8
_MAX_TEXT_LENGTH = 4000
_TIME = "%Y-%m-%dT%H:%M:%SZ"
# Control, bidirectional and invisible characters could hide what a campaign says; the campaign format lists them.
_MISLEADING = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\uffff"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    r"|(?<![^\x00-\x7f])[\u200c\u200d\ufe0e\ufe0f]|[\u200c\u200d](?![^\x00-\x7f])"
)
_SPACES = re.compile("[ \u1680]+")  # NFKC makes U+0020 of all others
_UNSEEN = re.compile("[\u200c\u200d\ufe0e\ufe0f]")
# Tolerance of stated epsilons, relative above 1: they are doubles as text, which agree far better with the exact ones.
_TOLERANCE = Decimal("1e-9")

_NOTICE_KEYS = "closes contact language note purpose retention texts version wave"
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}")
_JSON_TEXT = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")
_NUMBER = re.compile(r"-?(Infinity|[0-9]+(\.[0-9]+)?(e[+-][0-9]+)?)")
_ENTERED_NUMBER = re.compile(r" *[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)? *")
_KEPT_NAME = re.compile(r"[0-9a-f]{64}(\.[0-9a-f]{32})?\.json")
_LIMIT_NAME = "limit.json"
_DRAFT_NAME = re.compile(r"\.([0-9a-f]{64}(\.[0-9a-f]{32})?(\.memory)?|limit)\.json\.[0-9a-f]{16}\.part")
_COST = re.compile(r"[0-9]{1,30}(\.[0-9]{1,30})?")
_BASE64 = re.compile(r"[A-Za-z0-9_-]*")
_CLOCKS_DIFFER = timedelta(minutes=5)
_ID_STEP = 256  # bytes of an id's text to whose next multiple its part of a report counts
_MAX_TABLE_EPSILON = Decimal("36.74")  # above ln(2**53), the largest epsilon that an integer table can have
_RETRIED_STATUSES = {408, 429, 500, 502, 503, 504, 507}  # the same report may be sent twice
_MAX_PAUSE_SECONDS = 300.0
_MAX_ANSWER_LENGTH = 2**16
_MAX_PUBLISHED_LENGTH = 2**30
_PIECE_LENGTH = 2**18
_FETCHED_NAME = "campaign.json"
_PLAIN = re.compile(r"[!-~]{1,1000}")
_REFUSALS = {
    **dict.fromkeys((301, 302, 303, 307, 308), "the address leads elsewhere: give the one that it leads to"),
    400: "the collector could not read the report",
    401: "the token is not this node's; ask the campaign's contact for it",
    403: "the token is not this node's; ask the campaign's contact for it",
    404: "the collector has no such address, or knows no such node",
    409: "another report of this node was stored before: the first one counts, and a second is never accepted",
    410: "the campaign is closed: no report is accepted any more",
    413: "the report is too large for the collector",
    422: "the report does not fit the collector's campaign; is it the campaign that you answered?",
}


class Notice(NamedTuple):
    """The part of a campaign that may change; reports are not bound to it, and each change raises its version."""

    version: int
    sha256: str
    """SHA-256 of its canonical form."""
    purpose: str
    contact: str
    closes: datetime
    retention: datetime | None
    """Time after which the organiser promises to delete the reports."""
    note: str
    wave: int | None
    texts: Mapping[str, Any]
    """Texts by language, for a program that shows the questions."""
    language: str | None
    """The language for people of all others; None without texts."""


class PublicGraph(NamedTuple):
    """What a campaign says about the public graph: a series keeps it in all its documents."""

    nodes: int
    sha256: str


class Question(NamedTuple):
    """A verified campaign: the questions, and the integer tables that protect the answers."""

    id: str
    graph: PublicGraph
    columns: tuple[dict[str, Any], ...]
    group: int
    label_name: str
    classes: tuple[str, ...]
    features: SampledFeatures | JointFeatures | SeriesFeatures | None
    label: Table | SetTable | Series | None
    notice: Notice
    epsilon: Decimal
    """Epsilon that the tables give: user level (any two records), features and label together.

    The record of a series is a history, and this is the epsilon of all waves for any two histories.
    """
    waves: Waves | None = None
    """The waves of a series; None for a campaign that asks once."""
    neighbours: NeighbourWave | None = None
    """The question about a neighbour list; None for a campaign that asks for features or a label."""

    @property
    def closes(self) -> datetime:
        """Time until which reports are accepted."""
        return self.notice.closes

    @property
    def longest_report(self) -> dict[str, Any]:
        """A report whose text is as long as that of any report of the campaign, about a node without a name."""
        report: dict[str, Any] = {"campaign": self.id, "node": ""}
        if self.neighbours is not None:
            return report | {"answer": self.neighbours.mechanism.longest}
        features = None if self.features is None else self.features.longest
        label = None if self.label is None else _longer(self.label.longest, None)
        return report | {"features": features, "label": label} | ({"wave": self.waves.number} if self.waves else {})


class DrawnReport(dict[str, Any]):
    """A report as JSON values, and how long it is when it is sent, which is the same for all reports of a campaign."""

    def __init__(self, report: Mapping[str, Any], length: int) -> None:
        super().__init__(report)
        self.length = length

    @property
    def text(self) -> str:
        """What is sent: the canonical form, with spaces after it."""
        return _canonical(self).ljust(self.length)

    @classmethod
    def read(cls, text: str | bytes) -> DrawnReport:
        """Read what `text` returned, with or without a line break after it. Its spaces say how long it is."""
        report = None
        with suppress(ValueError):
            report = _read_json(text)
        if not isinstance(report, dict):
            raise RunError("it is no report: give the text of one that was drawn")
        return cls(report, len(text.rstrip(b"\r\n") if isinstance(text, bytes) else text.rstrip("\r\n")))


class Memory(NamedTuple):
    """What a device remembers of a series. It is private: permanent answers are kept by value."""

    answers: Mapping[int, int] = {}
    """Permanent answer of each value of the label that was answered."""
    current: int = -1
    """The value that was answered last."""
    reports: Mapping[int, int] = {}
    """Report of each wave that was answered."""
    features: Mapping[int, Memory] = {}
    """The same for each feature that was chosen; a value that equals the domain size stands for one left out."""

    @property
    def waves(self) -> set[int]:
        """Numbers of the waves that were answered."""
        return set(self.reports).union(*(feature.reports for feature in self.features.values()))


class SeenNotice(NamedTuple):
    """A notice that the person saw: what they agreed to, if it is the first of a report."""

    version: int
    sha256: str
    purpose: str
    retention: str | None
    """Time after which the organiser promised to delete the reports, in UTC."""
    seen: str
    """The day, such as 2027-01-31."""


class ListCost(NamedTuple):
    """Epsilons of an answer about a neighbour list."""

    any_lists: Decimal
    """For two lists of any length; infinite if whole lists are not protected."""
    one_entry: Decimal
    """For two lists, one with a neighbour more. A relationship that both ends report costs twice as much."""


class Answered(NamedTuple):
    """One report of this device: its campaign, its node, and its epsilon at user level, as `relation` says."""

    campaign: str
    node: str
    epsilon: Decimal
    """What counts against the limit: of a report, for any two records; of an answer about neighbours, for any two
    lists, or 0 if whole lists are not protected."""
    notices: tuple[SeenNotice, ...] = ()
    """Notices that the person saw, the first one when they answered; empty if an earlier version drew the report."""
    list_cost: ListCost | None = None
    """What an answer about the neighbour list costs; None for every other report."""

    @property
    def relation(self) -> str:
        """Pairs that the epsilon protects from each other, in words."""
        return _relation([self.list_cost])


class Ledger(NamedTuple):
    """Everything that a device has answered, over all campaigns and series, and the person's own limit."""

    entries: tuple[Answered, ...]
    limit: Decimal | None
    """The most that the person accepts for all reports together: user level, as `relation` says."""
    entry_limit: Decimal | None = None
    """The most that the person accepts for one entry of their neighbour list, over all waves; None if none is set."""

    @property
    def spent(self) -> Decimal:
        """Sum of the epsilons of all reports, which the limit is for: user level, as `relation` says."""
        return _total(entry.epsilon for entry in self.entries)

    @property
    def relation(self) -> str:
        """Pairs that the sum protects from each other, in words: records, and lists where an answer protects them."""
        return _relation([entry.list_cost for entry in self.entries])

    @property
    def spent_with_same_list(self) -> Decimal:
        """Sum of the epsilons of all reports: user level, any two records with the same neighbour list.

        An answer about the list adds nothing: it depends on the list alone.
        """
        return _total(entry.epsilon for entry in self.entries if entry.list_cost is None)

    @property
    def spent_on_one_entry(self) -> Decimal:
        """Sum of the epsilons of all answers about the neighbour list: two lists, one with a neighbour more."""
        return _total(entry.list_cost.one_entry for entry in self.entries if entry.list_cost)

    @property
    def protects_lists(self) -> bool:
        """Whether all answers together protect whole neighbour lists."""
        return all(entry.list_cost is None or entry.list_cost.any_lists.is_finite() for entry in self.entries)


def _relation(lists: Sequence[ListCost | None]) -> str:
    """Say what a sum of epsilons at user level is about.

    Args:
        lists: of each report what it costs if it is about the neighbour list, else None.
    """
    costs = [cost.any_lists for cost in lists if cost is not None]
    if not costs:
        return "any two records"
    if all(cost.is_finite() for cost in costs):
        return "any two records with any two lists"
    if not any(cost.is_finite() for cost in costs):
        return "any two records with the same neighbour list"
    return "any two records with any two lists, without the answers that do not protect whole lists"


class ClockWarning(UserWarning):
    """The clock of this device is wrong, or that of the collector."""


class NoticeWarning(UserWarning):
    """A notice promises less than the one that the person agreed to."""


@dataclass(frozen=True, kw_only=True)
class _Statement:
    """What the collector signed about a node; true if it happened now, and not before.

    The signature is the collector's: only a holder of its keys can check it, and could also have made it. So it helps
    to find a report that was lost, and proves nothing to others.
    """

    campaign: str
    node: str
    signature: str
    is_new: bool

    def __bool__(self) -> bool:
        return self.is_new

    @property
    def document(self) -> dict[str, str]:
        """The receipt as JSON values, to keep."""
        return {key: value for key, value in vars(self).items() if key != "is_new"}


@dataclass(frozen=True, kw_only=True)
class Receipt(_Statement):
    """The collector's signed statement that it stored a report; true if the report was stored now, not before."""

    report_sha256: str
    stored: str
    """The hour in which the report was stored, such as 2027-01-31T17:00:00Z."""


@dataclass(frozen=True, kw_only=True)
class WithdrawalReceipt(_Statement):
    """The collector's signed statement that it deleted a node's reports; true if that was now, and not before."""

    withdrawn: str
    """The hour from which nothing of the node is stored, such as 2027-01-31T17:00:00Z."""


# --- The report ------------------------------------------------------------------------------------------------------


def answer(
    campaign: str | bytes,
    record: Mapping[str, Any],
    *,
    node: str,
    store: str | os.PathLike[str],
    max_epsilon: float | None = None,
    shared_device: bool = False,
    now: datetime | None = None,
) -> DrawnReport:
    """Return the report of one person. It is drawn once and stored; later calls return the same report.

    The campaign is checked before the record is read. It is refused if it is altered or closed, or if its tables do
    not give the guarantee that it states. It is refused, too, if all reports in the store together would exceed the
    person's limit, or if the device has seen a later notice of it. One store answers a campaign once, whatever node it
    is invited as, because an organiser can invent nodes. If it holds the report of this node, the record is not read at
    all: a second draw would reveal more.

    Of a series, the open wave is answered, from permanent answers in the store. The cost of all waves is counted when
    the first is answered, whatever happens later.

    Args:
        campaign: the campaign's JSON.
        record: a raw value for each column of the schema, and the class under the label's name. None as a value leaves
            the question out: its report is pure chance, and nobody can tell. None as the class leaves the label out,
            which is visible and not protected.
        node: the person's node in the public graph.
        store: a permanent folder on the device.
        max_epsilon: the most that the person accepts for all reports in the store together: user level (any two
            records), features and label. Default: the limit that `set_limit` keeps; it is never exceeded.
        shared_device: let another person answer a campaign that this device has answered. The cost is counted again:
            if it is the same person, both reports together reveal that much.
        now: the time; default: the device's clock.

    Returns:
        The report as JSON values, for `send`.
    """
    private = _Private(record)
    del record
    question = verify(campaign, max_epsilon=float("inf") if max_epsilon is None else max_epsilon, now=now)
    if question.neighbours is not None:
        raise CampaignError("the campaign asks about neighbours: answer it with answer_neighbours (--neighbours)")
    check_node(node)
    with _locked(Path(store)) as folder:
        limit = _limit(folder, max_epsilon)
        drawn = _reports_of(question, folder, _seen(question.notice, now))
        if node in drawn:
            report = _report_of_wave(question, drawn[node], folder, private) if question.waves else drawn[node]
            return _to_send(question, report)
        if drawn and shared_device is not True:
            raise _another_node()
        _check_sum(_kept_reports(folder), question, limit)
        report = {"campaign": question.id, "node": node, "features": None}
        if question.waves:
            report = _report_of_wave(question, report, folder, private, is_first=True)
        else:
            codes, reported = _withhold_details(lambda: randomize(question, *encode(question, private.value)))
            report["features"] = None if codes is None else list(codes)
            report["label"] = list(reported) if isinstance(reported, tuple) else reported
        kept = _keep(question, report, folder, _seen(question.notice, now), is_first=not drawn)
    return _to_send(question, kept)


def _to_send(question: Question, report: Mapping[str, Any]) -> DrawnReport:
    """Return a report of a campaign with the length that all of them have."""
    steps = -(-len(_canonical(report["node"])[1:-1]) // _ID_STEP)
    return DrawnReport(report, len(_canonical(question.longest_report)) + steps * _ID_STEP)


def answer_neighbours(
    campaign: str | bytes,
    neighbours: Iterable[str],
    *,
    table: bytes | None,
    people: bytes,
    node: str,
    store: str | os.PathLike[str],
    max_epsilon: float | None = None,
    max_entry_epsilon: float | None = None,
    shared_device: bool = False,
    unlisted: Callable[[tuple[str, ...]], None] = lambda names: None,
    now: datetime | None = None,
) -> DrawnReport:
    """Return the answer of one person to a wave about their neighbours. It is drawn once and stored, as by `answer`.

    The wave is checked before the list is read: its document, the person's turn, and its place in the series that this
    device has answered. Then come the person's limits, what is published, and whether the person is among the people.
    So no refusal that the organiser could cause depends on the list.
    A neighbour who is not among the people adds nothing, and `unlisted` is told so after the draw: a refusal would tell
    the organiser, who chooses the people, who is in the list. One id in a million passes for another one. A list above
    the cap is cut as the mechanism says.

    Args:
        campaign: the JSON of the wave's document.
        neighbours: ids of the neighbours, in any order; one that is named twice counts once. An empty list is a list.
        table: the published belief table; None for a randomized list, which has none.
        people: the published file of all people.
        node: the person's own id, which the file of people must have.
        store: a permanent folder on the device.
        max_epsilon: the most that the person accepts for all reports in the store together, as for `answer`. Lists
            count where an answer protects whole lists.
        max_entry_epsilon: the most that the person accepts for one entry of the list, over all waves in the store.
            Default: the limit that `set_limit` keeps. Without one, only answers that protect whole lists are given.
        shared_device: let another person answer a campaign that this device has answered.
        unlisted: takes the neighbours who are not among the people, once the answer is drawn and kept. They are
            private: show them to the person, and to nobody else.
        now: the time; default: the device's clock.

    Returns:
        The report as JSON values, for `send`.
    """
    private = _PrivateList(neighbours)
    del neighbours
    question = verify(campaign, max_epsilon=float("inf") if max_epsilon is None else max_epsilon, now=now)
    asked = _asked(question)
    if asked.turn_of(check_node(node)) != asked.wave:
        People.read(people, asked).check_person(node)  # a mistyped id has a turn, too, which is nobody's
        raise asked.not_the_turn_of(node)
    with _locked(Path(store)) as folder:
        limit, entry_limit = _limit(folder, max_epsilon), _entry_limit(folder, max_entry_epsilon)
        drawn = _reports_of(question, folder, _seen(question.notice, now))
        if node in drawn:
            return _to_send(question, drawn[node])
        before = _kept_reports(folder)
        _check_series(question, node, before, shared_device=shared_device is True)
        _check_sum(before, question, limit)
        _check_entries(before, asked.cost, entry_limit)
        known, look_up = _reader(table, people, question, node)
        private = _withhold_details(lambda: _PrivateList(_neighbour_names(private.value)))
        reported = _withhold_details(lambda: asked.mechanism.report(look_up(private.value), _system_word))
        report = {"campaign": question.id, "node": node, "answer": reported}
        kept = _keep(question, report, folder, _seen(question.notice, now), is_first=not drawn)
    unlisted(known.unlisted(private.value))
    return _to_send(question, kept)


def _neighbour_names(neighbours: Iterable[str]) -> tuple[str, ...]:
    """Read a neighbour list; refuse an entry that is no text, whatever is published."""
    names = tuple(neighbours)
    if not all(isinstance(name, str) for name in names):
        raise DomainError("a neighbour is not named by text (value withheld)")
    return names


def _reader(
    table: bytes | None, people: bytes, question: Question, node: str
) -> tuple[People, Callable[[Iterable[str]], Codes]]:
    """Check what is published for a wave, and that the person is in it.

    Returns:
        The people, and the function that turns a list into what is reported: rows or sums.
    """
    asked = _asked(question)
    if asked.table is None:
        if table is not None:
            raise CampaignError(f"wave {asked.wave} has no belief table: give table=None (leave --table out)")
        known = People.read(people, asked)
        known.check_person(node)
        return known, known.rows
    if table is None:
        raise CampaignError(f"wave {asked.wave} has a belief table, and none is given: get it, and give it, too")
    beliefs = Beliefs.read(table, people, question)
    beliefs.people.check_person(node)
    return beliefs.people, beliefs.sums


def _asked(question: Question) -> NeighbourWave:
    if question.neighbours is None:
        raise CampaignError("the campaign does not ask about neighbours: answer it from a record")
    return question.neighbours


def _keep(
    question: Question, report: dict[str, Any], folder: Path, seen: SeenNotice, *, is_first: bool
) -> dict[str, Any]:
    """Store a report that was drawn now, and return it as it is stored."""
    node, asked = report["node"], question.neighbours
    hashed = "" if is_first else f".{hashlib.sha256(node.encode()).hexdigest()[:32]}"
    wave = None if asked is None else KeptWave(asked.series, asked.wave, asked.cost, asked.turns, asked.people)
    path = folder / f"{question.id}{hashed}.json"
    _write(_Kept(path, report, question.epsilon, (seen,), question.graph, wave=wave))
    if node not in (drawn := _reports_of(question, folder, seen)):
        raise RunError(f"the report was removed from {folder} while it was written; nothing was sent")
    return drawn[node]


def _another_node() -> CampaignError:
    return CampaignError(
        "this device has answered the campaign as another node: one device answers a campaign once. If another "
        "person shares it, answer with shared_device=True (--shared-device), which counts the cost again"
    )


def answered(store: str | os.PathLike[str]) -> tuple[Answered, ...]:
    """Return what this device has answered, with its cost; `answer` adds the costs up against the limit."""
    return ledger(store).entries


def ledger(store: str | os.PathLike[str]) -> Ledger:
    """Return the ledger of a device: all that it has answered, and the limit; refuse one that cannot be read."""
    if not Path(store).exists():
        return Ledger((), None)
    with _locked(Path(store)) as folder:
        entries = (
            Answered(
                kept.report["campaign"],
                kept.report["node"],
                kept.epsilon,
                kept.notices,
                None if kept.wave is None else kept.wave.cost,
            )
            for kept in _kept_reports(folder)
        )
        limits = _kept_limits(folder)
        return Ledger(tuple(entries), limits.get("limit"), limits.get("entry_limit"))


def set_limit(store: str | os.PathLike[str], limit: float | None = None, *, entry_limit: float | None = None) -> None:
    """Keep the person's limits; one that is not given stays as it is.

    Args:
        store: a permanent folder on the device.
        limit: the most that the person accepts for all reports in the store: user level (any two records; lists count
            where an answer protects whole lists).
        entry_limit: the most that the person accepts for one entry of their neighbour list, over all waves: two lists,
            one with a neighbour more. With it, answers that do not protect whole lists are given, too.
    """
    given = {name: value for name, value in (("limit", limit), ("entry_limit", entry_limit)) if value is not None}
    for value in given.values():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
            raise CampaignError(f"the limit is {value!r}: give a number above 0")
    with _locked(Path(store)) as folder:
        kept = _kept_limits(folder)  # one that cannot be read is not replaced
        limits = kept | {name: Decimal(repr(float(value))) for name, value in given.items()}
        stated = {name: f"{value:f}" for name, value in limits.items()}
        _write_text(folder / _LIMIT_NAME, _canonical(stated), replace=True)


def encode(question: Question, record: Mapping[str, Any]) -> tuple[Answers | None, int | None]:
    """Return the codes of the features and of the label; refuse undeclared values, naming only the column.

    The code of a question that is left out is None, and so is that of merged columns if one of them is left out.
    """
    private = _Private(record)
    del record
    return _withhold_details(lambda: _encode(question, private.value))


def _encode(question: Question, record: Mapping[str, Any]) -> tuple[Answers | None, int | None]:
    features = label = None
    if question.features is not None:
        codes = [encode_value(column, record) for column in question.columns]
        starts = range(0, len(codes), question.group)
        features = tuple(_merged_code(codes[start : start + question.group]) for start in starts)
    if question.label is not None:
        label = encode_value({"name": question.label_name, "values": question.classes}, record)
    if features is None and label is None:
        raise DomainError("the record leaves out everything that is asked")
    return features, label


def _merged_code(codes: Sequence[int | None]) -> int | None:
    """Return the OR of the columns of a feature; None if one is left out."""
    given = [code for code in codes if code is not None]
    return max(given) if len(given) == len(codes) else None


def randomize(
    question: Question, features: Answers | None, label: int | None, *, word: Word | None = None
) -> tuple[ReportedFeatures | None, ReportedLabel | None]:
    """Randomize codes, with words in the order that this file's docstring defines.

    Args:
        question: a verified campaign.
        features: the codes of the features, None for one that is left out; or None.
        label: the code of the label, or None.
        word: source of words; default: the operating system. Other sources are for tests.

    Returns:
        A code for each feature, or None for one that is not asked; and the code of a class, or the codes of a set.
    """
    word = word or _system_word
    if isinstance(question.label, Series) or isinstance(question.features, SeriesFeatures):
        raise CampaignError("a series is reported wave by wave")
    reported = None
    if features is not None and question.features is not None:
        pairs = zip(features, question.features.sizes, strict=True)
        values = tuple(uniform_below(size, word) if code is None else code for code, size in pairs)
        reported = question.features.report(values, word)
    response = None if label is None or question.label is None else question.label.report(label, word)
    return reported, response


def randomize_wave(
    question: Question, memory: Memory, features: Answers | None, label: int | None, *, word: Word | None = None
) -> Memory:
    """Return the memory with the report of the open wave about codes; an answered wave is never drawn again.

    A value beyond those that the series answers counts as no change. Refusing it would reveal the change.
    """
    wave, word = _open_wave(question, memory), word or _system_word
    if wave in memory.waves:
        return memory
    chosen = memory.features
    if isinstance(question.features, SeriesFeatures) and features is not None:
        series = question.features.series
        if not chosen:
            taken = choose(question.features.sampled, len(series), word)
            chosen = {i: Memory() for i, is_taken in enumerate(taken) if is_taken}
        chosen = {i: series[i].answer(kept, features[i], wave, word) for i, kept in chosen.items()}
    if isinstance(question.label, Series) and label is not None:
        memory = question.label.answer(memory, label, wave, word)
    return memory._replace(features=chosen)


def _open_wave(question: Question, memory: Memory) -> int:
    """Return the number of the open wave; refuse a wave before one that was answered."""
    wave = question.notice.wave
    if question.waves is None or wave is None:
        raise CampaignError("no wave of the campaign is open")
    if wave not in memory.waves and wave < max(memory.waves, default=0):
        raise CampaignError(f"wave {wave} is over: this device has answered a later one")
    return wave


def _system_word() -> int:
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


# --- The mechanisms --------------------------------------------------------------------------------------------------


class Table(NamedTuple):
    """Randomized response (GRR): the number of words that report the true value, and each other value."""

    domain_size: int
    true: int
    other: int

    @property
    def odds(self) -> Fraction:
        """Largest ratio of the probabilities of a report under two values: exp(epsilon)."""
        return Fraction(self.true, self.other)

    @property
    def user_level(self) -> Decimal:
        """Epsilon at user level (any two records)."""
        return _log(self.odds)

    @property
    def longest(self) -> int:
        """A report that no other one is longer than, as text."""
        return self.domain_size - 1

    def report(self, value: int, word: Word) -> int:
        """Report one value."""
        surplus = word() - self.true
        return value if surplus < 0 else (value + 1 + surplus // self.other) % self.domain_size

    def fits(self, reported: object) -> bool:
        """Return whether something read back is a report of this table."""
        return _are_codes([reported], [self.domain_size])


class SetTable(NamedTuple):
    """Subset selection: the number of words for which a set of `size` classes holds the true class, or does not."""

    domain_size: int
    size: int
    inside: int
    outside: int

    @property
    def odds(self) -> Fraction:
        """Largest ratio of the probabilities of a set under two classes: exp(epsilon).

        Sets that hold the true class are equally likely, and so are those that do not.
        """
        return Fraction(self.inside * (self.domain_size - self.size), self.outside * self.size)

    @property
    def user_level(self) -> Decimal:
        """Epsilon at user level (any two records)."""
        return _log(self.odds)

    @property
    def longest(self) -> Codes:
        """A report that no other one is longer than, as text."""
        return tuple(range(self.domain_size - self.size, self.domain_size))

    def report(self, value: int, word: Word) -> Codes:
        """Report a set of classes, in ascending order."""
        held = word() < self.inside
        others = [code for code in range(self.domain_size) if code != value]
        chosen = choose(self.size - held, len(others), word)
        drawn = [code for code, taken in zip(others, chosen, strict=True) if taken]
        return tuple(sorted([*drawn, value] if held else drawn))

    def fits(self, reported: object) -> bool:
        """Return whether something read back is a report of this table."""
        return (
            isinstance(reported, list)
            and _are_codes(reported, [self.domain_size] * self.size)
            and all(low < high for low, high in pairwise(reported))
        )


class Waves(NamedTuple):
    """The waves of a series: their number, and how many different values of each question are answered."""

    number: int
    values: int
    costs: Mapping[str, Decimal]
    """Epsilons of all waves, features and label together, by the relation between two histories."""


class Series(NamedTuple):
    """A question in several waves (L-GRR): a permanent answer for each value, and in each wave a report about it."""

    permanent: Table
    wave: Table
    waves: int
    values: int
    optional: bool
    """Whether the answer may be left out, which counts as one more value."""

    @property
    def terms(self) -> tuple[Sequence[Decimal], ...]:
        """Terms 1 + s ((p2 / q2)**n - 1) for n = 0 to W; s is p1, q1, or the chance of an answer that is left out."""
        with localcontext(prec=60):
            shares = (Decimal(self.permanent.true) / WORDS, Decimal(self.permanent.other) / WORDS)
            odds = Decimal(self.wave.true) / self.wave.other
            return tuple(
                [1 + share * (odds**n - 1) for n in range(self.waves + 1)]
                for share in (*shares, 1 / Decimal(self.permanent.domain_size))
            )

    @property
    def longest(self) -> int:
        """A report that no other one is longer than, as text."""
        return self.wave.longest

    @property
    def costs(self) -> Mapping[str, Decimal]:
        """Epsilons of all waves, by the relation between two histories."""
        return _series_costs(self)

    @property
    def user_level(self) -> Decimal:
        """Epsilon at user level: any two histories."""
        return self.costs["any_histories"]

    def answer(self, memory: Memory, value: int | None, wave: int, word: Word) -> Memory:
        """Return the memory of a question with the report of a wave about a value, or about none."""
        answers, left_out = dict(memory.answers), self.permanent.domain_size
        code = left_out if value is None else value
        if code not in answers and len(answers) >= self.values:
            code = memory.current
        if code not in answers:
            answers[code] = uniform_below(left_out, word) if code == left_out else self.permanent.report(code, word)
        return Memory(answers, code, {**memory.reports, wave: self.wave.report(answers[code], word)})

    def fits(self, reported: object) -> bool:
        """Return whether something read back is a report of a wave."""
        return self.wave.fits(reported)


@lru_cache(maxsize=256)
def _series_costs(series: Series) -> Mapping[str, Decimal]:
    """Return the epsilons of a question by relation.

    With x = (p2 / q2)**n - 1 for n equal reports, a value costs ln((1 + p1 x) / (1 + q1 x)).
    """
    waves, groups = series.waves, min(series.values, series.waves)
    with localcontext(prec=60):
        single = [(own / other).ln() for own, other in zip(*series.terms[:2], strict=True)]
        return {
            "unchanged": single[waves],
            "same_pattern": max(sum(single[n] for n in sizes) for sizes in _partitions(waves, groups)),
            "any_histories": _any_histories(series, groups) if groups > 1 else single[waves],
        }


def _any_histories(series: Series, groups: int) -> Decimal:
    """Return the largest log-ratio of the probabilities of all reports under any two histories.

    Sizes are the numbers of equal reports. The likeliest history gives the most frequent reports a value each; the
    least likely one divides all of them among values that they do not name, as long as there are any.
    """
    own, other, _ = series.terms
    size = series.permanent.domain_size

    def most(sizes: tuple[int, ...]) -> Decimal:
        named = prod((own[n] for n in sizes[:groups]), start=Decimal(1))
        if len(sizes) <= groups:
            return named
        named_sum = sum((own[n] for n in sizes[:groups]), Decimal(0))
        mean = (named_sum + sum(other[n] - 1 for n in sizes[groups:])) / groups
        agreeing = (Decimal(series.wave.true) / series.wave.other) ** sum(sizes[:groups])
        return min(named * prod((other[n] for n in sizes[groups:]), start=Decimal(1)), mean**groups, agreeing)

    bounds = []
    for sizes in _partitions(series.waves, size):
        above = most(sizes)
        bounds.append((above / _unnamed(other, sizes, groups), above, sizes))
    found = Decimal(1)
    for bound, above, sizes in sorted(bounds, reverse=True):
        if bound <= found:
            break
        found = max(found, above / _least(series, sizes, groups))
    return found.ln()


def _unnamed(other: Sequence[Decimal], sizes: Sequence[int], groups: int) -> Decimal:
    """Return the least probability of reports about `groups` values that no report names: they share evenly."""
    return prod(
        (sum((other[(n + i) // groups] for n in sizes), Decimal(1 - len(sizes))) for i in range(groups)),
        start=Decimal(1),
    )


def _least(series: Series, sizes: tuple[int, ...], groups: int) -> Decimal:
    """Return the least probability of reports: values that they name take a part, the unnamed ones the rest."""
    own, other, uniform = series.terms
    unnamed = min(series.permanent.domain_size - len(sizes), groups)
    parts = groups - max(unnamed, 1)
    if prod(comb(n + parts, parts) for n in sizes) > _MOST_DIVISIONS:
        return _unnamed(other, sizes, groups)
    # The number of equal reports of each value that may be a value of the history; None is an answer left out.
    columns: list[int | None] = [*([None] if series.optional else []), *range(len(sizes))]

    @cache
    def probability(value: int | None, counts: tuple[int, ...]) -> Decimal:
        terms = (uniform if value is None else own if i == value else other for i in range(len(counts)))
        return sum((term[n] for term, n in zip(terms, counts, strict=True)), Decimal(1 - len(counts)))

    @cache
    def least(values: tuple[int | None, ...], rest: tuple[int, ...]) -> Decimal:
        if not values:
            return _unnamed(other, rest, unnamed)
        if not unnamed and len(values) == 1:
            return probability(values[0], rest)
        return min(
            probability(values[0], taken) * least(values[1:], tuple(map(sub, rest, taken)))
            for taken in product(*(range(n + 1) for n in rest))
        )

    return min(least(values, sizes) for values in combinations(columns, groups - unnamed))


def _partitions(total: int, most: int, largest: int = _MAX_WAVES) -> Iterator[tuple[int, ...]]:
    """Yield the falling sequences of at most `most` whole numbers that sum to `total`."""
    if total == 0:
        yield ()
    elif most > 0:
        for first in range(min(total, largest), 0, -1):
            for rest in _partitions(total - first, most - 1, first):
                yield first, *rest


class SampledFeatures(NamedTuple):
    """GRR-FS: `sampled` features are reported by their tables, uniform values for the others."""

    tables: tuple[Table, ...]
    sampled: int

    @property
    def sizes(self) -> Codes:
        """Number of values of each feature."""
        return tuple(table.domain_size for table in self.tables)

    @property
    def longest(self) -> Codes:
        """A report that no other one is longer than, as text."""
        return tuple(table.longest for table in self.tables)

    def report(self, values: Codes, word: Word) -> Codes:
        """Report all features."""
        chosen = choose(self.sampled, len(self.tables), word)
        return tuple(
            table.report(value, word) if sampled else uniform_below(table.domain_size, word)
            for value, table, sampled in zip(values, self.tables, chosen, strict=True)
        )

    def fits(self, reported: object) -> bool:
        """Return whether something read back is a report of these features."""
        return _are_codes(reported, self.sizes)

    @property
    def user_level(self) -> Decimal:
        """Epsilon for any two records: the sum of ln(true/other) over the `sampled` most revealing tables."""
        ordered = sorted(self.tables, key=lambda table: table.odds, reverse=True)[: self.sampled]
        return sum((n * _log(table.odds) for table, n in Counter(ordered).items()), Decimal(0))

    @property
    def attribute_levels(self) -> list[Decimal]:
        """Epsilon of each feature, for two records that differ in it alone."""
        return _attribute_levels(self.tables, self.sampled)


class JointFeatures(NamedTuple):
    """Joint GRR: one response for `sampled` features together, by the table of their joint domain size."""

    sizes: tuple[int, ...]
    sampled: int
    tables: Mapping[int, Table]

    @property
    def longest(self) -> ReportedFeatures:
        """What no report is longer than, as text: the longer of the last code and None for each feature."""
        return tuple(_longer(size - 1, None) for size in self.sizes)

    def report(self, values: Codes, word: Word) -> ReportedFeatures:
        """Report the chosen features, and None for the others."""
        asked = [i for i, chosen in enumerate(choose(self.sampled, len(self.sizes), word)) if chosen]
        joint, size = 0, 1
        for i in asked:
            joint, size = joint + values[i] * size, size * self.sizes[i]
        joint = self.tables[size].report(joint, word)
        reported: list[int | None] = [None] * len(self.sizes)
        for i in asked:
            joint, reported[i] = divmod(joint, self.sizes[i])
        return tuple(reported)

    def fits(self, reported: object) -> bool:
        """Return whether something read back is a report of these features."""
        return _are_chosen_codes(reported, self.sizes, self.sampled)

    @property
    def user_level(self) -> Decimal:
        """Epsilon for any two records: that of the most revealing table."""
        return _log(max(table.odds for table in self.tables.values()))

    @property
    def attribute_levels(self) -> list[Decimal]:
        """Epsilon of each feature, for two records that differ in it alone: of the tables that can hold it."""
        levels = {}
        for size in set(self.sizes):
            others = list(self.sizes)
            others.remove(size)
            joint = [size * rest for rest in joint_sizes(others, self.sampled - 1)]
            levels[size] = _log(max(self.tables[each].odds for each in joint))
        return [levels[size] for size in self.sizes]


class SeriesFeatures(NamedTuple):
    """Features in several waves: the same `sampled` features in each, every one by a series of its own."""

    series: tuple[Series, ...]
    sampled: int

    @property
    def sizes(self) -> Codes:
        """Number of values of each feature."""
        return tuple(each.permanent.domain_size for each in self.series)

    @property
    def longest(self) -> ReportedFeatures:
        """What no report is longer than, as text: the longer of the last code and None for each feature."""
        return tuple(_longer(each.longest, None) for each in self.series)

    def fits(self, reported: object) -> bool:
        """Return whether something read back is a report of a wave."""
        return _are_chosen_codes(reported, self.sizes, self.sampled)

    @property
    def costs(self) -> dict[str, Decimal]:
        """Epsilons of all waves by relation: the sum over the `sampled` most revealing features."""
        with localcontext(prec=60):
            by_relation = {key: [each.costs[key] for each in self.series] for key in self.series[0].costs}
            return {key: sum(sorted(each)[-self.sampled :], Decimal(0)) for key, each in by_relation.items()}

    @property
    def user_level(self) -> Decimal:
        """Epsilon at user level: any two histories."""
        return self.costs["any_histories"]

    @property
    def attribute_levels(self) -> list[Decimal]:
        """Epsilon of each feature, for two histories that differ in it alone."""
        return [each.user_level for each in self.series]


class ListClass(NamedTuple):
    """The class that the neighbours point to, by subset selection; it protects any two lists."""

    table: SetTable

    @property
    def cost(self) -> ListCost:
        """Epsilons of an answer: one entry can change the class, and costs as much as any two lists."""
        return ListCost(self.table.user_level, self.table.user_level)

    @property
    def longest(self) -> Codes:
        """An answer that no other one is longer than, as text."""
        return self.table.longest

    def report(self, sums: Codes, word: Word) -> Codes:
        """Report a set of classes, in ascending order."""
        pointed = [code for code, total in enumerate(sums) if total == max(sums)]
        return self.table.report(pointed[uniform_below(len(pointed), word)], word)

    def fits(self, reported: object) -> bool:
        """Return whether something read back is an answer of this kind."""
        return self.table.fits(reported)


class ListHistogram(NamedTuple):
    """Sums over the neighbours with discrete Laplace noise; it protects one entry, and whole lists with a cap."""

    classes: int
    scale: int
    cap: int | None
    largest: int
    more: int

    @property
    def cost(self) -> ListCost:
        """Epsilons of an answer: an entry moves the sums by `scale`, and a capped list by as much as there is room."""
        with localcontext(prec=60):
            one_entry = self.scale * _log(Fraction(WORDS, self.more))
            room = None if self.cap is None else self.classes * self.cap
            return ListCost(Decimal("Infinity") if room is None else room * one_entry, one_entry)

    @property
    def longest(self) -> Codes:
        """An answer that no other one is longer than, as text."""
        return (-self.largest,) * self.classes

    def report(self, sums: Codes, word: Word) -> Codes:
        """Report a noisy count for each class."""
        cut = sums if self.cap is None else tuple(min(total, self.cap * self.scale) for total in sums)
        noisy = [total + self._geometric(word) - self._geometric(word) for total in cut]
        return tuple(max(-self.largest, min(self.largest, count)) for count in noisy)

    def _geometric(self, word: Word) -> int:
        steps = 0
        while word() < self.more:
            steps += 1
        return steps

    def fits(self, reported: object) -> bool:
        """Return whether something read back is an answer of this kind."""
        return (
            isinstance(reported, list)
            and len(reported) == self.classes
            and all(type(count) is int and -self.largest <= count <= self.largest for count in reported)
        )


class RandomizedList(NamedTuple):
    """For every person whether they are in the list, by randomized response; it protects one entry alone."""

    people: int
    table: Table

    @property
    def cost(self) -> ListCost:
        """Epsilons of an answer: an entry changes one value, and a list as many as there are people."""
        return ListCost(Decimal("Infinity"), self.table.user_level)

    @property
    def longest(self) -> str:
        """An answer; all of them have one length."""
        return self._text(0)

    def report(self, rows: Codes, word: Word) -> str:
        """Report for every person whether they are said to be a neighbour: a bit for each row, as text."""
        listed = bytearray(self.people)
        for row in rows:
            listed[row] = 1
        named = bytearray(-(-self.people // 8))
        for row, value in enumerate(listed):
            named[row // 8] |= self.table.report(value, word) << row % 8
        return self._text(int.from_bytes(named, "little"))

    def _text(self, bits: int) -> str:
        """Write bits, that of row 0 the lowest, in base64url without padding."""
        return base64.urlsafe_b64encode(bits.to_bytes(-(-self.people // 8), "little")).decode().rstrip("=")

    def fits(self, reported: object) -> bool:
        """Return whether something read back is an answer of this kind: it has one way to be written."""
        if not isinstance(reported, str) or len(reported) != len(self.longest) or not _BASE64.fullmatch(reported):
            return False
        bits = int.from_bytes(base64.urlsafe_b64decode(reported + "=" * (-len(reported) % 4)), "little")
        return bits < 2**self.people and self._text(bits) == reported


ListMechanism = ListClass | ListHistogram | RandomizedList


class NeighbourWave(NamedTuple):
    """A wave about a neighbour list: its place in a series, its mechanism, and the files that are published for it."""

    documents: tuple[str, ...]
    """Ids of all documents before it; the first one names the series."""
    mechanism: ListMechanism
    nodes: int
    people: str
    """SHA-256 of the file of all people."""
    table: str | None
    """SHA-256 of the belief table; None for a randomized list, which needs none."""
    so_far: ListCost
    """Epsilons of a person's answers to all waves up to this one; in turns, of the dearest wave for each relation."""
    turns: int | None
    """Number of waves of which each person answers one; None: everybody answers every wave."""

    @property
    def series(self) -> str:
        """Id of the first document, which asks for the label."""
        return self.documents[0]

    @property
    def wave(self) -> int:
        """Number of the wave, from 1."""
        return len(self.documents)

    @property
    def cost(self) -> ListCost:
        """Epsilons of this wave."""
        return self.mechanism.cost

    def turn_of(self, node: str) -> int:
        """Return the wave that is the person's turn: this one where everybody answers every wave."""
        return self.wave if self.turns is None else turn_of(node, self.turns)

    def not_the_turn_of(self, node: str) -> CampaignError:
        """Return the refusal of a wave that is not the person's turn."""
        return CampaignError(
            f"wave {self.wave} is not your turn: of this series you answer wave {self.turn_of(node)}, and no other one"
        )


def turn_of(node: str, turns: int) -> int:
    """Return the wave that a person answers if a series is asked in turns, from 1.

    Args:
        node: the person's id.
        turns: number of waves of which each person answers one.
    """
    return 1 + int.from_bytes(hashlib.sha256(node.encode()).digest()[_BYTES_OF_TURN], "big") % turns


class People(NamedTuple):
    """The published file of all people. It is checked as a whole, before anybody is looked up.

    It is a hash table: an id belongs to a bucket, and has a fingerprint of 3 bytes in it. The number of its fingerprint
    is the person's row.
    """

    starts: array[int]
    """Row of the first fingerprint of each bucket, and the number of people after the last one."""
    parts: bytes
    """Which part of the hash the fingerprints of each bucket are."""
    fingerprints: bytes

    @classmethod
    def read(cls, content: bytes, asked: NeighbourWave) -> People:
        """Read the file; refuse another one than that of the wave.

        Whatever the fingerprints are, an id has one row or none, so they need no check.
        """
        _check_published(content, asked.people, "file of people", asked)
        sizes, parts, fingerprints = (layout := _Layout.of_people(asked.nodes)).cut(content)
        if sum(sizes) != asked.nodes or max(parts) >= _PARTS_OF_HASH:
            raise layout.damaged
        return cls(array("Q", accumulate(sizes, initial=0)), parts, fingerprints)

    def rows(self, neighbours: Iterable[str]) -> Codes:
        """Return the rows of the neighbours in ascending order, each once. An id that is not there has none."""
        return tuple(sorted({row for each in neighbours if (row := self._row(each)) is not None}))

    def unlisted(self, neighbours: Iterable[str]) -> tuple[str, ...]:
        """Return the neighbours that are not there, each once."""
        return tuple(dict.fromkeys(each for each in neighbours if self._row(each) is None))

    def check_person(self, node: str) -> None:
        """Refuse the id of a person that is not there: nobody could send its answer, which would cost all the same."""
        if self._row(node) is None:
            raise CampaignError(
                f"the node is not among the {self.starts[-1]} people of the campaign: correct it (node, --node), as it "
                "is in your invitation; nothing was drawn"
            )

    def _row(self, person: str) -> int | None:
        hashed = hashlib.sha256(person.encode(errors="surrogatepass")).digest()
        bucket = int.from_bytes(hashed[:6], "big") % len(self.parts)
        fingerprint = hashed[6 + 3 * self.parts[bucket] :][:3]
        for row in range(self.starts[bucket], self.starts[bucket + 1]):
            if self.fingerprints[3 * row : 3 * row + 3] == fingerprint:
                return row
        return None


class Beliefs(NamedTuple):
    """What is published about all people: a code for each row of the file of people. It is checked as a whole."""

    people: People
    codes: array[int]
    classes: int

    @classmethod
    def read(cls, table: bytes, people: bytes, question: Question) -> Beliefs:
        """Read both files; refuse others than those of the wave, and a table with a row that is no belief.

        A row whose units sum to more than `scale` would make the guarantee false. A refusal must not depend on the
        list, so every row is checked.
        """
        asked, classes = _asked(question), len(question.classes)
        _check_published(table, asked.table, "table", asked)
        codes = array("H", *(layout := _Layout.of_table(asked.nodes, classes)).cut(table))
        if sys.byteorder == "big":
            codes.byteswap()
        if max(codes) > _count_beliefs(finest_scale(classes), classes):
            raise layout.damaged
        return cls(People.read(people, asked), codes, classes)

    def sums(self, neighbours: Iterable[str]) -> Codes:
        """Return what the beliefs of the neighbours add up to; each counts once. One who is not there adds nothing."""
        total = [0] * self.classes
        for code, people in Counter(self.codes[row] for row in self.people.rows(neighbours)).items():
            for position, units in enumerate(belief(code, self.classes)):
                total[position] += people * units
        return tuple(total)


def _check_published(content: bytes, expected: str | None, what: str, asked: NeighbourWave) -> None:
    if hashlib.sha256(content).hexdigest() != expected:
        raise CampaignError(f"the {what} is not the one that wave {asked.wave} names: get it again")


class _Layout(NamedTuple):
    """The bytes of a published file: a title, and parts of known length."""

    what: str
    title: bytes
    lengths: tuple[int, ...]

    @classmethod
    def of_people(cls, people: int) -> _Layout:
        """Return the layout of the file of people: sizes of the buckets, their parts of the hash, fingerprints."""
        buckets = -(-people // _PER_BUCKET)
        title = _PEOPLE_MAGIC + f'{{"people": {people}}}\n'.encode()
        return cls("file of people", title, (buckets, buckets, 3 * people))

    @classmethod
    def of_table(cls, people: int, classes: int) -> _Layout:
        """Return the layout of the belief table: codes of 16 bits."""
        title = _TABLE_MAGIC + f'{{"num_classes": {classes}, "people": {people}}}\n'.encode()
        return cls("table", title, (2 * people,))

    @property
    def size(self) -> int:
        return len(self.title) + sum(self.lengths)

    def cut(self, file: bytes) -> list[bytes]:
        """Return the parts of a file; refuse one of another layout."""
        if not file.startswith(self.title) or len(file) != self.size:
            raise self.damaged
        return [file[start:end] for start, end in pairwise(accumulate(self.lengths, initial=len(self.title)))]

    @property
    def damaged(self) -> CampaignError:
        """The refusal of a file that has the right hash, and is no such file."""
        return CampaignError(f"the {self.what} is damaged, or of another number of people or classes")


def finest_scale(classes: int) -> int:
    """Return the units of a belief: the most, up to 60, for which every belief has a code of 16 bits."""
    return next(scale for scale in range(_FINEST_SCALE, 0, -1) if _count_beliefs(scale, classes) < _BELIEFS)


def _count_beliefs(scale: int, classes: int) -> int:
    return comb(scale + classes - 1, classes - 1)


def belief(code: int, classes: int) -> Codes:
    """Return the units of each class that a code stands for: beliefs are numbered from 1 in lexicographic order."""
    if code == 0:
        return (0,) * classes
    number, left, units = code - 1, finest_scale(classes), []
    for after in range(classes - 1, 0, -1):
        taken = 0
        while number >= (ways := _count_beliefs(left - taken, after)):
            number, taken = number - ways, taken + 1
        units.append(taken)
        left -= taken
    return (*units, left)


def _longer(one: T, other: T) -> T:
    """Return the value whose text is longer."""
    return max(one, other, key=lambda value: len(_canonical(value)))


def joint_sizes(sizes: Sequence[int], sampled: int) -> list[int]:
    """Return the products of `sampled` of the sizes that occur, in ascending order."""
    products: list[set[int]] = [{1}, *(set() for _ in range(sampled))]
    for size, copies in Counter(sizes).items():
        for _ in range(min(copies, sampled)):
            for taken in range(sampled, 0, -1):
                products[taken] |= {size * product for product in products[taken - 1]}
    return sorted(products[sampled])


def _are_codes(codes: object, sizes: Sequence[int]) -> bool:
    return (
        isinstance(codes, list)
        and len(codes) == len(sizes)
        and all(type(code) is int and 0 <= code < size for code, size in zip(codes, sizes, strict=True))
    )


def _are_chosen_codes(codes: object, sizes: Sequence[int], chosen: int) -> bool:
    """Return whether these are the codes of the given number of features, with None for all others."""
    if not isinstance(codes, list) or len(codes) != len(sizes):
        return False
    asked = [(code, size) for code, size in zip(codes, sizes, strict=True) if code is not None]
    return len(asked) == chosen and _are_codes([code for code, _ in asked], [size for _, size in asked])


def _log(odds: Fraction) -> Decimal:
    return (Decimal(odds.numerator) / odds.denominator).ln()


def _attribute_levels(tables: tuple[Table, ...], sampled: int) -> list[Decimal]:
    """Return ln of the likelihood ratio of two records that differ in one feature, if no other feature matches.

    The mean product over all subsets of `sampled` features is a + b * factor in the factor of one feature. A pass
    over what follows each feature and one over what precedes it give a and b for every table, up to a common factor.
    """
    kinds = Counter(tables)
    ordered = [*kinds, *(kinds - Counter(kinds.keys())).elements()]  # one feature of each table first
    misses = [Decimal(table.domain_size * table.other) / WORDS for table in ordered]
    after: dict[int, dict[int, Decimal]] = {}
    none, one = Decimal(0), Decimal(1)
    means = {sampled: one}  # of the features that follow, by the number taken before
    for i in range(len(ordered) - 1, -1, -1):
        if i < len(kinds):
            after[i] = means
        means = {
            taken: take * misses[i] * means.get(taken + 1, none) + skip * means.get(taken, none)
            for taken, take, skip in _steps(i, sampled, len(ordered))
        }
    levels = {}
    before = {0: one}  # of the features that precede, by the number taken
    for i, table in enumerate(kinds):
        taking, passing, means = none, none, dict[int, Decimal]()
        for taken, take, skip in _steps(i, sampled, len(ordered)):
            if take:
                mean = before[taken] * take
                taking += mean * after[i][taken + 1]
                means[taken + 1] = means.get(taken + 1, none) + mean * misses[i]
            if skip:
                mean = before[taken] * skip
                passing += mean * after[i][taken]
                means[taken] = means.get(taken, none) + mean
        before = means
        match = Decimal(table.domain_size * table.true) / WORDS
        levels[table] = ((passing + taking * match) / (passing + taking * misses[i])).ln()
    return [levels[table] for table in tables]


def _steps(i: int, sampled: int, count: int) -> Iterator[tuple[int, int, int]]:
    """Yield the possible numbers of features taken before feature i, with the odds to take and to skip it."""
    for taken in range(max(0, sampled - count + i), min(i, sampled) + 1):
        yield taken, sampled - taken, count - i - sampled + taken


# --- The record ------------------------------------------------------------------------------------------------------


class _Private(NamedTuple):
    """A private record in a local variable, which tracebacks may show."""

    value: Mapping[str, Any]

    def __repr__(self) -> str:
        return "<private, withheld>"


class _PrivateList(NamedTuple):
    """A neighbour list in a local variable, which tracebacks may show."""

    value: Iterable[str]

    def __repr__(self) -> str:
        return "<private, withheld>"


def _withhold_details(work: Callable[[], T]) -> T:
    """Return the result of work on private values. Its errors keep neither their causes nor the frames of the work."""
    failure: Exception
    try:
        return work()
    except (DomainError, RunError) as error:
        failure = type(error)(str(error))
    except Exception as error:  # noqa: BLE001 (whatever it is, it may quote a value)
        failure = DomainError(f"the record cannot be used: {type(error).__name__} (details withheld)")
    raise failure


def encode_value(column: Mapping[str, Any], record: Mapping[str, Any]) -> int | None:
    """Return the code of a column's value in a raw record; None if it is left out, which must be said."""
    name = column["name"]
    if name not in record:
        raise DomainError(f"the record has no '{name}', which the campaign asks; give a value, or None to leave it out")
    if record[name] is None:
        return None
    if "edges" in column:
        return _bin(name, [float(edge) for edge in column["edges"]], record[name], whole="whole" in column)
    for text in _texts(record[name]):
        if text in column["values"]:
            code: int = column["values"].index(text)
            return code
    raise DomainError(f"'{name}': not one of the {len(column['values'])} declared values (value withheld)")


def _bin(name: str, edges: list[float], value: object, *, whole: bool) -> int:
    number = _readable_number(value)
    if number is None:
        raise DomainError(
            f"'{name}': it has bins, so its value must be a number, with the digits 0 to 9 and a decimal point "
            "(value withheld)"
        )
    if whole and abs(number) != float("inf") and not number.is_integer():
        raise DomainError(f"'{name}': its value must be a whole number (value withheld)")
    if not edges[0] <= number <= edges[-1] or number in (float("inf"), float("-inf")):
        raise DomainError(f"'{name}': outside the declared range {edges[0]:g}..{edges[-1]:g} (value withheld)")
    return min(bisect_right(edges, number), len(edges) - 1) - 1


def _readable_number(value: object) -> float | None:
    if isinstance(value, str):
        return float(value) if len(value) <= 400 and _ENTERED_NUMBER.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 2**1023:
        return None
    return float(value)


def _texts(value: object) -> Iterator[str]:
    """Yield the texts by which a value may be declared: 1 and 1.0 are the same, True is 'True' or '1'."""
    if isinstance(value, bool):
        yield from (str(value), str(int(value)))
    elif isinstance(value, str):
        yield value
    elif isinstance(value, int) and abs(value) < 2**64:
        yield str(value)
    elif isinstance(value, float):
        yield str(int(value)) if value.is_integer() else str(value)


# --- The campaign ----------------------------------------------------------------------------------------------------


def verify(campaign: str | bytes, *, max_epsilon: float, now: datetime | None = None) -> Question:
    """Verify a campaign; refuse one that is altered, closed, too revealing, or does not give its stated guarantee."""
    if isinstance(max_epsilon, bool) or not isinstance(max_epsilon, (int, float)) or not max_epsilon > 0:
        raise CampaignError("max_epsilon must be a number above 0: the largest epsilon that you accept")
    question = _question(*_parsed(campaign))
    now = now or datetime.now(UTC)
    if now.tzinfo is None:
        raise CampaignError("now must have a time zone")
    if now >= question.closes:
        raise CampaignError(
            f"the campaign closed at {question.closes:%Y-%m-%d %H:%M:%S} UTC, and this device's clock says "
            f"{now.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC: set the clock if it is wrong"
        )
    if question.epsilon > Decimal(max_epsilon) + _slack(Decimal(max_epsilon)):
        raise CampaignError(
            f"a report would cost epsilon {_shown(question.epsilon)} (user level, any two records), "
            f"which is above your limit of {max_epsilon:g}"
        )
    return question


def _parsed(campaign: str | bytes) -> tuple[dict[str, Any], Notice]:
    try:
        document = _read_json(campaign)
        text = campaign.decode() if isinstance(campaign, bytes) else campaign
    except CampaignError:
        raise
    except ValueError:
        raise CampaignError("the campaign is not readable as JSON") from None
    if text.removesuffix("\n") != _canonical(document):
        raise CampaignError("the campaign is not in its canonical form, so two readers could understand it differently")
    return _checked_parts(document)


def _read_json(text: str | bytes, *, most: int = _MAX_CAMPAIGN_LENGTH) -> Any:
    """Read JSON of bounded size and depth, with whole numbers and without repeated keys; else raise a ValueError."""

    def refuse_number(_: str) -> None:
        raise CampaignError("a number in the campaign is not whole")

    def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise CampaignError("a key occurs twice in the campaign")
        return dict(pairs)

    if len(text) > most:
        raise CampaignError("the campaign is too large")
    content = text.decode() if isinstance(text, bytes) else text
    # The depth is counted before, because the reader calls itself at every level.
    steps = (1 if bracket in "[{" else -1 for bracket in _BRACKET.findall(_JSON_TEXT.sub("", content)))
    if max(accumulate(steps), default=0) > _MAX_DEPTH:
        raise CampaignError("the campaign is nested too deeply")
    return json.loads(content, parse_float=refuse_number, parse_constant=refuse_number, object_pairs_hook=unique_keys)


_BOUND = {
    3: "features format graph guarantee label nonce schema waves",
    4: "format graph guarantee neighbours schema",
}


def _checked_parts(document: object) -> tuple[dict[str, Any], Notice]:
    """Return the part that reports are bound to, which the id names, and the notice."""
    version = document.get("format") if isinstance(document, dict) else None
    if type(version) is not int or version not in _BOUND:
        raise CampaignError("the campaign's format is not 3 or 4: this client is too old, or it is not a campaign")
    whole = _object(document, "bound format id notice", "the campaign")
    bound = _object(whole["bound"], _BOUND[version], "bound")
    if type(bound["format"]) is not int or bound["format"] != version:
        raise CampaignError("the campaign has another format inside")
    if whole["id"] != content_id(bound):
        raise CampaignError("the campaign was altered: its content is not what its id says")
    if "nonce" in bound and not re.fullmatch("[0-9a-f]{32}", _text(bound["nonce"], "nonce")):
        raise CampaignError("nonce must be 32 hexadecimal digits")
    _object(bound["schema"], "columns group label", "schema")
    graph = _object(bound["graph"], "nodes sha256", "graph")
    _whole(graph["nodes"], "graph.nodes")
    _hash(graph["sha256"], "graph.sha256")
    notice = _object(whole["notice"], _NOTICE_KEYS, "notice")
    return {**bound, "id": whole["id"]}, _notice(notice, content_id(notice))


def content_id(content: object) -> str:
    """Return the SHA-256 of the canonical form of JSON values, in hexadecimal digits."""
    return hashlib.sha256(_canonical(content).encode()).hexdigest()


def _notice(stated: Mapping[str, Any], hashed: str) -> Notice:
    notice = Notice(
        version=_whole(stated["version"], "notice.version"),
        sha256=hashed,
        purpose=_text(stated["purpose"], "purpose"),
        contact=_text(stated["contact"], "contact"),
        closes=_date(stated["closes"], "closes"),
        retention=None if stated["retention"] is None else _date(stated["retention"], "retention"),
        note=_text(stated["note"], "note", min_length=0),
        wave=None if stated["wave"] is None else _whole(stated["wave"], "wave"),
        texts=stated["texts"],
        language=stated["language"],
    )
    languages = dict(_entries(notice.texts, "texts"))
    if not isinstance(notice.language, (str, NoneType)) or notice.language not in (languages or (None,)):
        raise CampaignError("notice.language must be one of the languages of the texts; null if there are none")
    if notice.retention is not None and notice.retention < notice.closes:
        raise CampaignError("the campaign deletes its reports before it closes")
    return notice


def _wave_question(campaign: dict[str, Any], notice: Notice) -> Question:
    """Return the question of a wave about neighbours, if its integers give every epsilon that is stated."""
    schema = campaign["schema"]
    label = _object(schema["label"], "classes name", "schema.label")
    classes = tuple(_text(name, "a class") for name in _list(label["classes"], "schema.label.classes"))
    if schema["columns"] != [] or type(schema["group"]) is not int or schema["group"] != 1 or notice.wave is not None:
        raise CampaignError("a wave about neighbours asks for nothing else")
    if not _are_distinct(classes) or not 2 <= len(classes) < _BELIEFS:
        raise CampaignError("the campaign declares a class twice, or two that look alike, or fewer than two")
    name = _text(label["name"], "schema.label.name")
    _check_texts(notice.texts, {name: classes})
    parts = _object(campaign["neighbours"], "answers documents label people table turns", "neighbours")
    documents = tuple(_hash(each, "neighbours.documents") for each in _list(parts["documents"], "neighbours.documents"))
    response = _label(parts["label"], len(classes))
    people = campaign["graph"]["nodes"]
    waves = [_list_mechanism(each, len(classes), people) for each in _list(parts["answers"], "neighbours.answers")]
    if response is None or len(waves) != len(documents) or len(documents) > _MAX_WAVES:
        raise CampaignError(f"a series has a label, and an answer for each of at most {_MAX_WAVES} waves")
    if len(set(documents)) < len(documents):
        raise CampaignError("neighbours.documents names a document twice")
    if len(waves) > 1 and any(isinstance(each, RandomizedList) for each in waves):
        raise CampaignError("a randomized neighbour list is the only wave of its series, and this one has more")
    turns = _turns(parts["turns"], waves)
    with localcontext(prec=60):
        costs = [each.cost for each in waves]
        # In turns a person answers one wave, and the document does not say whose: the dearest one bounds them all.
        columns = zip(*costs, strict=True)
        so_far = ListCost(*(sum(column, Decimal(0)) if turns is None else max(column) for column in columns))
        _check_wave_guarantee(campaign["guarantee"], costs[-1], so_far, response.user_level)
    return Question(
        id=campaign["id"],
        graph=PublicGraph(**campaign["graph"]),
        columns=(),
        group=1,
        label_name=name,
        classes=classes,
        features=None,
        label=None,
        notice=notice,
        epsilon=costs[-1].any_lists if costs[-1].any_lists.is_finite() else Decimal(0),
        neighbours=NeighbourWave(
            documents,
            waves[-1],
            people,
            _hash(parts["people"], "neighbours.people"),
            _table_hash(parts["table"], waves[-1]),
            so_far,
            turns,
        ),
    )


def _turns(stated: object, waves: Sequence[ListMechanism]) -> int | None:
    """Return the number of turns of a series that has these waves so far; None if everybody answers every wave."""
    if stated is None:
        return None
    if not 2 <= (turns := _whole(stated, "neighbours.turns")) <= _MAX_WAVES:
        raise CampaignError(f"neighbours.turns must be null, or a whole number from 2 to {_MAX_WAVES}")
    if any(isinstance(each, RandomizedList) for each in waves):
        raise CampaignError("neighbours.turns must be null: everybody is asked for a randomized neighbour list")
    if len(waves) > turns:
        raise CampaignError(f"a series in {turns} turns has at most {turns} waves, and this is wave {len(waves)}")
    return turns


def _table_hash(stated: object, mechanism: ListMechanism) -> str | None:
    """Return the hash of the belief table; a randomized list has none, and every other answer has one."""
    if not isinstance(mechanism, RandomizedList):
        return _hash(stated, "neighbours.table")
    if stated is not None:
        raise CampaignError("neighbours.table must be null: a randomized neighbour list has no belief table")
    return None


def _list_mechanism(entry: object, classes: int, people: int) -> ListMechanism:
    named = entry.get("mechanism") if isinstance(entry, dict) else None
    if named == "neighbourhood_class":
        parts = _object(entry, "epsilon mechanism size table", "an answer")
        _epsilon(parts["epsilon"], "the epsilon of an answer")
        return ListClass(_set_table(parts["table"], classes, parts["size"]))
    if named == "randomized_neighbour_list":
        parts = _object(entry, "epsilon mechanism people table", "an answer")
        _epsilon(parts["epsilon"], "the epsilon of an answer")
        if _whole(parts["people"], "an answer's people") != people or not 2 <= people <= _MAX_LISTED_PEOPLE:
            raise CampaignError(
                f"a randomized neighbour list is about all {people} people of the campaign, and they must be 2 to "
                f"{_MAX_LISTED_PEOPLE}"
            )
        return RandomizedList(people, _table(parts["table"], 2))
    parts = _object(entry, "cap epsilon largest mechanism more scale", "an answer")
    _mechanism(parts, ("neighbourhood_histogram",), "an answer")
    _epsilon(parts["epsilon"], "the epsilon of an answer")
    cap = None if parts["cap"] is None else _whole(parts["cap"], "the cap of an answer")
    units = (_whole(parts[key], f"an answer's {key}") for key in ("scale", "largest", "more"))
    scale, largest, more = units
    if scale != finest_scale(classes) or not scale <= largest <= _MAX_COUNT or (cap or 1) > _MAX_CAP:
        raise CampaignError("a histogram of neighbours has other units, or other limits, than its classes allow")
    if (WORDS - more) * _MAX_NOISE_WORDS < WORDS:
        raise CampaignError("the noise of a histogram would take a device too long")
    return ListHistogram(classes, scale, cap, largest, more)


def _check_wave_guarantee(stated: object, wave: ListCost, so_far: ListCost, label: Decimal) -> None:
    """Check every stated epsilon of a wave and of its series, under each relation."""
    parts = _object(stated, "series wave", "guarantee")
    series = _object(parts["series"], "label lists lists_and_record", "guarantee.series")
    pairs = [(series["label"], label)]
    for told, cost in ((parts["wave"], wave), (series["lists"], so_far)):
        each = _object(told, "any_lists one_entry one_relationship", "guarantee")
        pairs += [(each[key], getattr(cost, key)) for key in ListCost._fields]
        pairs.append((each["one_relationship"], 2 * cost.one_entry))
    with_record = _object(series["lists_and_record"], "any_lists one_entry", "guarantee.series.lists_and_record")
    pairs += [(with_record[key], label + getattr(so_far, key)) for key in ListCost._fields]
    for text, epsilon in pairs:
        told = Decimal(_number(text, "an epsilon"))
        if told != epsilon and not (epsilon.is_finite() and abs(told - epsilon) <= _slack(epsilon)):
            raise CampaignError(
                "the wave's integers do not give the guarantee that it states: an answer would cost epsilon "
                f"{_shown(wave.one_entry)} for one entry (two neighbour lists, one with a neighbour more)"
            )


def _hash(value: object, where: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", _text(value, where)):
        raise CampaignError(f"{where} must be 64 hexadecimal digits")
    return str(value)


def _question(campaign: dict[str, Any], notice: Notice) -> Question:
    if campaign["format"] == 4:
        return _wave_question(campaign, notice)
    schema = campaign["schema"]
    label = _object(schema["label"], "classes name", "schema.label")
    columns = tuple(_column(entry) for entry in _list(schema["columns"], "schema.columns", 0))
    sizes = _merged([_size(column) for column in columns], _whole(schema["group"], "schema.group"))
    classes = tuple(_text(name, "a class") for name in _list(label["classes"], "schema.label.classes"))
    is_series = campaign.get("waves") is not None
    features: SampledFeatures | JointFeatures | SeriesFeatures | None
    features = _features(campaign["features"], sizes, ("grr",) if is_series else ("grr_fs", "joint_grr"))
    response: Table | SetTable | Series | None = _label(campaign["label"], len(classes))
    if features is None and response is None:
        raise CampaignError("the campaign collects nothing")
    waves = None
    if is_series:
        waves, features, response = _series(campaign["waves"], features, response)
    if notice.wave is not None and (waves is None or notice.wave > waves.number):
        raise CampaignError("the campaign does not have the wave that is open")
    names = [column["name"] for column in columns] + [_text(label["name"], "schema.label.name")]
    if not _are_distinct(names) or not _are_distinct(classes) or len(classes) < 2:
        raise CampaignError("the campaign declares a name twice, or two that look alike, or fewer than two classes")
    answers = {column["name"]: column.get("values", ()) for column in columns}
    _check_texts(notice.texts, answers | {label["name"]: classes})
    return Question(
        id=campaign["id"],
        graph=PublicGraph(**campaign["graph"]),
        columns=columns,
        group=schema["group"],
        label_name=label["name"],
        classes=classes,
        features=features,
        label=response,
        notice=notice,
        epsilon=_check_guarantee(campaign["guarantee"], features, response),
        waves=waves,
    )


def _check_texts(texts: object, answers: Mapping[str, Sequence[str]]) -> None:
    """Refuse texts by language that are not about these questions, or show two answers alike."""
    for language, parts in _entries(texts, "texts"):
        if not _LANGUAGE.fullmatch(language):
            raise CampaignError("texts: a language must be a tag such as 'de' or 'pt-BR'")
        for key, value in _entries(parts, "texts", "purpose contact note questions"):
            if key != "questions":
                _text(value, f"a translated {key}")
                continue
            for name, question in _entries(value, "questions", answers):
                _check_question_texts(question, answers[name])


def _check_question_texts(question: object, values: Sequence[str]) -> None:
    for key, text in _entries(question, "a question's texts", "text help answers"):
        if key != "answers":
            _text(text, f"a question's {key}")
            continue
        shown = {value: value for value in values}
        for value, label in _entries(text, "answers", shown):
            shown[value] = _text(label, "an answer")
        if not _are_distinct(list(shown.values())):
            raise CampaignError("the texts show two answers alike")


def _entries(value: object, where: str, known: str | Mapping[str, Any] | None = None) -> list[tuple[str, Any]]:
    """Return the entries of an object whose keys are all known."""
    names = known.split() if isinstance(known, str) else known
    if not isinstance(value, dict) or (names is not None and not all(key in names for key in value)):
        raise CampaignError(f"{where} must be an object, with known keys alone")
    return list(value.items())


def _column(entry: object) -> dict[str, Any]:
    if isinstance(entry, dict) and "edges" in entry:
        is_whole = entry.get("whole") is True
        parts = _object(entry, "edges name whole" if is_whole else "edges name", "a column")
        edges = [_number(edge, "an edge") for edge in _list(parts["edges"], "edges")]
        if len(edges) < 3 or not all(low < high for low, high in pairwise(edges)):
            raise CampaignError("a column's edges must be 3 or more, and rise")
        if is_whole and not all(abs(edge) == float("inf") or edge.is_integer() for edge in edges):
            raise CampaignError("the edges of whole numbers must be whole")
    else:
        parts = _object(entry, "name values", "a column")
        values = [_text(value, "a value", min_length=0) for value in _list(parts["values"], "values")]
        if len(values) < 2 or not _are_distinct(values):
            raise CampaignError("a column's values must be 2 or more, and no two of them look alike")
    _text(parts["name"], "a column's name")
    return parts


def _size(column: Mapping[str, Any]) -> int:
    return len(column["edges"]) - 1 if "edges" in column else len(column["values"])


def _merged(sizes: list[int], group: int) -> list[int]:
    if group > 1 and set(sizes) != {2}:
        raise CampaignError("the campaign merges columns that are not binary")
    return sizes[::group]


def _features(stated: object, sizes: list[int], known: Sequence[str]) -> SampledFeatures | JointFeatures | None:
    if stated is None:
        return None
    parts = _object(stated, "epsilon mechanism sampled tables", "features")
    _epsilon(parts["epsilon"], "features.epsilon")
    joint = _mechanism(parts, known, "features") == "joint_grr"
    sampled = _whole(parts["sampled"], "features.sampled")
    if sampled > len(sizes) or len(sizes) > _MAX_FEATURES or sampled * (len(sizes) - sampled) > _MAX_STEPS:
        raise CampaignError(f"the campaign samples {sampled} of {len(sizes)} features, which is not possible")
    if joint and prod(sorted(sizes)[-sampled:]) > _MAX_JOINT_SIZE:
        raise CampaignError(f"{sampled} of the features can have more than {_MAX_JOINT_SIZE} joint values")
    domains = joint_sizes(sizes, sampled) if joint else sizes
    entries = _list(parts["tables"], "features.tables")
    if len(entries) != len(domains):
        raise CampaignError("features: there is not one table for each " + ("joint domain" if joint else "feature"))
    tables = tuple(_table(entry, size) for entry, size in zip(entries, domains, strict=True))
    if joint:
        return JointFeatures(tuple(sizes), sampled, dict(zip(domains, tables, strict=True)))
    return SampledFeatures(tables, sampled)


def _label(stated: object, size: int) -> Table | SetTable | None:
    if stated is None:
        return None
    is_set = isinstance(stated, dict) and "size" in stated
    parts = _object(stated, "epsilon mechanism size table" if is_set else "epsilon mechanism table", "label")
    _epsilon(parts["epsilon"], "label.epsilon")
    _mechanism(parts, ("subset_selection" if is_set else "grr",), "label")
    return _set_table(parts["table"], size, parts["size"]) if is_set else _table(parts["table"], size)


def _series(stated: object, features: object, label: object) -> tuple[Waves, SeriesFeatures | None, Series | None]:
    """Return the series of all questions, if their tables give the three epsilons that are stated."""
    asked = isinstance(features, SampledFeatures)
    keys = "count epsilon features guarantee table values" if asked else "count epsilon guarantee table values"
    parts = _object(stated, keys, "waves")
    if not isinstance(label, (Table, NoneType)):
        raise CampaignError("the label of a series is by randomized response")
    count, values = _whole(parts["count"], "waves.count"), _whole(parts["values"], "waves.values")
    if count > _MAX_WAVES or (label is not None and values > label.domain_size):
        raise CampaignError(f"a series has at most {_MAX_WAVES} waves, and no more values than there are classes")
    response = columns = None
    if label is None:
        if (parts["epsilon"], parts["table"]) != (None, None):
            raise CampaignError("the series has a table of a label that it does not ask for")
    else:
        _epsilon(parts["epsilon"], "waves.epsilon")
        response = Series(label, _table(parts["table"], label.domain_size), count, values, optional=False)
    if isinstance(features, SampledFeatures):
        columns = _series_features(parts["features"], features, count, values)
    with localcontext(prec=60):
        costs = [part.costs for part in (columns, response) if part is not None]
        waves = Waves(count, values, {key: sum((each[key] for each in costs), Decimal(0)) for key in costs[0]})
    _check_stated(_object(parts["guarantee"], "any_histories same_pattern unchanged", "waves.guarantee"), waves.costs)
    return waves, columns, response


def _series_features(stated: object, permanent: SampledFeatures, count: int, values: int) -> SeriesFeatures:
    parts = _object(stated, "epsilon tables", "waves.features")
    _epsilon(parts["epsilon"], "waves.features.epsilon")
    entries = _list(parts["tables"], "waves.features.tables")
    if len(entries) != len(permanent.tables):
        raise CampaignError("waves.features: there is not one table for each feature")
    series = tuple(
        Series(table, _table(entry, table.domain_size), count, min(values, table.domain_size), optional=True)
        for entry, table in zip(entries, permanent.tables, strict=True)
    )
    if len(set(series)) > _MAX_KINDS_OF_SERIES:  # the costs of each take a moment
        raise CampaignError(f"the features of a series have more than {_MAX_KINDS_OF_SERIES} different tables")
    return SeriesFeatures(series, permanent.sampled)


def _check_stated(stated: Mapping[str, Any], exact: Mapping[str, Decimal]) -> None:
    for key, epsilon in exact.items():
        if abs(Decimal(_number(stated[key], "an epsilon")) - epsilon) > _slack(epsilon):
            raise CampaignError(f"the tables of the waves do not give the guarantee that is stated: {key}")


def _mechanism(parts: Mapping[str, Any], known: Sequence[str], where: str) -> str:
    if parts["mechanism"] not in known:
        raise CampaignError(f"{where}: the mechanism is not one that the campaign's format has")
    return str(parts["mechanism"])


def _table(entry: object, size: int) -> Table:
    parts = _object(entry, "domain_size other true", "a table")
    table = Table(**{key: _whole(parts[key], f"a table's {key}") for key in Table._fields})
    used = table.true + (table.domain_size - 1) * table.other
    if table.domain_size != size or used != WORDS or table.true <= table.other:
        raise CampaignError(
            "a table is not a randomized response for its domain: "
            "it must use up 2**53 words, most of them for the true value"
        )
    return table


def _set_table(entry: object, domain_size: int, size: object) -> SetTable:
    parts = _object(entry, "domain_size inside outside size", "a table")
    table = SetTable(**{key: _whole(parts[key], f"a table's {key}") for key in SetTable._fields})
    if table.domain_size != domain_size or table.size != _whole(size, "label.size") or not table.size < domain_size:
        raise CampaignError("a table is for another number of classes, or for sets of another size")
    if table.inside + table.outside != WORDS or table.odds <= 1:
        raise CampaignError(
            "a table is not a subset selection: it must use up 2**53 words, and favour sets that hold the true class"
        )
    return table


def _check_guarantee(
    stated: object,
    features: SampledFeatures | JointFeatures | SeriesFeatures | None,
    label: Table | SetTable | Series | None,
) -> Decimal:
    """Check every stated epsilon against the integers; return the total of the user level."""
    parts = _object(stated, "attribute_level user_level", "guarantee")
    users = _object(parts["user_level"], "features label total", "guarantee.user_level")
    with localcontext(prec=40):
        exact = {
            "features": features.user_level if features else Decimal(0),
            "label": Decimal(0) if label is None else label.user_level,
        }
        exact["total"] = exact["features"] + exact["label"]
        attributes = features.attribute_levels if features else []
        if not isinstance(parts["attribute_level"], list) or len(parts["attribute_level"]) != len(attributes):
            raise CampaignError("guarantee.attribute_level must list one epsilon for each feature")
        pairs = [(users[key], exact[key]) for key in exact]
        pairs += zip(parts["attribute_level"], attributes, strict=True)
        for text, epsilon in pairs:
            if abs(Decimal(_number(text, "an epsilon")) - epsilon) > _slack(epsilon):
                raise CampaignError(
                    f"the campaign's tables do not give the guarantee that it states: a report would cost "
                    f"epsilon {_shown(exact['total'])} (user level, any two records)"
                )
        return exact["total"]


def _total(epsilons: Iterable[Decimal]) -> Decimal:
    """Return the sum of epsilons, rounded up, whatever the digits of the caller's decimal context."""
    with localcontext(prec=60, rounding=ROUND_CEILING):
        return sum(epsilons, Decimal(0))


def _shown(epsilon: Decimal) -> str:
    """Write four decimals, rounded up: a person is never told less than a report costs."""
    return f"{epsilon.quantize(Decimal('0.0001'), ROUND_CEILING):f}"


def _slack(epsilon: Decimal) -> Decimal:
    return _TOLERANCE * max(Decimal(1), epsilon)


def _canonical(document: object) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _object(value: object, keys: str, where: str) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != set(keys.split()):
        raise CampaignError(f"{where} must be an object with exactly the keys {keys.replace(' ', ', ')}")
    return value


def _list(value: object, where: str, least: int = 1) -> list[Any]:
    if not isinstance(value, list) or len(value) < least:
        raise CampaignError(f"{where} must be a list, not empty")
    return value


def _text(value: object, where: str, *, min_length: int = 1) -> str:
    if not isinstance(value, str) or not min_length <= len(value) <= _MAX_TEXT_LENGTH:
        raise CampaignError(f"{where} must be text of {min_length} to {_MAX_TEXT_LENGTH} characters")
    if found := _MISLEADING.search(value):
        raise CampaignError(f"{where} holds U+{ord(found[0]):04X}, a control or invisible character")
    return value


def _are_distinct(texts: Sequence[str]) -> bool:
    """Return whether no two texts look alike to a person."""
    return len({_look(text) for text in texts}) == len(texts)


def _look(text: str) -> str:
    """Return the normal form of a text: NFKC without joiners and selectors, single spaces, and none at the ends."""
    return _SPACES.sub(" ", unicodedata.normalize("NFKC", _UNSEEN.sub("", text))).strip(" ")


def _whole(value: object, where: str) -> int:
    if type(value) is not int or not 1 <= value < WORDS:
        raise CampaignError(f"{where} must be a whole number from 1 to 2**53 - 1")
    return value


def _number(value: object, where: str) -> float:
    if not isinstance(value, str) or len(value) > 40 or not _NUMBER.fullmatch(value):
        raise CampaignError(f"{where} must be a number, written as text")
    return float(value)


def _epsilon(value: object, where: str) -> None:
    if not _number(value, where) > 0:
        raise CampaignError(f"{where} must be above 0")


def _date(value: object, where: str) -> datetime:
    with suppress(ValueError):
        time = datetime.strptime(_text(value, where), _TIME).replace(tzinfo=UTC)
        if time.year >= 1000 and time.strftime(_TIME) == value:
            return time
    raise CampaignError(f"{where} must be a UTC time such as 2027-01-31T00:00:00Z")


def check_node(node: object) -> str:
    """Return the name of a node if it can be a line of a table and a part of a URL."""
    allowed = isinstance(node, str) and 1 <= len(node) <= 256 and node not in (".", "..")
    if not allowed or any(c < " " or c == "\x7f" or "\ud800" <= c <= "\udfff" for c in str(node)):
        raise CampaignError("node must be text of 1 to 256 characters without control characters, not . or ..")
    return str(node)


# --- The store -------------------------------------------------------------------------------------------------------


class KeptWave(NamedTuple):
    """The place of an answer about neighbours in its series, and what it costs."""

    series: str
    wave: int
    cost: ListCost
    turns: int | None
    people: str
    """SHA-256 of the file of all people."""


class _Kept(NamedTuple):
    path: Path
    report: dict[str, Any]
    epsilon: Decimal
    notices: tuple[SeenNotice, ...]
    graph: PublicGraph | None
    recorded: bool = True  # a report that an earlier version wrote has no epsilon
    wave: KeptWave | None = None  # of an answer about neighbours


@contextmanager
def _locked(folder: Path) -> Iterator[Path]:
    """Hold the store alone: what is counted stays true until the report is written. Remove drafts of killed clients."""
    descriptor = None
    try:
        for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
        descriptor = _lock(folder)
        for path in folder.iterdir():
            if _DRAFT_NAME.fullmatch(path.name):
                path.unlink()
    except OSError as error:
        if descriptor is not None:
            os.close(descriptor)
        raise RunError(f"the store {folder} cannot be used: {error.strerror}; nothing was sent") from None
    try:
        yield folder
    finally:
        os.close(descriptor)  # this unlocks it


def _lock(folder: Path) -> int:
    if sys.platform == "win32":  # folders cannot be opened on Windows
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
    else:
        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _kept_reports(folder: Path, campaign: str = "") -> list[_Kept]:
    names = sorted(path.name for path in folder.iterdir())
    return [_read_kept(folder / name) for name in names if _KEPT_NAME.fullmatch(name) and name.startswith(campaign)]


def _read_kept(path: Path) -> _Kept:
    """Read a stored report. An unrecorded epsilon is the largest that a report of this length can have."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise _damaged(path) from None
    with suppress(ValueError):
        report = _read_json(text)
        if isinstance(report, dict):
            cost, notices = report.pop("epsilon", None), _seen_notices(report.pop("notices", []))
            graph = _kept_graph(report.pop("graph", None))
            wave = _kept_wave(report.pop("neighbours", None)) if "answer" in report else None
            is_answer = _is_list_answer(report) and isinstance(cost, str) and wave is not None
            if is_answer and _COST.fullmatch(cost) and path.name.startswith(report["campaign"]) and notices:
                return _Kept(path, report, Decimal(cost), notices, graph, wave=wave)
            if _is_report(report) and path.name.startswith(report["campaign"]) and notices is not None:
                codes = [*(report["features"] or ()), *([] if report["label"] is None else [report["label"]])]
                if cost is None and all(type(code) is int for code in codes):
                    return _Kept(path, report, len(codes) * _MAX_TABLE_EPSILON, notices, graph, recorded=False)
                if isinstance(cost, str) and _COST.fullmatch(cost):
                    return _Kept(path, report, Decimal(cost), notices, graph)
    raise _damaged(path)


def _kept_graph(stated: object) -> PublicGraph | None:
    """Read the graph of a stored report; None if it is something else, with which no wave continues a series."""
    if not isinstance(stated, dict) or set(stated) != set(PublicGraph._fields):
        return None
    return PublicGraph(**stated)


def _seen_notices(stated: object) -> tuple[SeenNotice, ...] | None:
    if not isinstance(stated, list):
        return None
    notices = [entry for entry in stated if isinstance(entry, dict) and entry.keys() == set(SeenNotice._fields)]
    if len(notices) < len(stated) or not all(
        type(entry["version"]) is int
        and all(isinstance(entry[key], str) for key in ("sha256", "purpose", "seen"))
        and isinstance(entry["retention"], (str, NoneType))
        for entry in notices
    ):
        return None
    return tuple(SeenNotice(**entry) for entry in notices)


def _seen(notice: Notice, now: datetime | None) -> SeenNotice:
    retention = None if notice.retention is None else notice.retention.strftime(_TIME)
    day = (now or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%d")
    return SeenNotice(notice.version, notice.sha256, notice.purpose, retention, day)


def _kept_wave(stated: object) -> KeptWave | None:
    """Read the place and the cost of an answer about neighbours; None if it is something else."""
    with suppress(TypeError, KeyError, ValueError, ArithmeticError):
        if isinstance(stated, dict) and set(stated) == {"series", "wave", "turns", "people", *ListCost._fields}:
            cost, turns = ListCost(*(Decimal(stated[key]) for key in ListCost._fields)), stated["turns"]
            is_place = all(isinstance(stated[key], str) for key in ("series", "people")) and type(stated["wave"]) is int
            if is_place and type(turns) in (int, NoneType) and min(cost) > 0:
                return KeptWave(stated["series"], stated["wave"], cost, turns, stated["people"])
    return None


def _is_list_answer(report: dict[str, Any]) -> bool:
    return (
        set(report) == {"campaign", "node", "answer"}
        and all(isinstance(report[key], str) for key in ("campaign", "node"))
        and (
            isinstance(report["answer"], str)
            or (isinstance(report["answer"], list) and all(type(count) is int for count in report["answer"]))
        )
    )


def _check_series(question: Question, node: str, before: Sequence[_Kept], *, shared_device: bool) -> None:
    """Refuse a wave that does not continue what this device has answered.

    Each wave of a series is answered once, and of a series in turns one wave. It is in turns if this document says so
    or if one that was answered did: an organiser could change the number, or leave it out, to ask a person again.
    People and graph stay those of the first document that was answered.
    """
    asked = _asked(question)
    for kept in before:
        earlier = None if kept.wave is None or kept.wave.series != asked.series else kept.wave
        if earlier is None and kept.report["campaign"] != asked.series:
            continue
        if kept.graph != question.graph or (earlier is not None and earlier.people != asked.people):
            raise _other_people(asked.wave)
        if kept.report["node"] != node:
            if not shared_device:
                raise _another_node()
            continue
        if earlier is None:
            continue
        place = earlier.wave
        if asked.turns is not None or earlier.turns is not None:
            raise CampaignError(
                f"this device has answered wave {place} of this series, which is asked in turns: a person answers one "
                "wave of it, and no other one"
            )
        if place > asked.wave:
            raise CampaignError(f"wave {asked.wave} is over: this device has answered a later one of its series")
        if place == asked.wave:
            raise CampaignError(f"this device has answered another wave {place} of this series: each is answered once")
        if asked.documents[place] != kept.report["campaign"]:
            raise CampaignError(
                f"the wave is of another series: it does not continue the wave {place} that this device has answered"
            )


def _other_people(wave: int) -> CampaignError:
    return CampaignError(
        f"wave {wave} is about other people, or another graph, than its series: these never change between waves; do "
        "not answer it, and tell the campaign's contact"
    )


def _kept_limits(folder: Path) -> dict[str, Decimal]:
    """Return the person's limits by name; refuse those that cannot be read, because they cannot be kept."""
    path = folder / _LIMIT_NAME
    try:
        stated = _read_json(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        stated = None
    known = isinstance(stated, dict) and stated and not set(stated) - {"limit", "entry_limit"}
    limits: dict[str, Decimal] = {}
    for name, limit in stated.items() if isinstance(stated, dict) and known else [("", None)]:
        if not isinstance(limit, str) or not _COST.fullmatch(limit) or not Decimal(limit) > 0:
            raise RunError(f"{path} is damaged, and your limit unknown: restore it, or remove it and set a limit again")
        limits[name] = Decimal(limit)
    return limits


def _entry_limit(folder: Path, max_entry_epsilon: float | None) -> Decimal | None:
    kept = _kept_limits(folder).get("entry_limit")
    given = None if max_entry_epsilon is None else Decimal(max_entry_epsilon)
    return min((limit for limit in (kept, given) if limit is not None), default=None)


def _limit(folder: Path, max_epsilon: float | None) -> Decimal:
    given = [] if max_epsilon is None else [Decimal(max_epsilon)]
    kept = _kept_limits(folder).get("limit")
    if not (limits := given if kept is None else [*given, kept]):
        raise CampaignError("this device has no limit yet: give max_epsilon, or set a limit (--limit)")
    return min(limits)


def _damaged(path: Path) -> RunError:
    return RunError(
        f"{path} is damaged: restore it from a backup. Do not delete it: if its report was sent, "
        "a second draw would reveal more than the campaign states"
    )


def _reports_of(question: Question, folder: Path, seen: SeenNotice) -> dict[str, dict[str, Any]]:
    """Return this campaign's stored reports by node; record a new notice, and an epsilon of an earlier version."""
    kept = _kept_reports(folder, question.id)
    for one in kept:
        if not _fits(one.report, question):
            raise _damaged(one.path)
    _check_notice(seen, [notice for one in kept for notice in one.notices])
    for one in kept:
        # Without a notice, it was drawn by an earlier version, whose campaigns have one notice for ever.
        is_new = bool(one.notices) and seen.sha256 not in {notice.sha256 for notice in one.notices}
        if is_new or not one.recorded:
            notices = (*one.notices, seen) if is_new else one.notices
            _write(one._replace(epsilon=question.epsilon, notices=notices), replace=True)
    return {one.report["node"]: one.report for one in kept}


def _check_notice(seen: SeenNotice, before: Sequence[SeenNotice]) -> None:
    """Refuse a notice that is older than one that the device has seen; warn if it promises less."""
    latest = max((notice.version for notice in before), default=0)
    if seen.version < latest:
        raise CampaignError(
            f"its notice has version {seen.version}, and this device has seen version {latest}: get the campaign again"
        )
    if any(notice.version == seen.version and notice.sha256 != seen.sha256 for notice in before):
        raise CampaignError(
            f"this device has seen another notice of version {seen.version}: ask the campaign's contact; "
            "every change of a notice raises its version"
        )
    agreed = [notice.retention for notice in before if notice.retention is not None]
    if agreed and (seen.retention is None or seen.retention > min(agreed)):
        said = "gives no date any more" if seen.retention is None else f"says {seen.retention}"
        warnings.warn(
            f"you agreed that reports are deleted after {min(agreed)}, and the notice {said}: ask its contact",
            NoticeWarning,
            stacklevel=4,
        )


def _report_of_wave(
    question: Question, report: Mapping[str, Any], folder: Path, private: _Private, *, is_first: bool = False
) -> dict[str, Any]:
    """Return the report of the open wave, drawn once; what the device remembers is on disk before it is returned."""
    hashed = hashlib.sha256(report["node"].encode()).hexdigest()[:32]
    path = folder / f"{question.id}.{hashed}.memory.json"
    memory = _read_memory(path, question, is_first=is_first)
    wave = _open_wave(question, memory)
    if wave not in memory.waves:  # otherwise the record is not read
        before = memory
        memory = _withhold_details(lambda: randomize_wave(question, before, *_encode(question, private.value)))
        _write_text(path, _canonical(_memory_document(memory)), replace=True)
    features = None
    if isinstance(question.features, SeriesFeatures):
        codes = {i: feature.reports[wave] for i, feature in memory.features.items()}
        features = [codes.get(i) for i in range(len(question.features.series))]
    return {**report, "features": features, "label": memory.reports.get(wave), "wave": wave}


def _memory_document(memory: Memory) -> dict[str, Any]:
    document: dict[str, Any] = {
        "answers": {str(value): answer for value, answer in memory.answers.items()},
        "current": memory.current,
        "reports": {str(number): reported for number, reported in memory.reports.items()},
    }
    if memory.features:
        document["features"] = {str(i): _memory_document(feature) for i, feature in memory.features.items()}
    return document


def _read_memory(path: Path, question: Question, *, is_first: bool) -> Memory:
    """Read what the device remembers of a series. Once a wave was answered it must be there: fail closed."""
    try:
        document = _read_json(path.read_bytes())
    except FileNotFoundError:
        if is_first:
            return Memory()
        raise _damaged(path) from None
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise _damaged(path) from None
    with suppress(KeyError, TypeError, ValueError, AttributeError, IndexError):
        memory, features = _memory(document), question.features
        asked = features.series if isinstance(features, SeriesFeatures) else ()
        if (
            memory.waves
            and (not memory.reports or (isinstance(question.label, Series) and _remembers(memory, question.label)))
            and len(memory.features) == (features.sampled if isinstance(features, SeriesFeatures) else 0)
            and all(0 <= i < len(asked) for i in memory.features)
            and all(_remembers(kept, asked[i], left_out=True) for i, kept in memory.features.items())
            and all(set(kept.reports) == memory.waves for kept in memory.features.values())
        ):
            return memory
    raise _damaged(path)


def _memory(document: Mapping[str, Any]) -> Memory:
    answers, reports = ({int(key): value for key, value in document[name].items()} for name in ("answers", "reports"))
    features = {int(i): _memory(stated) for i, stated in document.get("features", {}).items()}
    return Memory(answers, document["current"], reports, features)


def _remembers(memory: Memory, series: Series, *, left_out: bool = False) -> bool:
    """Return whether a memory is one of a question; only a feature may be left out."""
    size = series.permanent.domain_size
    values, codes = [*memory.answers, memory.current], [*memory.answers.values(), *memory.reports.values()]
    return (
        _are_codes(values, [size + left_out] * len(values))
        and _are_codes(codes, [size] * len(codes))
        and memory.current in memory.answers
        and len(memory.answers) <= series.values
        and bool(memory.reports)
        and all(1 <= wave <= series.waves for wave in memory.reports)
    )


def _check_sum(before: list[_Kept], question: Question, limit: Decimal) -> None:
    spent = _total(kept.epsilon for kept in before)
    if _total([spent, question.epsilon]) > limit + _slack(limit):
        unknown = sum(not kept.recorded for kept in before)
        remark = f" (the cost of {unknown} is not recorded: answer its campaign again, which draws nothing)"
        remark = remark if unknown else ""
        waves = [kept.wave for kept in before] + [question.neighbours]
        relation = _relation([None if wave is None else wave.cost for wave in waves])
        raise CampaignError(
            f"a report would cost epsilon {_shown(question.epsilon)}. With {_shown(spent)} for {len(before)} "
            f"reports before (user level, {relation}) this is above your limit of {float(limit):g}{remark}: do not "
            "answer, or set a higher limit if you accept that (--limit, max_epsilon)"
        )


def _check_entries(before: Sequence[_Kept], cost: ListCost, limit: Decimal | None) -> None:
    """Refuse an answer that exceeds the limit of one entry, or leaves whole lists open without such a limit."""
    relation = "for one entry (two neighbour lists, one with a neighbour more)"
    if limit is None:
        if not cost.any_lists.is_finite():
            raise CampaignError(
                f"the answer does not protect whole neighbour lists. It would cost epsilon {_shown(cost.one_entry)} "
                f"{relation}: set a limit for that (max_entry_epsilon, --entry-limit), or do not answer"
            )
        return
    spent = _total(kept.wave.cost.one_entry for kept in before if kept.wave)
    if _total([spent, cost.one_entry]) > limit + _slack(limit):
        raise CampaignError(
            f"an answer would cost epsilon {_shown(cost.one_entry)} {relation}. With {_shown(spent)} for the waves "
            f"before this is above your limit of {float(limit):g}: do not answer, or set a higher limit if you accept "
            "that (--entry-limit, max_entry_epsilon)"
        )


def _is_report(report: dict[str, Any]) -> bool:
    features, label = report.get("features"), report.get("label")
    return (
        set(report) - {"wave"} == {"campaign", "node", "features", "label"}
        and type(report.get("wave", 1)) is int
        and isinstance(report["campaign"], str)
        and len(report["campaign"]) == 64
        and isinstance(report["node"], str)
        and not (features is None and label is None)
        and (
            features is None or (isinstance(features, list) and all(type(code) in (int, NoneType) for code in features))
        )
        and (type(label) in (int, NoneType) or (isinstance(label, list) and all(type(code) is int for code in label)))
    )


def _fits(report: dict[str, Any], question: Question) -> bool:
    if question.neighbours is not None or "answer" in report:
        return question.neighbours is not None and question.neighbours.mechanism.fits(report.get("answer"))
    parts = ((report["features"], question.features), (report["label"], question.label))
    return ("wave" in report) == (question.waves is not None) and all(
        reported is None or (asked is not None and asked.fits(reported)) for reported, asked in parts
    )


def _write(kept: _Kept, *, replace: bool = False) -> None:
    """Write a report with its epsilon, rounded up, its graph, and the notices that the person saw."""
    stated: dict[str, Any] = {"epsilon": _rounded_up(kept.epsilon)}
    if kept.graph is not None:
        stated["graph"] = kept.graph._asdict()
    if kept.wave is not None:
        costs = {key: _rounded_up(getattr(kept.wave.cost, key)) for key in ListCost._fields}
        stated["neighbours"] = kept.wave._asdict() | costs
        del stated["neighbours"]["cost"]
    notices = [notice._asdict() for notice in kept.notices]
    _write_text(kept.path, _canonical({**kept.report, **stated, "notices": notices}), replace=replace)


def _rounded_up(epsilon: Decimal) -> str:
    with localcontext(prec=60):
        finite = epsilon.is_finite()
        return f"{epsilon.quantize(Decimal('1e-18'), rounding=ROUND_CEILING):f}" if finite else "Infinity"


def _write_text(path: Path, text: str, *, replace: bool) -> None:
    """Write a file that its owner alone can read. A crash leaves a whole file or none, or the one before."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            draft.replace(path)
        else:
            os.link(draft, path)  # unlike a rename, it does not replace a file
        _sync_folder(path.parent)
    except OSError as error:
        raise RunError(f"the report cannot be stored in {path.parent}: {error.strerror}; nothing was sent") from None
    finally:
        with suppress(OSError):
            draft.unlink()


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # folders cannot be opened on Windows, and their entries are durable
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- The collector ---------------------------------------------------------------------------------------------------


def send(
    url: str,
    report: DrawnReport,
    token: str,
    *,
    again: bool = False,
    attempts: int = 8,
    timeout: float = 30.0,
    sleep: Callable[[float], None] = time.sleep,
) -> Receipt:
    """Send a report to the collector, unless the collector already holds one of this node.

    The collector is asked first, by `has_reported`. A second draw, from another device or after the store was lost,
    would be refused on arrival, and those who run the server would have seen it: so it does not leave this device.
    Where the first answer was lost, `again` sends the same report once more, which changes nothing.

    An answer counts only if its receipt names this campaign, this node and the hash of this report. So the login page
    of a network, which answers everything, is not taken for the collector.

    An overloaded, restarting or unreachable collector is tried again, after the time that it requests and at least
    0.5, 1, 2, ... seconds. Each pause is shortened at random by up to half, so that many devices do not return at once.

    Args:
        url: the collector's address: https, or http on this machine, because the token must not be sent unencrypted.
        report: the result of `answer` or `answer_neighbours`, or what `DrawnReport.read` made of its `text`. Other
            values are refused: their length would tell what they say.
        token: the node's token.
        again: send although the collector holds a report of this node: only this very report, from this store.
        attempts: maximum number of attempts.
        timeout: seconds to wait for each response.
        sleep: function that waits.

    Returns:
        The collector's receipt; it is true if the report was stored now, false if it had been stored before.
    """
    if not isinstance(report, DrawnReport):
        raise SendError("the report has no length: send what `answer` returned, or DrawnReport.read of its text")
    if not again:
        standing = has_reported(url, report["node"], token, attempts=attempts, timeout=timeout, sleep=sleep)
        if standing not in ("missing", "earlier"):
            raise SendError(f"{_REASONS[standing]}; nothing was sent")
    request = _request(url, _place_of(report["node"]), token, "PUT", report.text.encode())
    remedy = "the report is stored: send the same one again later"
    status, answer = _deliver(request, attempts, timeout, sleep, remedy, _read_answer)
    return _receipt(answer, report, is_new=status == 201)


def has_reported(
    url: str,
    node: str,
    token: str,
    *,
    attempts: int = 8,
    timeout: float = 30.0,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Ask the collector whether a node has reported. Nothing of a report is sent.

    Args:
        url: the collector's address: https, or http on this machine, because the token must not be sent unencrypted.
        node: name of the node in the public graph.
        token: the node's token.
        attempts: maximum number of attempts.
        timeout: seconds to wait for each response.
        sleep: function that waits.

    Returns:
        `stored`, `earlier` (in another wave of the series only), `missing`, `withdrawn`, or `purged` (with the whole
        campaign).
    """
    request = _request(url, _place_of(node), token, "GET")
    remedy = "nothing was sent, and what this device drew stays here: try again later"
    _, answer = _deliver(request, attempts, timeout, sleep, remedy, _read_answer)
    return _standing(answer, "earlier")


def withdraw(
    url: str,
    node: str,
    token: str,
    *,
    attempts: int = 8,
    timeout: float = 30.0,
    sleep: Callable[[float], None] = time.sleep,
) -> WithdrawalReceipt:
    """Withdraw a node's reports, or object before there is one: the collector stores none of this node again.

    This needs no report on this device, cannot be undone, and works after the campaign has closed. Withdrawing again,
    after a failure or by mistake, changes nothing. This device keeps what it drew, and counts its epsilon for ever,
    because nobody can tell who has seen the report. A busy collector is tried again, as by `send`.

    Args:
        url: the collector's address: https, or http on this machine, because the token must not be sent unencrypted.
        node: name of the node in the public graph.
        token: the node's token.
        attempts: maximum number of attempts.
        timeout: seconds to wait for each response.
        sleep: function that waits.

    Returns:
        The collector's receipt; it is true if the reports were withdrawn now, false if they had been before.
    """
    request = _request(url, _place_of(node), token, "DELETE")
    _, answer = _deliver(request, attempts, timeout, sleep, "withdraw again later", _read_answer)
    document = _json_object(answer)
    stated = document.get("receipt")
    if not _is_receipt(stated, "campaign node withdrawn signature", {"node": node}):
        raise SendError("what answered did not confirm the withdrawal: it may be the login page of a network")
    return WithdrawalReceipt(**stated, is_new=document.get("status") == "withdrawn")


def check_receipt(
    url: str,
    receipt: Mapping[str, str],
    *,
    attempts: int = 8,
    timeout: float = 30.0,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Ask the collector whether it signed a receipt, and what it holds of the receipt's node now.

    Args:
        url: the collector's address: https, or http on this machine.
        receipt: the document of a receipt that `send` or `withdraw` returned.
        attempts: maximum number of attempts.
        timeout: seconds to wait for each response.
        sleep: function that waits.

    Returns:
        `stored`, `another` (another report of this node), `missing`, `withdrawn`, or `purged` (with the whole
        campaign). A receipt that the collector did not sign raises an error.
    """
    content = _canonical(dict(receipt)).encode()
    request = _request(url, "receipts", "", "POST", content)
    _, answer = _deliver(request, attempts, timeout, sleep, "check it again later", _read_answer)
    return _standing(answer, "another")


def _standing(answer: bytes, other: str) -> str:
    """Return what the collector says that it holds of a node: `other`, or one of four words that all routes know."""
    document = _json_object(answer)
    status = document.get("status")
    if set(document) != {"status"} or status not in ("stored", other, "missing", "withdrawn", "purged"):
        raise SendError(
            "what answered did not say what the collector holds: it may be the login page of a network, or another "
            "collector"
        )
    return str(status)


class Published(NamedTuple):
    """What a collector publishes, as files on this device that were checked."""

    campaign: Path
    question: Question
    table: Path | None = None
    """The belief table of a wave about neighbours; None for a randomized list, which has none."""
    people: Path | None = None
    """The file of all people of a wave about neighbours."""


def fetch(
    url: str,
    folder: str | os.PathLike[str],
    *,
    attempts: int = 8,
    timeout: float = 30.0,
    sleep: Callable[[float], None] = time.sleep,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    now: datetime | None = None,
) -> Published:
    """Get the campaign that is open and all that is published for it, and check it; nothing about a person is sent.

    A wave about neighbours has two files, the belief table and the people; a randomized list has the people alone. They
    are taken whole, so that nobody learns whom a device looks up, and counted and compared with the hashes in the
    document. A file that is there already is not taken again, so that a repetition is cheap. The document is written
    last, as `campaign.json`: with it, the folder is complete. A failure leaves the folder as it was.

    Args:
        url: the collector's address: https, or http on this machine.
        folder: folder of one campaign or series on the device; created if needed. A campaign of another series than
            the one in it is refused, and so is an earlier wave.
        attempts: maximum number of attempts for each file.
        timeout: seconds to wait for each piece.
        sleep: function that waits.
        progress: takes what is taken, the bytes so far and their number.
        now: the time; default: the collector's clock, which its answer states. Where the device's differs by more than
            five minutes, it warns.
    """
    source, place = _Source(url, attempts, timeout, sleep, progress), Path(folder)
    before = _fetched(place)
    text, question = source.campaign(now)
    _check_fetched(question, before, place)
    try:
        place.mkdir(parents=True, exist_ok=True)
        try:
            files = source.files(question, place)
        except SendError:
            text, newer = source.campaign(now)
            if newer.id == question.id:
                raise
            question = newer  # the next wave was opened in between
            _check_fetched(question, before, place)
            files = source.files(question, place)
        _write_text(place / _FETCHED_NAME, text, replace=True)
        earlier = None if before is None or before.neighbours is None else before.neighbours.table
        if earlier is not None and (old := _table_path(place, earlier)) != files.get("table"):
            old.unlink(missing_ok=True)
    except OSError as error:
        raise RunError(f"{place} cannot be written: {error.strerror}") from None
    return Published(place / _FETCHED_NAME, question, **files)


def _table_path(folder: Path, sha256: str) -> Path:
    return folder / f"{sha256}.beliefs"


class _Source(NamedTuple):
    """A collector from which whole files are taken."""

    url: str
    attempts: int
    timeout: float
    sleep: Callable[[float], None]
    progress: Callable[[str, int, int], None]

    def campaign(self, now: datetime | None) -> tuple[str, Question]:
        """Return the text of the campaign that is open, and what it asks."""
        request = _request(self.url, "campaign", "", "GET")
        content, clock = self._load(
            request, lambda response: (b"".join(_pieces(response, _MAX_CAMPAIGN_LENGTH)), _clock(response))
        )
        question = verify(content, max_epsilon=float("inf"), now=now or clock)
        if now is None and clock is not None and abs(datetime.now(UTC) - clock) > _CLOCKS_DIFFER:
            warnings.warn(
                f"the collector's clock says {clock:%Y-%m-%d %H:%M:%S} UTC, and this device's another time: set it, "
                "because it decides here whether the campaign is open",
                ClockWarning,
                stacklevel=4,
            )
        return content.decode(), question

    def files(self, question: Question, folder: Path) -> dict[str, Path]:
        """Take the files of a wave about neighbours that are not there; other campaigns have none."""
        if (asked := question.neighbours) is None:
            return {}
        files, people = {}, folder / f"{asked.people}.people"
        if asked.table is not None:
            size = _Layout.of_table(asked.nodes, len(question.classes)).size
            files["table"] = self._file(_table_path(folder, asked.table), asked.table, size)
        return files | {"people": self._file(people, asked.people, _Layout.of_people(asked.nodes).size)}

    def _file(self, path: Path, sha256: str, most: int) -> Path:
        if path.exists() and _file_sha256(path) == sha256:
            return path
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        try:
            request = _request(self.url, f"published/{sha256}", "", "GET")
            self._load(request, lambda response: self._write(draft, request, response, most))
            if (found := _file_sha256(draft)) != sha256:
                raise CampaignError(
                    f"a published file has the SHA-256 {found}, and the campaign names {sha256}: it is not used; try "
                    "again later, and tell the campaign's contact if this stays"
                )
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        return path

    def _write(
        self, draft: Path, request: urllib.request.Request, response: http.client.HTTPResponse, most: int
    ) -> None:
        """Write an answer to a draft; if it breaks off, the next request asks for the rest."""
        done = draft.stat().st_size if draft.exists() else 0
        if response.headers.get("Content-Range", "").split("-")[0] != f"bytes {done}":
            draft.unlink(missing_ok=True)
            done = 0
        total = done + (response.length or most)
        try:
            with draft.open("ab") as file:
                for piece in _pieces(response, min(most, _MAX_PUBLISHED_LENGTH) - done):
                    try:
                        file.write(piece)
                    except OSError as error:
                        raise RunError(f"{draft.parent} cannot be written: {error.strerror}") from None
                    done += len(piece)
                    self.progress("published files", done, total)
        finally:
            # A file has one content for ever: its name is its hash, which is checked at the end.
            request.add_header("Range", f"bytes={done}-")

    def _load(self, request: urllib.request.Request, read: Callable[[http.client.HTTPResponse], T]) -> T:
        remedy = "what is complete is kept: fetch again later"
        return _deliver(request, self.attempts, self.timeout, self.sleep, remedy, read)


def _pieces(response: http.client.HTTPResponse, most: int) -> Iterator[bytes]:
    """Return the pieces of an answer; refuse one that is too long, and have one that broke off taken again."""
    done = 0
    while piece := response.read(_PIECE_LENGTH):
        done += len(piece)
        if done > most:
            raise SendError(f"the collector sends more than {most} bytes, which is too much for this campaign")
        yield piece
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)


def _clock(response: http.client.HTTPResponse) -> datetime | None:
    """Return the time that the collector's answer states; None if it states none."""
    with suppress(ValueError, TypeError):
        return parsedate_to_datetime(response.headers["Date"]).astimezone(UTC)
    return None


def _file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetched(folder: Path) -> Question | None:
    """Return the campaign that was fetched into a folder before, closed or not."""
    try:
        return _question(*_parsed((folder / _FETCHED_NAME).read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, CampaignError):
        raise RunError(f"{folder / _FETCHED_NAME} is no campaign that was fetched: choose another folder") from None


def _check_fetched(question: Question, before: Question | None, folder: Path) -> None:
    """Refuse a campaign that does not continue the one in the folder, or is an earlier state of it."""
    if before is None:
        return
    later, earlier = question.neighbours, before.neighbours
    documents = () if later is None else later.documents
    if before.id not in (question.id, *documents):
        if earlier is not None and question.id in earlier.documents:
            raise CampaignError(
                f"the collector serves an earlier document of the series than wave {earlier.wave}, which is in "
                f"{folder}: fetch again later"
            )
        raise CampaignError(f"{folder} holds another campaign or series: choose another folder for this one")
    if later is not None and (question.graph != before.graph or (earlier and earlier.people != later.people)):
        raise _other_people(later.wave)
    if later is not None and earlier is not None and later.turns != earlier.turns:
        raise CampaignError(
            f"wave {later.wave} is asked in other turns than wave {earlier.wave}, which is in {folder}: a series keeps "
            "its turns; ask the campaign's contact"
        )
    if before.id == question.id and question.notice.version < before.notice.version:
        raise CampaignError(
            f"the collector serves notice {question.notice.version}, older than {before.notice.version}, which is in "
            f"{folder}: fetch again later"
        )


def _read_answer(response: http.client.HTTPResponse) -> tuple[int, bytes]:
    return response.status, response.read(_MAX_ANSWER_LENGTH)


def _deliver(
    request: urllib.request.Request,
    attempts: int,
    timeout: float,
    sleep: Callable[[float], None],
    remedy: str,
    read: Callable[[http.client.HTTPResponse], T],
) -> T:
    """Return what `read` makes of the answer to a request that may be repeated; raise an error unless it is granted."""
    opener = _opener(request)
    failure = ""
    for attempt in range(attempts):
        pause = 0.5 * 2**attempt * (1 - secrets.randbelow(1000) / 2000)
        try:
            with opener.open(request, timeout=timeout) as response:
                if response.status in (200, 201, 206):
                    return read(response)
                raise SendError(f"the collector answered {response.status}, which is not a response to a report")
        except urllib.error.HTTPError as error:
            with error:
                if error.code not in _RETRIED_STATUSES:
                    raise SendError(_refusal(error)) from None
                failure = f"the collector answered {error.code}"
                pause = max(pause, _requested_pause(error.headers.get("Retry-After")))
        except (http.client.InvalidURL, ValueError):
            raise SendError("the collector's address cannot be used; check it") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise SendError("the collector's certificate is not valid; nothing was sent") from None
            failure = f"the collector cannot be reached ({type(reason).__name__})"
        if pause > _MAX_PAUSE_SECONDS:
            raise SendError(f"{failure} and asks to wait {pause:.0f} seconds; {remedy}")
        if attempt + 1 < attempts:
            sleep(pause)
    raise SendError(f"{failure}, {attempts} times; {remedy}")


def _refusal(error: urllib.error.HTTPError) -> str:
    """Return why a request was refused, in words of this client: the collector's own are not shown."""
    reason = None
    with suppress(OSError, http.client.HTTPException):
        reason = _json_object(error.read(_MAX_ANSWER_LENGTH)).get("error")
    known = _REASONS.get(reason) if isinstance(reason, str) else None
    return known or _REFUSALS.get(error.code, f"the collector answered {error.code}")


# Reasons that share the HTTP status of another one.
_REASONS = {
    "earlier_wave": "this part of the series is over, and the next wave is open: fetch that one, and answer it",
    "stored": "the collector holds a report of this node already: only if it is this very one, from this store, may it "
    "be sent again (again=True, --again)",
    "withdrawn": "the report of this node was withdrawn: it is deleted, and none is accepted again",
    "purged": "the campaign's reports were deleted, as it announced: no report is accepted any more",
    "wrong_receipt": "the collector did not sign this receipt: it is altered, or another collector's",
}


def _place_of(node: str) -> str:
    return f"reports/{urllib.parse.quote(check_node(node), safe='')}"


def _request(url: str, place: str, token: str, method: str, content: bytes | None = None) -> urllib.request.Request:
    """Make a request to a place below the collector's address."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        raise SendError("the collector's address cannot be used; check it") from None
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_this_machine(parts.hostname or "")):
        raise SendError("the collector's address must begin with https:// (http:// only on this machine)")
    if not token.isascii() or not token.isprintable():
        raise SendError("the token is damaged: it must be plain characters")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return urllib.request.Request(  # noqa: S310 (the scheme is checked)
        f"{url.rstrip('/')}/v1/{place}",
        data=content,
        method=method,
        headers=headers | ({} if content is None else {"Content-Type": "application/json"}),
    )


def _opener(request: urllib.request.Request) -> urllib.request.OpenerDirector:
    """Use the system's proxy, but for this machine: a token for it must not travel to a proxy unencrypted.

    Nothing is redirected: who leads elsewhere could lead to an address without encryption.
    """
    if _is_this_machine(urllib.parse.urlsplit(request.full_url).hostname or ""):
        return urllib.request.build_opener(_StayHere, urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(_StayHere)


class _StayHere(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow no redirection."""


def _receipt(answer: bytes, report: Mapping[str, Any], *, is_new: bool) -> Receipt:
    """Return the receipt in the collector's answer if it is that of this report."""
    stated = _json_object(answer).get("receipt")
    expected = {
        "campaign": report["campaign"],
        "node": report["node"],
        "report_sha256": hashlib.sha256(_canonical(dict(report)).encode()).hexdigest(),
    }
    if not _is_receipt(stated, "campaign node report_sha256 stored signature", expected):
        raise SendError(
            "what answered did not confirm this report: it may be the login page of a network, or another collector. "
            "The report is stored on this device: send the same one again later"
        )
    return Receipt(**stated, is_new=is_new)


def _is_receipt(stated: object, keys: str, expected: Mapping[str, str]) -> TypeGuard[dict[str, str]]:
    """Return whether this is a receipt with exactly these keys and values; the others are plain characters."""
    return (
        isinstance(stated, dict)
        and set(stated) == set(keys.split())
        and all(stated[key] == value for key, value in expected.items())
        and all(
            isinstance(value, str) and _PLAIN.fullmatch(value) for key, value in stated.items() if key not in expected
        )
    )


def _json_object(answer: bytes) -> dict[str, Any]:
    """Return the JSON object in an answer, empty if it is something else."""
    document = None
    with suppress(ValueError):
        document = _read_json(answer, most=_MAX_ANSWER_LENGTH)
    return document if isinstance(document, dict) else {}


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def _requested_pause(header: str | None) -> float:
    """Return the seconds of a Retry-After header, which holds seconds or a date."""
    if not header:
        return 0.0
    if header.isascii() and header.isdigit():
        return float(header[:9])
    with suppress(ValueError, TypeError):
        return (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds()
    return 0.0
