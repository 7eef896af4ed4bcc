"""The ledger of a device: what all reports in a store cost together, and the person's own limits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from veilgraph.client.epsilons import ListCost, shown, slack, total_epsilon
from veilgraph.client.kept import COST_TEXT, KeptReport, SeenNotice, kept_reports
from veilgraph.client.question import Question
from veilgraph.client.reading import canonical_json, read_json
from veilgraph.client.refusals import CampaignError, RunError
from veilgraph.client.store import locked_store, write_text

_LIMIT_NAME = "limit.json"


class Answered(NamedTuple):
    """One report of this device: its campaign, its node, and its epsilon at user level, as `relation` says."""

    campaign: str
    node: str
    epsilon: Decimal
    """What counts against the limit: of a report, for any two records; of an answer about neighbours, for any two
    lists, or 0 if whole lists are not protected."""
    notices: tuple[SeenNotice, ...] = ()
    """Notices that the person saw, the first one when they answered."""
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
        return total_epsilon(entry.epsilon for entry in self.entries)

    @property
    def relation(self) -> str:
        """Pairs that the sum protects from each other, in words: records, and lists where an answer protects them."""
        return _relation([entry.list_cost for entry in self.entries])

    @property
    def spent_with_same_list(self) -> Decimal:
        """Sum of the epsilons of all reports: user level, any two records with the same neighbour list.

        An answer about the list adds nothing: it depends on the list alone.
        """
        return total_epsilon(entry.epsilon for entry in self.entries if entry.list_cost is None)

    @property
    def spent_on_one_entry(self) -> Decimal:
        """Sum of the epsilons of all answers about the neighbour list: two lists, one with a neighbour more."""
        return total_epsilon(entry.list_cost.one_entry for entry in self.entries if entry.list_cost)

    @property
    def protects_lists(self) -> bool:
        """Whether all answers together protect whole neighbour lists."""
        return all(entry.list_cost is None or entry.list_cost.any_lists.is_finite() for entry in self.entries)


def _relation(lists: Sequence[ListCost | None]) -> str:
    """Name the pairs that a sum of epsilons at user level is about.

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


def answered(store: str | os.PathLike[str]) -> tuple[Answered, ...]:
    """List the campaigns that this device has answered, with their costs; `answer` compares the sum with the limit."""
    return ledger(store).entries


def ledger(store: str | os.PathLike[str]) -> Ledger:
    """Return the ledger of a device: all that it has answered, and the limit; refuse one that cannot be read."""
    if not Path(store).exists():
        return Ledger((), None)
    with locked_store(Path(store)) as folder:
        entries = (
            Answered(
                kept.report["campaign"],
                kept.report["node"],
                kept.epsilon,
                kept.notices,
                None if kept.place is None else kept.place.cost,
            )
            for kept in kept_reports(folder)
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
    with locked_store(Path(store)) as folder:
        kept = _kept_limits(folder)  # one that cannot be read is not replaced
        limits = kept | {name: Decimal(repr(float(value))) for name, value in given.items()}
        stated = {name: f"{value:f}" for name, value in limits.items()}
        write_text(folder / _LIMIT_NAME, canonical_json(stated), replace=True)


def _kept_limits(folder: Path) -> dict[str, Decimal]:
    """Return the person's limits by name; refuse those that cannot be read, because they cannot be kept."""
    path = folder / _LIMIT_NAME
    try:
        stated = read_json(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        stated = None
    known = isinstance(stated, dict) and stated and not set(stated) - {"limit", "entry_limit"}
    limits: dict[str, Decimal] = {}
    for name, limit in stated.items() if isinstance(stated, dict) and known else [("", None)]:
        if not isinstance(limit, str) or not COST_TEXT.fullmatch(limit) or not Decimal(limit) > 0:
            raise RunError(f"{path} is damaged, and your limit unknown: restore it, or remove it and set a limit again")
        limits[name] = Decimal(limit)
    return limits


def entry_limit_of(folder: Path, max_entry_epsilon: float | None) -> Decimal | None:
    """Return the limit of one entry of the neighbour list, given or kept; None without one."""
    kept = _kept_limits(folder).get("entry_limit")
    given = None if max_entry_epsilon is None else Decimal(max_entry_epsilon)
    return min((limit for limit in (kept, given) if limit is not None), default=None)


def limit_of(folder: Path, max_epsilon: float | None) -> Decimal:
    """Return the limit of all reports together, given or kept: the smaller one."""
    given = [] if max_epsilon is None else [Decimal(max_epsilon)]
    kept = _kept_limits(folder).get("limit")
    if not (limits := given if kept is None else [*given, kept]):
        raise CampaignError("this device has no limit yet: give max_epsilon, or set a limit (--limit)")
    return min(limits)


def check_sum(before: list[KeptReport], question: Question, limit: Decimal) -> None:
    """Refuse a report that would exceed the limit together with all reports before."""
    spent = total_epsilon(kept.epsilon for kept in before)
    if total_epsilon([spent, question.epsilon]) > limit + slack(limit):
        places = [*(kept.place for kept in before), question.asked.place]
        relation = _relation([None if place is None else place.cost for place in places])
        raise CampaignError(
            f"a report would cost epsilon {shown(question.epsilon)}. With {shown(spent)} for {len(before)} "
            f"reports before (user level, {relation}) this is above your limit of {float(limit):g}: do not "
            "answer, or set a higher limit if you accept that (--limit, max_epsilon)"
        )


def check_entries(before: Sequence[KeptReport], cost: ListCost, limit: Decimal | None) -> None:
    """Refuse an answer that exceeds the limit of one entry, or leaves whole lists open without such a limit."""
    relation = "for one entry (two neighbour lists, one with a neighbour more)"
    if limit is None:
        if not cost.any_lists.is_finite():
            raise CampaignError(
                f"the answer does not protect whole neighbour lists. It would cost epsilon {shown(cost.one_entry)} "
                f"{relation}: set a limit for that (max_entry_epsilon, --entry-limit), or do not answer"
            )
        return
    spent = total_epsilon(kept.place.cost.one_entry for kept in before if kept.place)
    if total_epsilon([spent, cost.one_entry]) > limit + slack(limit):
        raise CampaignError(
            f"an answer would cost epsilon {shown(cost.one_entry)} {relation}. With {shown(spent)} for the waves "
            f"before this is above your limit of {float(limit):g}: do not answer, or set a higher limit if you accept "
            "that (--entry-limit, max_entry_epsilon)"
        )
