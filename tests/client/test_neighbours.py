"""A wave about private neighbours on a device: exact guarantees, one answer, and refusals that tell nothing."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
    forged,
    waves_of,
)
from veilgraph.campaign import Campaign
from veilgraph.campaign.neighbour_series import Answer
from veilgraph.campaign.people_file import PeopleFile, people_file
from veilgraph.client import answer, answer_neighbours, ledger, set_limit, verify
from veilgraph.client.participant import Beliefs, belief, finest_scale
from veilgraph.errors import CampaignError, DomainError, RunError
from veilgraph.privacy import belief_table
from veilgraph.privacy.belief_table import BeliefTable
from veilgraph.privacy.mechanisms import NeighbourhoodClass, NeighbourhoodHistogram
from veilgraph.privacy.mechanisms.random_source import WORDS

LIST = ["u0", "u10", "ü", "u0"]
IN_ORDER = PeopleFile.of(NAMES).names  # rows of the table


def respond(wave: Campaign, store: Path, neighbours: Any = LIST, **settings: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"node": "u1", "max_epsilon": 20.0, "max_entry_epsilon": 20.0}
    given |= {"table": TABLE.to_bytes(), "people": PEOPLE_FILE} | settings
    return answer_neighbours(wave.to_json(), neighbours, store=store, **given)


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
def test_the_client_finds_the_exact_epsilons_of_the_package(mechanism: Answer) -> None:
    *_, wave = waves_of(CLASS, mechanism)
    asked = verify(wave.to_json(), max_epsilon=100.0).neighbours
    assert asked is not None
    assert wave.neighbours is not None
    assert float(asked.cost.one_entry) == pytest.approx(mechanism.list_loss.one_entry, rel=1e-12)
    assert float(asked.cost.any_lists) == pytest.approx(mechanism.list_loss.any_lists, rel=1e-12)
    total = wave.guarantee.neighbours
    assert total is not None
    assert float(asked.so_far.one_entry) == pytest.approx(total.total.one_entry, rel=1e-12)


def test_sums_are_those_of_the_package_and_a_neighbour_counts_once() -> None:
    question = verify(waves_of(CLASS)[1].to_json(), max_epsilon=9.0)
    read = Beliefs.read(TABLE.to_bytes(), PEOPLE_FILE, question)
    rows = [IN_ORDER.index(name) for name in LIST]
    assert read.sums(LIST) == tuple(TABLE.sums([rows])[0].tolist())
    assert read.sums([]) == (0, 0, 0)


def coarse(mechanism: Any, sums: tuple[int, ...], draws: int) -> Counter[tuple[int, ...]]:
    source = np.random.default_rng(5)

    def word() -> int:
        return int(source.integers(0, WORDS))

    return Counter(mechanism.report(sums, word) for _ in range(draws))


@pytest.mark.parametrize("sums", [(60, 0, 0), (30, 30, 0), (0, 0, 0)])
def test_sets_are_drawn_with_the_probabilities_of_the_package(sums: tuple[int, ...]) -> None:
    asked = verify(waves_of(CLASS)[1].to_json(), max_epsilon=9.0).neighbours
    assert asked is not None
    draws = 4000
    counts = coarse(asked.mechanism, sums, draws)
    for report in CLASS.reports():
        chance = float(CLASS.probability(report, sums))
        # Five standard errors of a share.
        assert abs(counts[report] / draws - chance) < 5 * np.sqrt(chance * (1 - chance) / draws) + 1e-9


def test_noise_is_drawn_with_the_probabilities_of_the_package() -> None:
    mechanism = NeighbourhoodHistogram(3, 60.0, 60)  # little noise, so that each count is likely
    asked = verify(waves_of(mechanism)[1].to_json(), max_epsilon=99.0).neighbours
    assert asked is not None
    draws = 3000
    first = Counter(report[0] - 60 for report in coarse(asked.mechanism, (60, 0, 0), draws).elements())
    for value in (-2, -1, 0, 1, 2):
        chance = float(mechanism.noise.probability(value))
        assert abs(first[value] / draws - chance) < 5 * np.sqrt(chance * (1 - chance) / draws)


def test_words_decide_an_answer_as_the_documentation_says() -> None:
    asked = verify(waves_of(HISTOGRAM)[1].to_json(), max_epsilon=9.0).neighbours
    assert asked is not None
    more = HISTOGRAM.noise.more
    words = iter([more - 1, more - 1, more, more, *[more] * 2, more, 0, more])
    assert asked.mechanism.report((5, 7, 1), lambda: next(words)) == (7, 7, 0)
    picked = verify(waves_of(CLASS)[1].to_json(), max_epsilon=9.0).neighbours
    assert picked is not None
    words = iter([1, 0, 0, 0])  # the second of two classes; then it is inside
    assert picked.mechanism.report((9, 2, 9), lambda: next(words)) == (2,)


def test_a_list_above_the_cap_is_cut_and_never_refused() -> None:
    asked = verify(waves_of(CAPPED)[1].to_json(), max_epsilon=9.0).neighbours
    assert asked is not None
    still = WORDS - 1
    assert asked.mechanism.report((500, 3, 120), lambda: still) == (120, 3, 120)


@pytest.mark.parametrize("mechanism", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_is_drawn_once_and_small(mechanism: Answer, tmp_path: Path) -> None:
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


def test_an_empty_list_is_answered(tmp_path: Path) -> None:
    assert len(respond(waves_of(HISTOGRAM)[1], tmp_path, [])["answer"]) == 3


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
    with pytest.raises(CampaignError, match=r"above your limit of 1\.5"):
        respond(other, tmp_path, Unread(), max_entry_epsilon=9.0)
    with pytest.raises(CampaignError, match="above your limit of 1"):
        respond(waves_of(CLASS)[1], tmp_path / "other", Unread(), max_epsilon=1.0)
    assert ledger(tmp_path).entry_limit is not None


@pytest.mark.parametrize("limits", ['{"limit":"-1"}', "{}", '{"limit":"5","more":"1"}', '{"entry_limit":"x"}', "[]"])
def test_limits_that_cannot_be_read_stop_every_draw(limits: str, tmp_path: Path) -> None:
    (tmp_path / "limit.json").write_text(limits)
    with pytest.raises(RunError, match="your limit unknown"):
        respond(waves_of(CLASS)[1], tmp_path, Unread())


def test_files_with_another_hash_are_refused_before_the_list_is_read(tmp_path: Path) -> None:
    wave = waves_of(CLASS)[1]
    with pytest.raises(CampaignError, match="the table is not the one that wave 1 names"):
        respond(wave, tmp_path, Unread(), table=TABLE.to_bytes()[:-1] + b"\xff")
    with pytest.raises(CampaignError, match="the file of people is not the one"):
        respond(wave, tmp_path, Unread(), people=PEOPLE_FILE[:-1] + b"v")


@pytest.mark.parametrize(
    "published",
    [
        TABLE.to_bytes()[:-2] + b"\xff\xff",  # no belief has this code
        TABLE.to_bytes()[:-2],
        TABLE.to_bytes() + b"\0\0",
        TABLE.to_bytes().replace(b'"num_classes": 3', b'"num_classes": 4'),
        b"something else",
    ],
)
def test_a_published_table_that_is_no_table_is_refused_whatever_the_list_is(published: bytes, tmp_path: Path) -> None:
    wave = first_document().next_wave(CLASS, graph=PEOPLE, table=hashlib.sha256(published).hexdigest(), closes=CLOSES)
    with pytest.raises(CampaignError, match="is damaged"):
        respond(wave, tmp_path, Unread(), table=published)


def with_byte(place: int, value: int) -> bytes:
    return PEOPLE_FILE[:place] + bytes([value]) + PEOPLE_FILE[place + 1 :]


SIZES = len(PEOPLE_FILE) - 3 * len(NAMES) - 2  # where the only bucket says how many people it has


@pytest.mark.parametrize(
    "published",
    [
        PEOPLE_FILE[:-1],
        PEOPLE_FILE + b"\0\0\0",
        people_file(NAMES[:-1]),
        people_file([*NAMES, "v"]),
        with_byte(SIZES, len(NAMES) - 1),
        with_byte(SIZES, len(NAMES) + 1),
        with_byte(SIZES + 1, 8),  # no such part of a hash
        "".join(f"{name}\n" for name in NAMES).encode(),
        b"",
    ],
)
def test_a_published_file_of_people_that_is_none_is_refused_whatever_the_list_is(
    published: bytes, tmp_path: Path
) -> None:
    text = forged(waves_of(CLASS)[1], ("neighbours", "people"), hashlib.sha256(published).hexdigest())
    with pytest.raises(CampaignError, match="is damaged"):
        answer_neighbours(
            text, Unread(), table=TABLE.to_bytes(), people=published, node="u1", store=tmp_path, max_epsilon=9.0
        )


def test_everybody_is_found_among_many_people() -> None:
    names = [f"u{i}" for i in range(20_000)]
    file = PeopleFile.of(names)
    codes = np.arange(len(names)) % 3 + 1
    table = BeliefTable(3, codes.astype(np.uint16))
    question = verify(waves_of(CLASS)[1].to_json(), max_epsilon=9.0)
    assert question.neighbours is not None
    asked = question.neighbours._replace(nodes=len(names), people=file.sha256, table=table.sha256)
    read = Beliefs.read(table.to_bytes(), file.content, question._replace(neighbours=asked))
    assert read.sums(names) == tuple(table.sums([range(len(names))])[0].tolist())
    assert read.sums(file.names[7:8]) == tuple(table.sums([[7]])[0].tolist())


def test_an_unknown_neighbour_is_refused_and_not_named(tmp_path: Path) -> None:
    wave = waves_of(CLASS)[1]
    with pytest.raises(DomainError, match=r"not among the 6 people .* \(id withheld\)") as caught:
        respond(wave, tmp_path, ["u0", "secret-friend"])
    assert "secret-friend" not in str(caught.value)
    assert caught.value.__cause__ is None
    with pytest.raises(DomainError, match="not named by text"):
        respond(wave, tmp_path, [3])
    assert not ledger(tmp_path).entries
    respond(wave, tmp_path)  # with a corrected list it is answered


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("guarantee", "wave", "one_entry"), "0.5"),
        (("guarantee", "wave", "any_lists"), "1"),
        (("guarantee", "wave", "one_relationship"), "1"),
        (("guarantee", "series", "label"), "1"),
        (("guarantee", "series", "lists", "one_entry"), "0.1"),
        (("guarantee", "series", "lists_and_record", "any_lists"), "7"),
        (("neighbours", "answers", 0, "more"), 2**52),
        (("neighbours", "answers", 0, "more"), WORDS - 1),
        (("neighbours", "answers", 0, "scale"), 61),
        (("neighbours", "answers", 0, "largest"), 2**15),
        (("neighbours", "answers", 0, "cap"), 0),
        (("neighbours", "answers", 0, "mechanism"), "plain"),
        (("neighbours", "answers"), []),
        (("neighbours", "documents"), ["x"]),
        (("neighbours", "documents"), ["a" * 64, "a" * 64]),
        (("neighbours", "label"), None),
        (("neighbours", "table"), "0" * 63),
        (("schema", "group"), True),
        (("schema", "columns"), [{"name": "a", "values": ["0", "1"]}]),
        (("graph", "nodes"), "6"),
    ],
)
def test_a_forged_wave_is_refused_on_the_device(place: tuple[str | int, ...], value: Any, tmp_path: Path) -> None:
    text = forged(waves_of(HISTOGRAM)[1], place, value)
    with pytest.raises(CampaignError):
        answer_neighbours(
            text, Unread(), table=b"", people=b"", node="u1", store=tmp_path, max_epsilon=9.0, max_entry_epsilon=9.0
        )


def test_a_record_does_not_answer_a_wave_nor_a_list_a_label(tmp_path: Path) -> None:
    first, wave = waves_of(CLASS)
    with pytest.raises(CampaignError, match="asks about neighbours"):
        answer(wave.to_json(), {"label": "red"}, node="u1", store=tmp_path, max_epsilon=9.0)
    with pytest.raises(CampaignError, match="does not ask about neighbours"):
        respond(first, tmp_path, Unread())


@pytest.mark.parametrize("damage", [("answer", [0, 1, 2, 3]), ("answer", "0"), ("neighbours", None), ("node", 3)])
def test_a_damaged_answer_is_never_drawn_again(damage: tuple[str, Any], tmp_path: Path) -> None:
    wave = waves_of(HISTOGRAM)[1]
    respond(wave, tmp_path)
    path = tmp_path / f"{wave.id}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | dict([damage])))
    with pytest.raises(RunError, match="is damaged"):
        respond(wave, tmp_path, Unread())
