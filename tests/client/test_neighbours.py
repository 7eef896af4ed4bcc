"""A wave about private neighbours on a device: exact guarantees, one answer, and refusals that tell nothing."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.forged_waves import FORGED
from tests.support.forgeries import rewritten
from tests.support.neighbour_lists import rows_in, text_of
from tests.support.neighbour_series import (
    ANSWERS,
    CAPPED,
    CLASS,
    CLOSES,
    HISTOGRAM,
    NAMES,
    PEOPLE,
    PEOPLE_FILE,
    TABLE,
    first_document,
    waves_of,
)
from tests.support.neighbour_series import LIST as RANDOMIZED
from veilgraph.campaign import Campaign
from veilgraph.campaign.neighbours.next_wave import NextWave
from veilgraph.campaign.neighbours.people_file import PeopleFile, people_file
from veilgraph.campaign.neighbours.wave import series_of
from veilgraph.campaign.report import Report
from veilgraph.client import Published, answer, answer_neighbours, ledger, set_limit, turn_of, verify
from veilgraph.client.lists import RandomizedList, belief, finest_scale
from veilgraph.client.mechanisms import Table
from veilgraph.client.neighbours import ListQuestion
from veilgraph.errors import CampaignError, DomainError, RunError
from veilgraph.privacy import belief_table
from veilgraph.privacy.belief_table import BeliefTable
from veilgraph.privacy.mechanisms import (
    NeighbourhoodClass,
    NeighbourhoodHistogram,
    NeighbourMechanism,
    RandomizedNeighbourList,
)
from veilgraph.privacy.mechanisms.random_source import WORDS
from veilgraph.privacy.strict_json import canonical_json, content_id

LIST = ["u0", "u10", "ü", "u0"]
IN_ORDER = PeopleFile.of(NAMES).names  # rows of the table


def respond(wave: Campaign, store: Path, neighbours: Any = LIST, **settings: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"node": "u1", "max_epsilon": 20.0, "max_entry_epsilon": 20.0}
    files = {"table": TABLE.to_bytes(), "people": PEOPLE_FILE}
    files |= {name: settings.pop(name) for name in files if name in settings}
    return answer_neighbours(Published(wave.to_json(), **files), neighbours, store=store, **(given | settings))


class Unread:
    """A list that must not be read."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("the list was read")


@pytest.mark.parametrize("classes", [2, 3, 4, 7, 18, 40])
def test_every_code_stands_for_the_belief_of_the_package(classes: int) -> None:
    beliefs = np.random.default_rng(classes).dirichlet([0.3] * classes, 50)
    table = BeliefTable.of(beliefs)
    assert finest_scale(classes) == belief_table.finest_scale(classes)
    assert [belief(code, classes) for code in table.codes.tolist()] == [tuple(row) for row in table.units().tolist()]


@pytest.mark.parametrize("mechanism", ANSWERS.values(), ids=ANSWERS)
def test_the_client_finds_the_exact_epsilons_of_the_package(mechanism: NeighbourMechanism) -> None:
    *_, wave = waves_of(CLASS, mechanism)
    asked = verify(wave.to_json(), max_epsilon=100.0).asked.about_a_list()
    assert float(asked.mechanism.cost.one_entry) == pytest.approx(mechanism.list_loss.one_entry, rel=1e-12)
    assert float(asked.mechanism.cost.any_lists) == pytest.approx(mechanism.list_loss.any_lists, rel=1e-12)
    total = wave.guarantee.lists
    assert total is not None
    assert float(asked.so_far.one_entry) == pytest.approx(total.one_entry, rel=1e-12)


def test_sums_are_those_of_the_package_and_a_neighbour_counts_once() -> None:
    text = waves_of(CLASS)[1].to_json()
    _, sums = asked_by(text).open_files(Published(text, PEOPLE_FILE, TABLE.to_bytes()), "u1")
    rows = [IN_ORDER.index(name) for name in LIST]
    assert sums(LIST) == tuple(TABLE.sums([rows])[0].tolist())
    assert sums([]) == (0, 0, 0)


def coarse(mechanism: Any, sums: tuple[int, ...], draws: int) -> Counter[tuple[int, ...]]:
    source = np.random.default_rng(5)

    def word() -> int:
        return int(source.integers(0, WORDS))

    return Counter(mechanism.report(sums, word) for _ in range(draws))


@pytest.mark.parametrize("sums", [(60, 0, 0), (30, 30, 0), (0, 0, 0)])
def test_sets_are_drawn_with_the_probabilities_of_the_package(sums: tuple[int, ...]) -> None:
    asked = verify(waves_of(CLASS)[1].to_json(), max_epsilon=9.0).asked.about_a_list()
    draws = 4000
    counts = coarse(asked.mechanism, sums, draws)
    for report in CLASS.reports():
        chance = float(CLASS.probability(report, sums))
        # Five standard errors of a share.
        assert abs(counts[report] / draws - chance) < 5 * np.sqrt(chance * (1 - chance) / draws) + 1e-9


def test_noise_is_drawn_with_the_probabilities_of_the_package() -> None:
    mechanism = NeighbourhoodHistogram(3, 60.0, 60)  # little noise, so that each count is likely
    asked = verify(waves_of(mechanism)[1].to_json(), max_epsilon=99.0).asked.about_a_list()
    draws = 3000
    first = Counter(report[0] - 60 for report in coarse(asked.mechanism, (60, 0, 0), draws).elements())
    for value in (-2, -1, 0, 1, 2):
        chance = float(mechanism.noise.probability(value))
        assert abs(first[value] / draws - chance) < 5 * np.sqrt(chance * (1 - chance) / draws)


def test_words_decide_an_answer_as_the_documentation_says() -> None:
    asked = verify(waves_of(HISTOGRAM)[1].to_json(), max_epsilon=9.0).asked.about_a_list()
    more = HISTOGRAM.noise.more
    words = iter([more - 1, more - 1, more, more, *[more] * 2, more, 0, more])
    assert asked.mechanism.report((5, 7, 1), lambda: next(words)) == (7, 7, 0)
    picked = verify(waves_of(CLASS)[1].to_json(), max_epsilon=9.0).asked.about_a_list()
    words = iter([1, 0, 0, 0])  # the second of two classes; then it is inside
    assert picked.mechanism.report((9, 2, 9), lambda: next(words)) == (2,)


def test_a_list_above_the_cap_is_cut_and_never_refused() -> None:
    asked = verify(waves_of(CAPPED)[1].to_json(), max_epsilon=9.0).asked.about_a_list()
    still = WORDS - 1
    assert asked.mechanism.report((500, 3, 120), lambda: still) == (120, 3, 120)


@pytest.mark.parametrize("mechanism", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_is_drawn_once_and_small(mechanism: NeighbourMechanism, tmp_path: Path) -> None:
    wave = waves_of(mechanism)[1]
    report = respond(wave, tmp_path)
    assert set(report) == {"campaign", "node", "answer"}
    assert len(json.dumps(report)) < 1000
    assert respond(wave, tmp_path, Unread()) == report
    spent = ledger(tmp_path)
    assert float(spent.spent_on_one_entry) == pytest.approx(mechanism.list_loss.one_entry, rel=1e-9)
    whole = mechanism.list_loss.any_lists
    assert spent.protects_lists == np.isfinite(whole)
    assert float(spent.spent) == pytest.approx(whole if np.isfinite(whole) else 0.0, rel=1e-9)


def test_files_that_are_not_what_the_wave_names_are_refused_whatever_the_list_is(tmp_path: Path) -> None:
    wave = waves_of(CLASS)[1]
    with pytest.raises(CampaignError, match="the table is not the one that wave 1 names"):
        respond(wave, tmp_path, Unread(), table=TABLE.to_bytes()[:-1] + b"\xff")
    with pytest.raises(CampaignError, match="the file of people is not the one"):
        respond(wave, tmp_path, Unread(), people=PEOPLE_FILE[:-1] + b"v")
    whole = TABLE.to_bytes()
    tables = [whole[:-2] + b"\xff\xff", whole[:-2], whole + b"\0\0", b"something else"]  # no belief has the first code
    for table in (*tables, whole.replace(b'"num_classes": 3', b'"num_classes": 4')):
        named = NextWave(answer=CLASS, closes=CLOSES)
        forged = named.after(first_document(), people=PEOPLE, table=hashlib.sha256(table).hexdigest())
        with pytest.raises(CampaignError, match="is damaged"):
            respond(forged, tmp_path, Unread(), table=table)
    names = "".join(f"{name}\n" for name in NAMES).encode()
    people = [
        PEOPLE_FILE[:-1],
        PEOPLE_FILE + b"\0\0\0",
        people_file(NAMES[:-1]),
        people_file([*NAMES, "v"]),
        names,
        b"",
    ]
    people += [with_byte(SIZES, len(NAMES) - 1), with_byte(SIZES, len(NAMES) + 1), with_byte(SIZES + 1, 8)]
    for file in people:
        text = rewritten(wave, neighbours__people=hashlib.sha256(file).hexdigest())
        published = Published(text, file, whole)
        with pytest.raises(CampaignError, match="is damaged"):
            answer_neighbours(published, Unread(), node="u1", store=tmp_path, max_epsilon=9.0)


NO_LISTS = [[1, 0], [2, 2], [0, 6], [-1], [True], [0.0], ["0"], None, {}, "0"]


NO_ANSWERS: list[dict[str, Any]] = [{"answer": [0, 1, 2, 3]}, {"answer": "0"}, {"neighbours": None}, {"node": 3}]


NO_PLACES: list[dict[str, Any]] = [{"turns": "4"}, {"people": None}, {"wave": "1"}, {"more": 1}]


def test_a_series_is_answered_wave_by_wave_and_adds_up(tmp_path: Path) -> None:
    first, one, two = waves_of(CLASS, CAPPED)
    answer(first.to_json(), {"label": "red"}, node="u1", store=tmp_path, max_epsilon=20.0)
    respond(one, tmp_path)
    respond(two, tmp_path)
    kept = ledger(tmp_path)
    assert float(kept.spent) == pytest.approx(2.0 + 2.0 + 0.6, abs=1e-9)
    assert float(kept.spent_on_one_entry) == pytest.approx(2.1, abs=1e-9)


def fork_of_the_first_wave() -> Campaign:
    return waves_of(NeighbourhoodClass(3, 1.5), CLASS)[2]


CHAINS: dict[str, tuple[Callable[[], list[Campaign]], Callable[[], Campaign], str]] = {
    "another first wave": (lambda: waves_of(CLASS)[1:], lambda: waves_of(CAPPED)[1], "another wave 1"),
    "a wave that continues another one": (lambda: waves_of(CLASS)[1:], fork_of_the_first_wave, "of another series"),
    "an earlier wave": (lambda: waves_of(CLASS, CLASS)[2:], lambda: waves_of(CLASS, CLASS)[1], "wave 1 is over"),
}


@pytest.mark.parametrize(("before", "then", "reason"), CHAINS.values(), ids=CHAINS)
def test_a_wave_that_does_not_continue_what_was_answered_is_refused(
    before: Callable[[], list[Campaign]], then: Callable[[], Campaign], reason: str, tmp_path: Path
) -> None:
    for each in before():
        respond(each, tmp_path)
    with pytest.raises(CampaignError, match=reason):
        respond(then(), tmp_path, Unread())


def test_a_device_answers_a_series_as_one_node(tmp_path: Path) -> None:
    first, wave = waves_of(CLASS)
    answer(first.to_json(), {"label": "red"}, node="u2", store=tmp_path, max_epsilon=20.0)
    with pytest.raises(CampaignError, match="as another node"):
        respond(wave, tmp_path, Unread())
    assert respond(wave, tmp_path, shared_device=True)["node"] == "u1"


def test_limits_are_checked_before_the_list_is_read(tmp_path: Path) -> None:
    wave, other = waves_of(HISTOGRAM, HISTOGRAM)[1:]
    with pytest.raises(CampaignError, match="does not protect whole neighbour lists"):
        respond(wave, tmp_path, Unread(), max_entry_epsilon=None)
    with pytest.raises(CampaignError, match=r"above your limit of 0\.5"):
        respond(wave, tmp_path, Unread(), max_entry_epsilon=0.5)
    set_limit(tmp_path, 5.0, entry_limit=1.5)
    respond(wave, tmp_path, max_epsilon=None, max_entry_epsilon=None)
    with pytest.raises(
        CampaignError, match=r"above your limit of 1\.5: do not answer, or .*\(--entry-limit, max_entry"
    ):
        respond(other, tmp_path, Unread(), max_entry_epsilon=9.0)
    with pytest.raises(CampaignError, match="above your limit of 1"):
        respond(waves_of(CLASS)[1], tmp_path / "other", Unread(), max_epsilon=1.0)
    assert ledger(tmp_path).entry_limit is not None


def test_a_limit_that_is_exceeded_names_its_relation_and_the_remedy(tmp_path: Path) -> None:
    """The label costs 2; the class costs 2 more, for any two lists."""
    first, one = waves_of(CLASS)
    answer(first.to_json(), {"label": "red"}, node="u1", store=tmp_path, max_epsilon=3.0)
    with pytest.raises(CampaignError, match="user level, any two records with any two lists") as refused:
        respond(one, tmp_path, Unread(), max_epsilon=3.0)
    assert "above your limit of 3: do not answer, or set a higher limit" in str(refused.value)
    assert "(--limit, max_epsilon)" in str(refused.value)


SUMS: dict[str, tuple[list[NeighbourMechanism], str, float]] = {
    "the label alone": ([], "any two records", 2.0),
    "lists that are protected": ([CLASS], "any two records with any two lists", 4.0),
    "lists that are not protected": ([HISTOGRAM], "any two records with the same neighbour list", 2.0),
    "both": (
        [CLASS, HISTOGRAM],
        "any two records with any two lists, without the answers that do not protect whole lists",
        4.0,
    ),
}


@pytest.mark.parametrize(("answers", "relation", "spent"), SUMS.values(), ids=SUMS)
def test_the_ledger_says_which_lists_its_sum_is_about(
    answers: list[NeighbourMechanism], relation: str, spent: float, tmp_path: Path
) -> None:
    """The label costs 2, and with the same list an answer about the list adds nothing to that."""
    first, *waves = waves_of(*answers)
    answer(first.to_json(), {"label": "red"}, node="u1", store=tmp_path, max_epsilon=20.0)
    for wave in waves:
        respond(wave, tmp_path)
    kept = ledger(tmp_path)
    assert kept.relation == relation
    assert float(kept.spent) == pytest.approx(spent, rel=1e-9)
    assert float(kept.spent_with_same_list) == pytest.approx(2.0, rel=1e-9)
    of_reports = {entry.relation for entry in kept.entries if entry.list_cost is None}
    assert of_reports == {"any two records"}, "a report from a record says nothing about a list"


@pytest.mark.parametrize("limits", ['{"limit":"-1"}', "{}", '{"limit":"5","more":"1"}', '{"entry_limit":"x"}', "[]"])
def test_limits_that_cannot_be_read_stop_every_draw(limits: str, tmp_path: Path) -> None:
    (tmp_path / "limit.json").write_text(limits)
    with pytest.raises(RunError, match="your limit unknown"):
        respond(waves_of(CLASS)[1], tmp_path, Unread())


def with_byte(place: int, value: int) -> bytes:
    return PEOPLE_FILE[:place] + bytes([value]) + PEOPLE_FILE[place + 1 :]


SIZES = len(PEOPLE_FILE) - 3 * len(NAMES) - 2  # where the only bucket says how many people it has


def test_everybody_is_found_among_many_people() -> None:
    names = [f"u{i}" for i in range(20_000)]
    file = PeopleFile.of(names)
    codes = np.arange(len(names)) % 3 + 1
    table = BeliefTable(3, codes.astype(np.uint16))
    text = waves_of(CLASS)[1].to_json()
    wave = asked_by(text)._replace(nodes=len(names), people=file.sha256, table=table.sha256)
    _, sums = wave.open_files(Published(text, file.content, table.to_bytes()), "u1")
    assert sums(names) == tuple(table.sums([range(len(names))])[0].tolist())
    assert sums(file.names[7:8]) == tuple(table.sums([[7]])[0].tolist())


@pytest.mark.parametrize("mechanism", [*ANSWERS.values(), RANDOMIZED], ids=[*ANSWERS, "list"])
def test_who_is_not_among_the_people_costs_nothing_and_the_list_is_not_read(
    mechanism: NeighbourMechanism, tmp_path: Path
) -> None:
    wave = waves_of(mechanism)[1]
    table = None if isinstance(mechanism, RandomizedNeighbourList) else TABLE.to_bytes()
    with pytest.raises(CampaignError, match="the node is not among the 6 people of the campaign: correct it"):
        respond(wave, tmp_path, Unread(), node="nobody", table=table)
    assert not ledger(tmp_path).entries
    assert respond(wave, tmp_path, table=table)["node"] == "u1"


def test_a_neighbour_who_is_no_text_is_refused_and_not_named_whatever_is_published(tmp_path: Path) -> None:
    for wave, table in ((waves_of(CLASS)[1], TABLE.to_bytes()), (list_wave(), None)):
        with pytest.raises(DomainError, match="not named by text") as caught:
            respond(wave, tmp_path, ["u0", 17], table=table)
        assert "17" not in str(caught.value)
        assert caught.value.__cause__ is None
    assert not ledger(tmp_path).entries


def test_a_record_does_not_answer_a_wave_nor_a_list_a_label(tmp_path: Path) -> None:
    first, wave = waves_of(CLASS)
    with pytest.raises(CampaignError, match="asks about neighbours"):
        answer(wave.to_json(), {"label": "red"}, node="u1", store=tmp_path, max_epsilon=9.0)
    with pytest.raises(CampaignError, match="does not ask about neighbours"):
        respond(first, tmp_path, Unread())


def test_a_damaged_answer_is_never_drawn_again(tmp_path: Path) -> None:
    for answer_of, changes in ((HISTOGRAM, NO_ANSWERS), (RANDOMIZED, [{"answer": said} for said in NO_LISTS])):
        wave = waves_of(answer_of)[1]
        store, files = tmp_path / wave.id, {"table": None} if answer_of is RANDOMIZED else {}
        respond(wave, store, **files)
        path = store / f"{wave.id}.json"
        kept = json.loads(path.read_text())
        places = [{"neighbours": kept["neighbours"] | change} for change in NO_PLACES]
        for change in (*changes, *places):
            path.write_text(json.dumps(kept | change))
            with pytest.raises(RunError, match="is damaged"):
                respond(wave, store, Unread(), **files)


# --- A randomized list -----------------------------------------------------------------------------------------------

NOISELESS = RandomizedNeighbourList(len(NAMES), 30.0)  # a value is changed with probability 1e-13


def list_wave(mechanism: RandomizedNeighbourList = RANDOMIZED) -> Campaign:
    """Return the only wave of a series that asks for the list itself."""
    return waves_of(mechanism)[1]


def respond_with_list(wave: Campaign, store: Path, neighbours: Any = LIST, **settings: Any) -> dict[str, Any]:
    return respond(wave, store, neighbours, **({"table": None} | settings))


def asked_by(text: str) -> ListQuestion:
    return verify(text, max_epsilon=9.0).asked.about_a_list()


def rows_of(names: Sequence[str]) -> list[int]:
    return sorted({IN_ORDER.index(name) for name in names})


def test_the_client_finds_the_exact_epsilons_of_a_randomized_list() -> None:
    asked, exact = asked_by(list_wave().to_json()), RANDOMIZED.list_loss
    assert asked.mechanism == RandomizedList(6, Table(2, RANDOMIZED.bit.table.true, RANDOMIZED.bit.table.other))
    assert float(asked.mechanism.cost.one_entry) == pytest.approx(exact.one_entry, rel=1e-12)
    assert not asked.mechanism.cost.any_lists.is_finite()
    assert float(asked.so_far.one_entry) == float(asked.mechanism.cost.one_entry)
    assert asked.table is None


def test_a_randomized_list_without_noise_names_the_rows_of_the_neighbours_and_a_report_of_its_document(
    tmp_path: Path,
) -> None:
    wave = list_wave(NOISELESS)
    for number, neighbours in enumerate(([], ["u0"], LIST, ["u1"], [*NAMES, *NAMES])):
        report = respond_with_list(wave, tmp_path / str(number), neighbours, max_entry_epsilon=31.0)
        assert report == {"campaign": wave.id, "node": "u1", "answer": text_of(rows_of(neighbours), 6)}, (
            "u1's own row is like others"
        )
        assert Report.parse(report, wave).document == report


def test_words_decide_a_randomized_list_person_by_person_with_the_probabilities_of_the_package() -> None:
    """A word keeps a value if it is below `true`, so 2 words for each person stand for all: the answers are counted."""
    package = RandomizedNeighbourList(3, 1.5)
    table = Table(2, package.bit.table.true, package.bit.table.other)
    device, weights = RandomizedList(3, table), {table.true - 1: table.true, table.true: table.other}
    for value in (0, 1):
        reported = [table.report(value, iter([word]).__next__) for word in (0, table.true - 1, table.true, WORDS - 1)]
        assert reported == [value, value, 1 - value, 1 - value]
    for listed in itertools.product((0, 1), repeat=3):
        rows = tuple(row for row in range(3) if listed[row])
        chances: Counter[tuple[int, ...]] = Counter()
        for words in itertools.product(weights, repeat=3):
            left = iter(words)
            chances[rows_in(device.report(rows, left.__next__))] += prod(weights[word] for word in words)
            assert not list(left), "one word for each person"
        for report in package.reports():
            assert Fraction(chances[report], WORDS**3) == package.probability(report, listed)


def test_a_randomized_list_is_drawn_once_and_costs_one_entry(tmp_path: Path) -> None:
    wave = list_wave()
    report = respond_with_list(wave, tmp_path)
    assert respond_with_list(wave, tmp_path, Unread()) == report
    kept = ledger(tmp_path)
    assert float(kept.spent_on_one_entry) == pytest.approx(RANDOMIZED.list_loss.one_entry, rel=1e-9)
    assert (float(kept.spent), kept.protects_lists) == (0.0, False)
    with pytest.raises(CampaignError, match="another wave 1"):
        respond(waves_of(CLASS)[1], tmp_path, Unread())
    with pytest.raises(CampaignError, match="as another node"):
        respond_with_list(wave, tmp_path, Unread(), node="u2")


def test_a_randomized_list_is_given_with_a_limit_for_one_entry_alone(tmp_path: Path) -> None:
    wave = list_wave()
    with pytest.raises(CampaignError, match=r"does not protect whole neighbour lists\. It would cost epsilon 3\.0000"):
        respond_with_list(wave, tmp_path, Unread(), max_entry_epsilon=None)
    with pytest.raises(CampaignError, match=r"above your limit of 2\.9"):
        respond_with_list(wave, tmp_path, Unread(), max_entry_epsilon=2.9)
    set_limit(tmp_path, 1.0, entry_limit=3.0)
    assert respond_with_list(wave, tmp_path, max_epsilon=None, max_entry_epsilon=None)["node"] == "u1"


def test_a_table_is_given_exactly_where_the_wave_has_one(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="wave 1 has no belief table"):
        respond_with_list(list_wave(), tmp_path, Unread(), table=TABLE.to_bytes())
    with pytest.raises(CampaignError, match="wave 1 has a belief table, and none is given"):
        respond(waves_of(CLASS)[1], tmp_path, Unread(), table=None)
    assert not ledger(tmp_path).entries


def test_the_file_of_people_of_a_randomized_list_is_checked_before_the_list_is_read(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="the file of people is not the one that wave 1 names"):
        respond_with_list(list_wave(), tmp_path, Unread(), people=PEOPLE_FILE[:-1] + b"v")
    for published in (PEOPLE_FILE[:-1], people_file(NAMES[:-1]), with_byte(SIZES, 5), with_byte(SIZES + 1, 8)):
        text = rewritten(list_wave(), neighbours__people=hashlib.sha256(published).hexdigest())
        with pytest.raises(CampaignError, match="the file of people is damaged"):
            answer_neighbours(
                Published(text, published),
                Unread(),
                node="u1",
                store=tmp_path,
                max_epsilon=9.0,
                max_entry_epsilon=9.0,
            )


def test_as_many_people_as_the_format_allows_are_asked_for_a_word_each() -> None:
    device, drawn = RandomizedList(50_000, Table(2, WORDS - 2**40, 2**40)), itertools.count()
    assert rows_in(device.report((0, 49_999), lambda: 0 * next(drawn))) == (0, 49_999)
    assert next(drawn) == 50_000


# --- In turns --------------------------------------------------------------------------------------------------------

TURN_VECTORS = json.loads(Path(__file__).with_name("turn_vectors.json").read_text(encoding="utf-8"))


def reason_of(text: str, store: Path, node: str = "u1") -> str:
    """Return why a document is refused; the list must not be read."""
    with pytest.raises(CampaignError) as caught:
        answer_neighbours(
            Published(text, PEOPLE_FILE, TABLE.to_bytes()),
            Unread(),
            node=node,
            store=store,
            max_epsilon=99.0,
            max_entry_epsilon=99.0,
        )
    assert "\n" not in str(caught.value)
    return str(caught.value)


def second_wave(one: Campaign, turns: int | None) -> str:
    """Return a second wave that follows a first one, in turns of its own; its guarantee is right."""
    second, series = waves_of(CLASS, CAPPED, turns=turns)[2], series_of(one.asked).first
    return rewritten(second, neighbours__documents=[series, one.id])


def test_a_turn_is_that_of_the_common_vectors() -> None:
    assert [turn_of(each["id"], each["turns"]) for each in TURN_VECTORS] == [each["wave"] for each in TURN_VECTORS]


@pytest.mark.parametrize("turns", [2, 3, 36])
def test_turns_split_people_alike(turns: int) -> None:
    people = 200 * turns
    counts = Counter(turn_of(f"u{i}", turns) for i in range(people))
    assert set(counts) == set(range(1, turns + 1))
    assert max(abs(count - 200) for count in counts.values()) < 5 * np.sqrt(200)  # five standard errors


def test_in_turns_a_series_costs_the_largest_and_not_the_sum_under_each_relation() -> None:
    wide = NeighbourhoodHistogram(3, 0.5, finest_scale(3), cap=2)  # one entry: 0.5, any two lists: 3
    for answers, one_entry, any_lists in (
        ((CLASS, wide), 2.0, 3.0),
        ((wide, CLASS, CAPPED), 2.0, 3.0),
        ((HISTOGRAM, CAPPED), 1.0, np.inf),
    ):
        asked = asked_by(waves_of(*answers, turns=4)[-1].to_json())
        assert (asked.turns, asked.wave) == (4, len(answers))
        assert float(asked.so_far.one_entry) == pytest.approx(one_entry, rel=1e-9)
        assert float(asked.so_far.any_lists) == pytest.approx(any_lists, rel=1e-9)
        everybody = asked_by(waves_of(*answers)[-1].to_json())
        assert everybody.turns is None
        assert float(everybody.so_far.one_entry) == pytest.approx(sum(each.list_loss.one_entry for each in answers))


def test_every_forged_wave_is_refused_with_one_sentence_and_the_list_is_not_read(tmp_path: Path) -> None:
    for name, (text, forgery) in FORGED.items():
        assert re.search(forgery.client, reason_of(text, tmp_path)), name
        assert not ledger(tmp_path).entries, name


def test_a_document_without_turns_is_refused(tmp_path: Path) -> None:
    document = json.loads(waves_of(CLASS)[1].to_json())
    del document["bound"]["neighbours"]["turns"]
    text = canonical_json({**document, "id": content_id(document["bound"])})
    assert "exactly the keys answers, documents, label, people, table, turns" in reason_of(text, tmp_path)


def test_a_person_answers_the_wave_of_their_turn_and_no_other(tmp_path: Path) -> None:
    waves = waves_of(CLASS, CLASS, CLASS, CLASS, turns=4)
    for node in NAMES:
        for wave in waves[1:]:
            store, turn = tmp_path / wave.id / node, turn_of(node, 4)
            if series_of(wave.asked).wave == turn:
                assert respond(wave, store, node=node)["node"] == node
            else:
                expected = f"wave {series_of(wave.asked).wave} is not your turn: of this series you answer wave {turn},"
                assert expected in reason_of(wave.to_json(), store, node)
                assert not store.exists(), "nothing is kept"


def test_the_ledger_adds_one_wave_of_a_series_in_turns(tmp_path: Path) -> None:
    first, *waves = waves_of(CLASS, CAPPED, CLASS, turns=3)
    answer(first.to_json(), {"label": "red"}, node="u1", store=tmp_path, max_epsilon=20.0)
    report = respond(waves[1], tmp_path)
    assert respond(waves[1], tmp_path, Unread()) == report
    for other in (waves[0], waves[2]):
        reason_of(other.to_json(), tmp_path)
    kept = ledger(tmp_path)
    assert len(kept.entries) == 2
    assert float(kept.spent) == pytest.approx(2.0 + 0.6, abs=1e-9)
    assert float(kept.spent_on_one_entry) == pytest.approx(0.1, abs=1e-9)


# The turn of u1 is wave 1 of 5, and wave 2 of 2, 3 and 4.
@pytest.mark.parametrize(("before", "then"), [(5, 4), (5, 3), (5, 2), (5, None), (None, 4)])
def test_a_second_wave_is_refused_whatever_its_document_says_about_turns(
    before: int | None, then: int | None, tmp_path: Path
) -> None:
    one = waves_of(CLASS, turns=before)[1]
    text = second_wave(one, then)
    report = respond(one, tmp_path)
    assert "has answered wave 1 of this series, which is asked in turns" in reason_of(text, tmp_path)
    assert respond(one, tmp_path, Unread()) == report
    assert len(ledger(tmp_path).entries) == 1


def test_a_device_takes_its_turn_as_one_node(tmp_path: Path) -> None:
    one, two = waves_of(CLASS, CLASS, turns=4)[1:]
    respond(one, tmp_path, node="u2")
    assert "as another node" in reason_of(two.to_json(), tmp_path), "an organiser can invent ids whose turn it is"
    assert respond(two, tmp_path, shared_device=True)["node"] == "u1"


def test_in_turns_a_mistyped_id_is_refused_as_unknown_in_every_wave(tmp_path: Path) -> None:
    """It has a turn, too, and whoever waits for that one misses their own."""
    for wave in waves_of(CLASS, CLASS, turns=2)[1:]:
        with pytest.raises(CampaignError, match="not among the 6 people"):
            respond(wave, tmp_path, Unread(), node="nobody")


def test_a_second_first_wave_is_refused_in_turns(tmp_path: Path) -> None:
    respond(waves_of(CLASS, turns=5)[1], tmp_path)
    for another in (waves_of(CAPPED, turns=5)[1], waves_of(CAPPED)[1]):
        assert "has answered wave 1 of this series, which is asked in turns" in reason_of(another.to_json(), tmp_path)
