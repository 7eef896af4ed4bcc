"""Waves about private neighbours on a device with a browser: documents, forgeries, the ledger, one answer for each."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterable
from typing import Any

import pytest

from tests.client.test_browser import in_python
from tests.support.browser_module import in_node, needs_node
from tests.support.forged_waves import FORGED, HONEST
from tests.support.forgeries import NOTICE_FORGERIES, rewritten
from tests.support.mutations import mutated_campaigns
from tests.support.neighbour_series import (
    ANSWERS,
    CAPPED,
    CLASS,
    CLOSES,
    HISTOGRAM,
    LIST,
    NAMES,
    PEOPLE_FILE,
    TABLE,
    first_document,
    waves_of,
)
from veilgraph.campaign import Campaign, Report
from veilgraph.campaign.asked import turn_of
from veilgraph.campaign.neighbours.people_file import PeopleFile
from veilgraph.campaign.neighbours.wave import series_of
from veilgraph.errors import VeilgraphError
from veilgraph.privacy.epsilon import ListLoss
from veilgraph.privacy.mechanisms import NeighbourhoodClass, RandomizedNeighbourList
from veilgraph.privacy.strict_json import canonical_json, content_id

pytestmark = needs_node

FIRST, ONE, TWO = waves_of(HISTOGRAM, CLASS)


def test_the_browser_refuses_every_forged_wave_and_accepts_what_was_forged() -> None:
    texts = [*(text for text, _ in FORGED.values()), *(wave.to_json() for wave in HONEST.values())]
    replies = in_node("verifyWave", texts)
    accepted = [name for name, reply in zip([*FORGED, *HONEST], replies, strict=True) if "error" not in reply]
    assert accepted == list(HONEST)


def figures(loss: ListLoss) -> dict[str, float]:
    return {"any_lists": loss.any_lists, "one_entry": loss.one_entry, "one_relationship": loss.one_relationship}


def costs(loss: ListLoss) -> dict[str, Any]:
    return {name: pytest.approx(epsilon) if epsilon < 1e9 else None for name, epsilon in figures(loss).items()}


@pytest.mark.parametrize("answers", [[CLASS], [HISTOGRAM], [CAPPED], [CLASS, CAPPED, HISTOGRAM], [CLASS] * 36, [LIST]])
def test_the_browser_computes_every_epsilon_of_a_wave_and_of_its_series(answers: list[Any]) -> None:
    *_, last = documents = waves_of(*answers)
    (reply,) = in_node("verifyWave", [last.to_json()])
    assert reply["result"]["id"] == last.id
    assert (reply["result"]["series"], reply["result"]["wave"]) == (documents[0].id, len(answers))
    assert reply["result"]["turns"] is None
    found = reply["result"]["costs"]
    assert found["wave"] == costs(answers[-1].list_loss)
    assert found["lists"] == costs(ListLoss.sum_of(each.list_loss for each in answers))
    assert found["label"] == pytest.approx(2.0)


@pytest.mark.parametrize("answers", [[CLASS], [CAPPED, CLASS], [CLASS, CAPPED], [HISTOGRAM, CLASS], [CLASS] * 36])
def test_in_turns_the_lists_of_a_series_cost_the_largest_of_its_waves(answers: list[Any]) -> None:
    turns = max(2, len(answers))
    (reply,) = in_node("verifyWave", [waves_of(*answers, turns=turns)[-1].to_json()])
    found = reply["result"]["costs"]
    losses = [each.list_loss for each in answers]
    largest = [max(getattr(loss, name) for loss in losses) for name in ("any_lists", "one_entry")]
    assert reply["result"]["turns"] == turns
    assert found["wave"] == costs(losses[-1])
    assert found["lists"] == costs(ListLoss(any_lists=largest[0], one_entry=largest[1]))


def test_documents_of_other_kinds_turns_or_sizes_are_refused() -> None:
    for epsilon in (0.1, 5.0):
        made = waves_of(CLASS, first=first_document(epsilon_y=epsilon))[1]
        assert "result" in in_node("verifyWave", [made.to_json()])[0], epsilon
    for wave in (ONE, IN_TURNS[1]):
        neighbours = json.loads(wave.to_json())["bound"]["neighbours"]
        del neighbours["turns"]
        (reply,) = in_node("verifyWave", [rewritten(wave, neighbours=neighbours)])
        assert reply["error"] == "This is not a campaign."
    three = waves_of(CLASS, CLASS, CLASS, turns=3)[3]
    assert "result" in in_node("verifyWave", [three.to_json()])[0]
    for turns, is_wave in ((2, False), (4, True), (36, True)):
        (reply,) = in_node("verifyWave", [rewritten(three, neighbours__turns=turns)])
        assert ("result" in reply) == is_wave, "all figures are the same"
    numbers = [1, 2, 50_000, 50_001, 10_000_000]
    found = in_node("verifyWave", [among(people) for people in numbers])
    assert ["result" in each for each in found] == [2 <= people <= 50_000 for people in numbers]


LISTS = waves_of(LIST)[1]
BOUND = json.loads(LISTS.to_json())["bound"]


def in_two_waves(*answers: Any, table: str | None) -> str:
    """Return the document of the second of two waves, whose every epsilon is true."""
    total, label = ListLoss.sum_of(each.list_loss for each in answers), BOUND["guarantee"]["series"]["label"]
    both = {"any_lists": total.any_lists + float(label), "one_entry": total.one_entry + float(label)}
    stated = [json.loads(waves_of(each)[1].to_json())["bound"] for each in answers]
    bound = stated[-1] | {
        "neighbours": BOUND["neighbours"]
        | {
            "answers": [each["neighbours"]["answers"][0] for each in stated],
            "documents": [FIRST.id, ONE.id],
            "table": table,
        },
        "guarantee": stated[-1]["guarantee"]
        | {"series": {"label": label, "lists": in_text(figures(total)), "lists_and_record": in_text(both)}},
    }
    return canonical_json(json.loads(LISTS.to_json()) | {"bound": bound, "id": content_id(bound)})


def in_text(epsilons: dict[str, float]) -> dict[str, str]:
    return {name: "Infinity" if epsilon > 1e9 else f"{epsilon:.12f}" for name, epsilon in epsilons.items()}


def test_a_list_is_the_only_wave_of_its_series_and_needs_no_table() -> None:
    """What is refused here is true in all else: with two waves of counts the same document is accepted."""
    assert "result" in in_node("verifyWave", [in_two_waves(HISTOGRAM, HISTOGRAM, table=TABLE.sha256)])[0]
    for answers in ([LIST, LIST], [HISTOGRAM, LIST], [LIST, HISTOGRAM]):
        for table in (None, TABLE.sha256):
            (reply,) = in_node("verifyWave", [in_two_waves(*answers, table=table)])
            assert reply["error"] == "This is not a campaign.", "the stated epsilons are true"


IN_TURNS = waves_of(CLASS, CAPPED, HISTOGRAM, turns=3)


def test_the_sum_of_the_waves_and_the_largest_of_them_are_not_confused() -> None:
    """Each document is true but for whether it is asked in turns; the first waves alone, whose figures are one, are."""
    for turns, stated in ((3, None), (None, 3)):
        one, two = (rewritten(each, neighbours__turns=turns) for each in waves_of(CLASS, CAPPED, turns=stated)[1:])
        assert "result" in in_node("verifyWave", [one])[0]
        assert in_node("verifyWave", [two])[0]["error"] == "The tables do not give the stated guarantee."


def among(people: int) -> str:
    """Return a document that asks for lists of this many people, which are as many as take part."""
    return rewritten(LISTS, graph__nodes=people, neighbours__answers__0__people=people)


def test_a_wave_with_a_forged_notice_is_refused() -> None:
    document = json.loads(TWO.to_json())
    for name, changes in NOTICE_FORGERIES.items():
        notice = document["notice"] | {
            path.removeprefix("notice__"): value
            for path, value in changes.items()
            if path.startswith("notice__") and path.count("__") == 1
        }
        if notice != document["notice"]:
            assert "error" in in_node("verifyWave", [canonical_json(document | {"notice": notice})])[0], name
    opened = canonical_json(document | {"notice": document["notice"] | {"wave": 1}})
    assert "error" in in_node("verifyWave", [opened])[0]


def test_other_documents_are_no_waves_and_waves_are_no_campaigns() -> None:
    for text in (FIRST.to_json(), "", "null", "[]", "{}", '{"format":4}', TWO.to_json().replace(":", ": ", 1)):
        assert "error" in in_node("verifyWave", [text])[0], text
    altered = TWO.to_json().replace(TABLE.sha256, "0" * 64)
    assert "altered" in in_node("verifyWave", [altered])[0]["error"]
    assert "closed" in in_node("verifyWave", [TWO.to_json()], now=CLOSES)[0]["error"]
    assert "error" in in_node("verify", [TWO.to_json()])[0]


def test_a_wave_above_the_limit_is_refused_under_its_relation() -> None:
    (reply,) = in_node("verifyWave", [waves_of(CLASS)[1].to_json()], max_epsilon=1.9)
    assert "2.0000 for any two lists, above your limit of 1.9" in reply["error"]
    (reply,) = in_node("verifyWave", [ONE.to_json()], max_epsilon=0.9)
    assert "1.0000 for one entry, above your limit of 0.9" in reply["error"]


# --- The device ------------------------------------------------------------------------------------------------------

STRANGER = "u6161"


def text_of(rows: Iterable[int]) -> str:
    """Return the answer that names these rows: a bit for each of the eight or fewer people."""
    return base64.urlsafe_b64encode(bytes([sum(1 << row for row in set(rows))])).decode().rstrip("=")


LIST_TEXTS = {text_of(row for row in range(len(NAMES)) if bits >> row & 1) for bits in range(2 ** len(NAMES))}
"""All answers that a randomized list of these people can have."""


def asking(wave: Campaign, neighbours: list[Any], **settings: Any) -> dict[str, Any]:
    files = {
        "people": base64.b64encode(PEOPLE_FILE).decode(),
        "table": None if series_of(wave.asked).table is None else base64.b64encode(TABLE.to_bytes()).decode(),
    }
    return {"campaign": wave.to_json(), "list": neighbours, "node": "u0"} | files | settings


def device(
    *requests: dict[str, Any],
    limit: float | None = 9.0,
    entry_limit: float | None = 9.0,
    planted: dict[str, str] | None = None,
) -> Any:
    given = {"planted": planted or {}, "limit": limit, "entryLimit": entry_limit, "requests": requests}
    (reply,) = in_node("waveDevice", [given])
    assert "result" in reply, reply
    return reply["result"]


@pytest.mark.parametrize("answer", [*ANSWERS.values(), LIST], ids=[*ANSWERS, "list"])
def test_an_answer_is_drawn_once_and_kept_without_the_list(answer: Any) -> None:
    wave = waves_of(answer)[1]
    done = device(asking(wave, ["u1", "ü"]), asking(wave, [STRANGER]))
    first, again = done["replies"]
    assert set(first["result"]) == {"answer", "campaign", "node"}
    assert (first["result"]["campaign"], first["result"]["node"]) == (wave.id, "u0")
    if isinstance(answer, RandomizedNeighbourList):
        assert first["result"]["answer"] in LIST_TEXTS
    else:
        assert len(first["result"]["answer"]) == (answer.sets.set_size if isinstance(answer, NeighbourhoodClass) else 3)
    assert [first["looks"], again["looks"]] == [1, 0], "a kept answer needs no list"
    assert first["result"] == again["result"]
    kept = json.loads(done["kept"][f"veilgraph:{wave.id}"])
    loss = answer.list_loss
    assert float(kept["neighbours"]["one_entry"]) == pytest.approx(loss.one_entry)
    assert done["spent"] == pytest.approx(0 if loss.any_lists > 1e9 else loss.any_lists)
    assert "ü" not in json.dumps(done["kept"], ensure_ascii=False)


def test_label_and_waves_share_one_limit_and_are_refused_before_the_list_is_looked_at() -> None:
    first, one, two = waves_of(CLASS, CLASS)
    label = {"campaign": first.to_json(), "record": {"label": "red"}, "node": "u0"}
    done = device(label, asking(one, ["u1"]), asking(two, ["u1"]), limit=5.0)
    told, answered, refused = done["replies"]
    assert "result" in told
    assert answered["looks"] == 1
    assert "With 4.0000 for earlier reports this is above your limit of 5: do not answer, or" in refused["error"]
    assert refused["looks"] == 0
    assert done["spent"] == pytest.approx(4)


def test_an_answer_that_protects_no_whole_lists_needs_a_limit_for_one_entry() -> None:
    _, one, two = waves_of(HISTOGRAM, HISTOGRAM)
    (refused,) = device(asking(one, ["u1"]), entry_limit=None)["replies"]
    assert "limit for one entry" in refused["error"]
    assert refused["looks"] == 0
    answered, above = device(asking(one, ["u1"]), asking(two, ["u1"]), entry_limit=1.5)["replies"]
    assert "result" in answered
    assert "1.0000 for one entry. With 1.0000 for earlier answers this is above your limit of 1.5" in above["error"]
    assert above["error"].endswith(": do not answer, or set a higher one.")
    assert above["looks"] == 0
    answered, above = device(*(asking(each, [], maxEntryEpsilon=1.5) for each in (one, two)), entry_limit=None)[
        "replies"
    ]
    assert ("result" in answered, "above your limit" in above["error"]) == (True, True)
    (refused,) = device(asking(one, []), limit=None)["replies"]
    assert "Set your limit first" in refused["error"]


def test_each_wave_of_a_series_is_answered_once_and_in_its_order() -> None:
    other = waves_of(HISTOGRAM, NeighbourhoodClass(3, 1.0))[2]
    stranger = waves_of(CLASS, CLASS)[2]
    done = device(*(asking(wave, ["u1"]) for wave in (ONE, TWO, other, stranger, ONE)))
    one, two, another_second, another_first, again = done["replies"]
    assert "result" in two
    for refused in (another_second, another_first):
        assert "not the wave that follows" in refused["error"]
        assert refused["looks"] == 0
    assert again["result"] == one["result"]
    late = device(asking(TWO, ["u1"]), asking(ONE, ["u1"]))["replies"][1]
    assert "not the wave that follows" in late["error"]


def test_in_turns_a_device_answers_the_wave_of_the_person_and_looks_at_no_list_in_another_one() -> None:
    turns = {name: turn_of(name, 3) for name in NAMES}
    assert set(turns.values()) == {1, 2, 3}
    for node, turn in turns.items():
        done = device(*(asking(wave, ["u1"], node=node) for wave in IN_TURNS[1:]))
        for number, reply in enumerate(done["replies"], 1):
            if number == turn:
                assert (reply["looks"], reply["result"]["node"]) == (1, node)
            else:
                assert (reply["looks"], reply["error"]) == (0, "Another wave is this person's turn.")
        places = [place for place in done["kept"] if "limit" not in place]
        assert places == [f"veilgraph:{IN_TURNS[turn].id}"], "one answer is kept, and nothing of the others"
        assert json.loads(done["kept"][places[0]])["neighbours"]["turns"] == 3


@pytest.mark.parametrize("answer", [*ANSWERS.values(), LIST], ids=[*ANSWERS, "list"])
def test_who_is_not_among_the_people_costs_nothing_and_the_list_is_not_looked_at(answer: Any) -> None:
    wave = waves_of(answer)[1]
    done = device(asking(wave, ["u1"], node="nobody"), asking(wave, ["u1"], node="u1"))
    refused, corrected = done["replies"]
    assert refused["error"] == "You are not among the people of this wave: correct your name."
    assert (refused["looks"], corrected["looks"]) == (0, 1)
    assert [place for place in done["kept"] if "limit" not in place] == [f"veilgraph:{wave.id}"]


def test_in_turns_a_mistyped_name_is_refused_as_unknown_in_every_wave() -> None:
    """It has a turn, too, and whoever waits for that one misses their own."""
    for node in ("nobody", "u4", "u5", "u6"):
        done = device(*(asking(wave, ["u1"], node=node) for wave in IN_TURNS[1:]))
        assert {reply["error"] for reply in done["replies"]} == {
            "You are not among the people of this wave: correct your name."
        }
        assert not [place for place in done["kept"] if "limit" not in place]


def test_a_person_who_has_answered_in_turns_answers_no_other_wave_whatever_it_says() -> None:
    """An honest series asks a person once. Of 2 turns u1 has the second, of 3 the second, too; u0 has the first."""
    first, one, two = waves_of(CLASS, CLASS, turns=2)
    every = waves_of(CLASS, CLASS, first=first)
    another = waves_of(CAPPED, first=first, turns=2)[1]
    cases = {
        "another first wave": [asking(one, []), asking(another, [])],
        "everybody after turns": [asking(one, []), asking(one, []) | {"campaign": following(every[2], one, None)}],
        "turns after everybody": [asking(every[1], [], node="u1"), asking(two, [], node="u1")],
        "another number of turns": [
            asking(two, [], node="u1"),
            asking(two, [], node="u1") | {"campaign": following(two, every[1], 3)},
        ],
    }
    for name, requests in cases.items():
        answered, refused = device(*requests)["replies"]
        assert "result" in answered, name
        assert "not the wave that follows" in refused["error"], name
        assert refused["looks"] == 0, name
    assert all("result" in each for each in device(*(asking(wave, []) for wave in every[1:]))["replies"])


def following(wave: Campaign, before: Campaign, turns: int | None) -> str:
    """Return a second wave that says to follow another first one, in these turns."""
    return rewritten(wave, neighbours__documents=[series_of(wave.asked).first, before.id], neighbours__turns=turns)


def test_in_turns_a_shared_device_answers_for_each_person_in_their_turn() -> None:
    one, two = IN_TURNS[1:3]
    shared = {"node": "u1", "sharedDevice": True}
    done = device(asking(one, []), asking(two, [], node="u1"), asking(one, [], **shared), asking(two, [], **shared))
    _, alone, early, answered = done["replies"]
    assert "answers it once" in alone["error"]
    assert early["error"] == "Another wave is this person's turn."
    assert [alone["looks"], early["looks"]] == [0, 0]
    assert answered["result"]["node"] == "u1"


def test_a_wave_may_be_left_out_and_another_series_is_one_of_its_own() -> None:
    assert "result" in device(asking(TWO, []))["replies"][0]
    other = waves_of(HISTOGRAM, first=first_document(epsilon_y=1.0))[1]
    assert all("result" in reply for reply in device(asking(ONE, []), asking(other, []))["replies"])


def test_a_device_answers_a_series_as_one_person() -> None:
    label = {"campaign": FIRST.to_json(), "record": {"label": "red"}, "node": "u0"}
    done = device(label, asking(ONE, ["u1"], node="u2"), asking(ONE, [], node="u2", sharedDevice=True), asking(ONE, []))
    _, refused, shared, alone = done["replies"]
    assert "answers it once" in refused["error"]
    assert shared["result"]["node"] == "u2"
    assert "answers it once" in alone["error"]
    assert "result" in device(label, asking(ONE, []))["replies"][1]


def test_files_that_do_not_fit_are_refused_before_the_list_is_looked_at() -> None:
    table = base64.b64encode(TABLE.to_bytes()[:-2] + b"\0\0").decode()
    people = base64.b64encode(PEOPLE_FILE[:-1] + bytes([PEOPLE_FILE[-1] ^ 1])).decode()
    for files in ({"table": table}, {"people": people}, {"table": ""}, {"people": ""}):
        done = device(asking(ONE, [STRANGER], **files))
        assert "another table than that of the wave" in done["replies"][0]["error"]
        assert done["replies"][0]["looks"] == 0
        assert not [place for place in done["kept"] if ONE.id in place], "a refused wave was counted"


@pytest.mark.parametrize("entry", [None, 6161])
def test_an_entry_that_is_no_name_is_refused_and_nothing_is_kept(entry: Any) -> None:
    for wave in (ONE, LISTS):
        refused, corrected = device(asking(wave, ["u1", entry]), asking(wave, ["u1"]))["replies"]
        assert refused["error"] == "The list of neighbours holds something that is not a name."
        assert "result" in corrected


@pytest.mark.parametrize("stranger", [STRANGER, "", "u0 "])
def test_a_name_that_is_not_in_the_table_adds_nothing_and_is_told_to_the_person_after_the_draw(stranger: str) -> None:
    for wave in (ONE, LISTS):
        done = device(asking(wave, ["u1", stranger, stranger]), asking(wave, [stranger]))
        first, again = done["replies"]
        assert (first["unlisted"], again["unlisted"]) == ([stranger], None)
        assert first["result"] == again["result"]
        assert not stranger.strip() or json.dumps(stranger) not in json.dumps(done["kept"])


def test_a_stored_answer_that_does_not_fit_is_damaged_and_stops_every_draw() -> None:
    place = f"veilgraph:{ONE.id}"
    kept = json.loads(device(asking(ONE, ["u1"]))["kept"][place])
    neighbours = kept["neighbours"]
    damages: list[Any] = [
        {"answer": [0, 0]},
        {"answer": [0, 0, 40_000]},
        {"answer": [0, 0, None]},
        {"answer": "000"},
        {"answer": "AA"},
        {"answer": 0},
        {"answer": []},
        {"neighbours": None},
        {"neighbours": neighbours | {"one_entry": "-1"}},
        {"neighbours": neighbours | {"one_entry": "Infinity"}},
        {"neighbours": neighbours | {"series": "x"}},
        {"neighbours": neighbours | {"wave": 0}},
        {"neighbours": neighbours | {"turns": 1}},
        {"neighbours": neighbours | {"turns": 2.5}},
        {"neighbours": neighbours | {"extra": 1}},
        {"epsilon": None},
        {"epsilon": "-1"},
        {"features": None, "label": 1},
    ]
    for damage in damages:
        (reply,) = device(asking(ONE, ["u1"]), planted={place: canonical_json(kept | damage)})["replies"]
        assert "damaged" in reply.get("error", ""), damage
        assert reply["looks"] == 0
    without = {key: value for key, value in kept.items() if key != "neighbours"}
    (reply,) = device(asking(ONE, ["u1"]), planted={place: canonical_json(without)})["replies"]
    assert "damaged" in reply["error"]
    (reply,) = device(asking(ONE, ["u1"]), planted={place: canonical_json(kept)})["replies"]
    assert reply["result"]["answer"] == kept["answer"]


NOISELESS = waves_of(RandomizedNeighbourList(len(NAMES), 30.0))[1]  # a value is changed with probability 1e-13
IN_ORDER = PeopleFile.of(NAMES).names


@pytest.mark.parametrize("neighbours", [[], ["u0"], ["u1", "ü", "u1"], [*NAMES, *NAMES]])
def test_a_list_without_noise_is_the_rows_of_the_neighbours_and_a_report_of_its_document(neighbours: list[str]) -> None:
    """An empty answer is kept as every other one; the row of the person, u0, is treated as every other row."""
    first, again = device(asking(NOISELESS, neighbours), asking(NOISELESS, [STRANGER]), entry_limit=31.0)["replies"]
    said = text_of(IN_ORDER.index(name) for name in neighbours)
    assert first["result"] == {"answer": said, "campaign": NOISELESS.id, "node": "u0"} == again["result"]
    assert again["looks"] == 0
    assert Report.parse(first["result"], NOISELESS).answer == said


def test_a_list_is_protected_entry_by_entry_and_needs_a_limit_for_one() -> None:
    (refused,) = device(asking(LISTS, ["u1"]), entry_limit=None)["replies"]
    assert "limit for one entry" in refused["error"]
    (above,) = device(asking(LISTS, ["u1"]), entry_limit=2.9)["replies"]
    assert "3.0000 for one entry" in above["error"]
    assert [refused["looks"], above["looks"]] == [0, 0]
    done = device(asking(LISTS, ["u1"]), asking(waves_of(CLASS)[1], ["u1"]), limit=1.0, entry_limit=3.0)
    answered, other = done["replies"]
    assert "result" in answered
    assert done["spent"] == 0
    assert "not the wave that follows" in other["error"], "both are wave 1 of the series"


def test_people_and_table_of_a_list_are_checked_before_it_is_looked_at() -> None:
    people = base64.b64encode(PEOPLE_FILE[:-1] + bytes([PEOPLE_FILE[-1] ^ 1])).decode()
    table = base64.b64encode(TABLE.to_bytes()).decode()
    for files in ({"people": people}, {"people": None}, {"table": table}):
        (reply,) = device(asking(LISTS, [STRANGER], **files))["replies"]
        assert "another table than that of the wave" in reply["error"]
        assert reply["looks"] == 0


def test_a_stored_list_that_does_not_fit_is_damaged_and_stops_every_draw() -> None:
    place = f"veilgraph:{LISTS.id}"
    kept = json.loads(device(asking(LISTS, ["u1"]))["kept"][place])
    spare_bits = [text_of([len(NAMES)]), text_of(range(8)), "AB"]  # of the byte twice, and of the last character
    damaged: list[Any] = [[0], ["A", "A"], [0, 1], None, {}, 0, "", "A", "AAA", "AA==", "A\n", "A+", "Ä0", *spare_bits]
    for said in damaged:
        (reply,) = device(asking(LISTS, ["u1"]), planted={place: canonical_json(kept | {"answer": said})})["replies"]
        assert "damaged" in reply.get("error", ""), said
        assert reply["looks"] == 0
    for said in map(text_of, ([], [0], [0, 5], range(len(NAMES)))):
        (reply,) = device(asking(LISTS, ["u1"]), planted={place: canonical_json(kept | {"answer": said})})["replies"]
        assert reply["result"]["answer"] == said


def test_an_empty_list_counts_with_all_other_answers() -> None:
    """The ledger reads every kept answer, whatever campaign is asked now."""
    label = {"campaign": first_document(epsilon_y=1.0).to_json(), "record": {"label": "red"}, "node": "u0"}
    done = device(asking(NOISELESS, []), label, entry_limit=31.0)
    assert all("result" in reply for reply in done["replies"]), done
    assert done["spent"] == pytest.approx(1.0)


def test_an_older_notice_of_a_wave_is_refused() -> None:
    later = ONE.revise(contact="help@example.org")
    done = device(asking(later, []), asking(ONE, []))
    assert "later notice" in done["replies"][1]["error"]


def test_a_forged_document_with_a_fitting_id_is_another_document() -> None:
    """The device remembers ids: a wave whose table was exchanged is not the wave that it answered."""
    other = rewritten(ONE, neighbours__table="0" * 64)
    assert content_id(json.loads(other)["bound"]) != ONE.id
    done = device(asking(ONE, ["u1"]), asking(ONE, ["u1"]) | {"campaign": other})
    assert "not the wave that follows" in done["replies"][1]["error"]


def test_both_clients_and_the_package_hold_to_one_grammar() -> None:
    """The clients agree on every mutant; the package also knows the integers of an epsilon, so it refuses more."""
    rng = random.Random(19)
    made = [ONE, TWO, waves_of(CAPPED)[1], waves_of(CLASS, first=first_document(epsilon_y=0.1))[1], LISTS]
    made += IN_TURNS[1:]
    texts = [text for each in made for text in mutated_campaigns(each.to_json(), 350, rng)]
    accepted = [0, 0]
    for text, reply in zip(texts, in_node("verifyWave", texts), strict=True):
        question, refusal = in_python(text)
        assert ("result" in reply) == (question is not None), (refusal, reply, text)
        accepted[0] += question is not None
        try:
            Campaign.from_json(text)
        except VeilgraphError:
            continue
        assert question is not None or "closed" in refusal
        accepted[1] += 1
    assert min(accepted) > 20, "no mutant was a wave: the mutations are too wild to compare anything"


@pytest.mark.parametrize("turns", [2, 36])
def test_a_list_is_asked_of_everybody(turns: int) -> None:
    """Of one wave the sum and the largest are the same, so that all else is true."""
    assert in_node("verifyWave", [rewritten(LISTS, neighbours__turns=turns)])[0]["error"] == "This is not a campaign."


def test_a_limit_that_cannot_be_read_stops_every_draw() -> None:
    (reply,) = device(asking(ONE, []), entry_limit=None, planted={"veilgraph:entry-limit": "much"})["replies"]
    assert "limit cannot be read" in reply["error"]
    assert reply["looks"] == 0
