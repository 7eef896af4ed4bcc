"""Documents of waves about private neighbours: a chain by hash, exact guarantees, and forged documents refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from tests.support.forged_waves import FORGED
from tests.support.neighbour_series import (
    ANSWERS,
    CAPPED,
    CLASS,
    CLOSES,
    HISTOGRAM,
    LIST,
    NAMES,
    PEOPLE,
    TABLE,
    first_document,
    of_series,
    waves_of,
)
from veilgraph.campaign import Campaign
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.neighbours.next_wave import NextWave, begin_series
from veilgraph.campaign.neighbours.wave import series_of
from veilgraph.campaign.notice import Notice
from veilgraph.campaign.series_folder import check_follows
from veilgraph.errors import CampaignError
from veilgraph.graph import Graph
from veilgraph.privacy.mechanisms import GRR, NeighbourhoodClass, NeighbourMechanism, SubsetSelection
from veilgraph.privacy.schema import FeatureSchema


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_written_wave_is_read_as_it_was(answer: NeighbourMechanism) -> None:
    _, wave, second = waves_of(answer, CLASS)
    assert Campaign.from_json(wave.to_json()) == wave
    assert Campaign.from_json(second.to_json() + "\n") == second


def test_a_wave_names_its_series_its_number_and_all_documents_before_it() -> None:
    first, one, two = waves_of(HISTOGRAM, CLASS)
    assert two.asked.documents.earlier == (first.id, one.id)
    assert (two.series, two.asked.documents.number) == (first.id, 2)
    assert first.series == first.id


def test_every_answer_changes_the_id_of_the_wave_and_of_all_that_follow() -> None:
    other = waves_of(NeighbourhoodClass(3, 2.5), CLASS)
    ids = [each.id for each in (*waves_of(CLASS, CLASS)[1:], *other[1:])]
    assert len(set(ids)) == len(ids)


def test_the_guarantee_of_a_series_is_the_sum_of_label_and_waves_under_each_relation() -> None:
    *_, second = waves_of(CLASS, CAPPED)
    stated = second.asked.bound["guarantee"]
    assert float(stated["wave"]["one_entry"]) == pytest.approx(0.1, abs=1e-9)
    assert float(stated["wave"]["any_lists"]) == pytest.approx(3 * 2 * 0.1, abs=1e-9)
    lists, record = stated["series"]["lists"], stated["series"]["lists_and_record"]
    assert float(lists["any_lists"]) == pytest.approx(2.6, abs=1e-9)
    assert float(lists["one_entry"]) == pytest.approx(2.1, abs=1e-9)
    assert float(lists["one_relationship"]) == pytest.approx(4.2, abs=1e-9)
    assert float(record["any_lists"]) == pytest.approx(4.6, abs=1e-9)
    assert float(record["one_entry"]) == pytest.approx(4.1, abs=1e-9)


def test_words_about_a_wave_state_every_relation_for_the_wave_and_for_the_series() -> None:
    words = "\n".join(waves_of(HISTOGRAM)[1].in_words())
    alone, together = words.split("The label and 1 wave so far, together:")
    for part in (alone, together):
        assert "Whole lists are not protected." in part
        assert "One entry, two neighbour lists, one with a neighbour more: epsilon = 1.0000" in part
        assert "One relationship, which both ends report, or neither: epsilon = 2.0000" in part
    assert "epsilon = 2.0000 in total (the label alone)" in together


def test_every_forged_wave_is_refused() -> None:
    for name, (text, forgery) in FORGED.items():
        with pytest.raises(CampaignError, match=forgery.package):
            pytest.fail(f"{name} was read as {Campaign.from_json(text)}")


def test_a_wave_of_lists_is_read_as_it_was_and_names_no_table() -> None:
    _, wave = waves_of(LIST)
    assert Campaign.from_json(wave.to_json()) == wave
    series = series_of(wave.asked)
    assert (series.table, series.asks_for_lists, series.published) == (None, True, frozenset({series.people}))
    assert not series_of(waves_of(CLASS)[1].asked).asks_for_lists
    words = "\n".join(wave.in_words())
    assert "Whole lists are not protected." in words
    assert "A device says of each of 6 people whether they are among a person's neighbours." in words
    assert "published" not in words


def test_lists_are_asked_for_alone() -> None:
    for answers in ((LIST, CLASS), (CLASS, LIST), (LIST, LIST)):
        with pytest.raises(CampaignError, match="has one wave: begin another series"):
            waves_of(*answers)


def test_labels_before_waves_are_by_grr_and_before_lists_by_what_carries_most() -> None:
    """At this epsilon a set of three of ten classes tells Veil more than one class."""
    schema = FeatureSchema(classes=tuple(f"c{i}" for i in range(10)))
    notice, label = Notice(purpose="p", contact="c", closes=CLOSES), CampaignBudget(epsilon_y=1.0)
    waves, lists = (
        begin_series(schema=schema, people=PEOPLE, followed_by=kind, notice=notice, budget=label)
        for kind in ("waves", "lists")
    )
    assert isinstance(waves.label_mechanism, GRR)
    assert isinstance(lists.label_mechanism, SubsetSelection)
    wave = NextWave(answer=LIST, closes=CLOSES).after(lists, people=PEOPLE, table=None)
    assert Campaign.from_json(wave.to_json()) == wave
    assert series_of(wave.asked).label == lists.label_mechanism


def test_in_turns_a_series_costs_the_dearest_of_its_waves_and_not_their_sum() -> None:
    """Each person answers one of them."""
    *_, first, second = waves_of(CLASS, CAPPED, turns=4)
    assert Campaign.from_json(second.to_json()) == second
    stated = second.asked.bound["guarantee"]["series"]
    assert float(stated["lists"]["any_lists"]) == pytest.approx(2.0, abs=1e-9)
    assert float(stated["lists"]["one_entry"]) == pytest.approx(2.0, abs=1e-9)
    assert float(stated["lists"]["one_relationship"]) == pytest.approx(4.0, abs=1e-9)
    assert float(stated["lists_and_record"]["any_lists"]) == pytest.approx(4.0, abs=1e-9)
    assert second.guarantee.total_user_level == first.guarantee.total_user_level
    words = "\n".join(second.in_words())
    assert "Each person answers one of 4 waves, which a hash of the id decides." in words
    assert "The label and the one wave that a person answers, together:" in words


def test_every_person_has_one_turn_and_turns_are_about_equally_many() -> None:
    documents = [each.asked.documents for each in waves_of(CLASS, CLASS, CLASS, turns=3)[1:]]
    names = [f"p{i}" for i in range(3000)]
    turns = [[wave.is_asked(name) for wave in documents] for name in names]
    assert {sum(each) for each in turns} == {1}
    assert all(map(waves_of(CLASS)[1].asked.documents.is_asked, names))
    for share in np.mean(turns, axis=0):  # five standard deviations of a share of 3,000
        assert abs(share - 1 / 3) < 5 * np.sqrt(2 / 9 / len(names))


def test_turns_are_said_with_the_first_wave_and_lists_have_none() -> None:
    first, one = waves_of(CLASS, turns=4)
    with pytest.raises(CampaignError, match="is said with the first wave"):
        NextWave(answer=CLASS, closes=CLOSES, turns=3).after(one, people=PEOPLE, table=TABLE.sha256)
    two = NextWave(answer=CLASS, closes=CLOSES).after(one, people=PEOPLE, table=TABLE.sha256)
    assert two.asked.documents.turns == 4
    with pytest.raises(CampaignError, match="in one wave: leave turns out"):
        NextWave(answer=LIST, closes=CLOSES, turns=2).after(first, people=PEOPLE, table=None)


def test_a_wave_with_other_turns_does_not_follow() -> None:
    (first, one), other = waves_of(CLASS, turns=4), waves_of(CLASS, CLASS)[-1]
    series = replace(series_of(other.asked), documents=(first.id, one.id))
    with pytest.raises(CampaignError, match="publish it anew"):
        check_follows(of_series(other, series), one)


def test_an_altered_wave_is_refused() -> None:
    text = waves_of(HISTOGRAM)[1].to_json()
    with pytest.raises(CampaignError, match="altered"):
        Campaign.from_json(text.replace(TABLE.sha256, "0" * 64))


def test_a_series_begins_with_the_label_alone() -> None:
    schema = FeatureSchema.binary(2, classes=["a", "b"])
    notice, label = Notice(purpose="p", contact="c", closes=CLOSES), CampaignBudget(epsilon_y=1.0)
    public, both = Graph.from_edges([[0], [1]], num_nodes=2), replace(label, epsilon_x=1.0, sampled=1)
    with pytest.raises(CampaignError, match="begins with the label alone"):
        begin_series(schema=schema, people=public, notice=notice, budget=label)
    with pytest.raises(CampaignError, match=r"asks for no features: .* leave epsilon_x and sampled out"):
        begin_series(schema=schema, people=Graph.without_edges(2), notice=notice, budget=both)
    features = Campaign.new(schema=schema, graph=public, notice=notice, budget=both)
    with pytest.raises(CampaignError, match="begins with a campaign for the label alone"):
        NextWave(answer=NeighbourhoodClass(2, 1.0), closes=CLOSES).after(features, people=public, table="0" * 64)


def test_a_wave_is_for_the_people_of_its_series_and_keeps_no_report_longer() -> None:
    first = first_document(retention=datetime(2101, 1, 1, tzinfo=UTC))
    with pytest.raises(CampaignError, match="not those of the series"):
        NextWave(answer=CLASS, closes=CLOSES).after(first, people=Graph.without_edges(2), table=TABLE.sha256)
    with pytest.raises(CampaignError, match="which participants agreed to"):
        NextWave(answer=CLASS, closes=CLOSES, retention=datetime(2102, 1, 1, tzinfo=UTC)).after(
            first, people=PEOPLE, table=TABLE.sha256
        )
    assert (
        NextWave(answer=CLASS, closes=CLOSES).after(first, people=PEOPLE, table=TABLE.sha256).notice.retention
        == first.notice.retention
    )


def test_a_table_with_another_hash_or_size_is_refused() -> None:
    series = series_of(waves_of(CLASS)[1].asked)
    assert series.check_table(TABLE.to_bytes(), people=len(NAMES)).sha256 == TABLE.sha256
    with pytest.raises(CampaignError, match="give its own table"):
        series.check_table(TABLE.to_bytes()[:-2], people=len(NAMES))
    with pytest.raises(CampaignError, match="publish another one"):
        series.check_table(TABLE.to_bytes(), people=7)


def test_people_have_one_file_in_whatever_order_they_are_read() -> None:
    other = Graph.without_edges(len(NAMES), node_ids=NAMES[::-1])
    made = NextWave(answer=CLASS, closes=CLOSES).after(first_document(other), people=other, table=TABLE.sha256)
    assert made == waves_of(CLASS)[1]
