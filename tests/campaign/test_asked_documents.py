"""In turns, each person is asked by one document of a series, and by its number."""

from __future__ import annotations

from veilgraph.campaign.asked_documents import Documents, turn_of

NAMES = [f"u{number}" for number in range(200)]


def wave(number: int, turns: int | None) -> Documents:
    return Documents(nodes=len(NAMES), earlier=tuple("abcd"[:number]), turns=turns)


def test_a_person_is_asked_in_their_turn_and_in_no_other() -> None:
    for name in NAMES:
        assert [number for number in range(1, 5) if wave(number, 4).is_asked(name)] == [turn_of(name, 4)]


def test_people_are_counted_as_they_are_asked() -> None:
    label, *of_rounds = wave(3, 4).people_asked(NAMES)
    assert label == len(NAMES)
    assert of_rounds == [sum(map(wave(number, 4).is_asked, NAMES)) for number in (1, 2, 3)]
    assert wave(2, None).people_asked(NAMES) == [len(NAMES)] * 3
    assert Documents(nodes=7).people_asked([]) == [7]


def test_an_earlier_document_is_closed_and_any_other_is_not_known() -> None:
    open_wave = wave(2, None)
    assert open_wave.why_closed("a") == "the label of this series is closed, and wave 2 is open: get the campaign again"
    assert str(open_wave.why_closed("b")).startswith("wave 1 of this series is closed")
    assert open_wave.why_closed("c") is open_wave.why_closed(None) is None
    assert (open_wave.described, Documents(nodes=1).described) == ({"wave": 2}, {})
