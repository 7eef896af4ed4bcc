"""A campaign states the guarantee that its integers give, and its id is the hash of its content."""

from __future__ import annotations

import json
import math
import random
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.campaigns import CAMPAIGNS, CLOSES, GRAPH, MIXED, campaign, with_mechanisms
from tests.support.forgeries import HONEST_TEXTS, MISLEADING_TEXTS, rewritten
from tests.support.mutations import mutated_campaigns
from tests.support.neighbour_series import CLASS, first_document, waves_of
from veilgraph.campaign import Campaign
from veilgraph.client import verify
from veilgraph.errors import BudgetError, CampaignError, VeilgraphError
from veilgraph.graph import Graph
from veilgraph.privacy.epsilon import state_epsilon
from veilgraph.privacy.mechanisms import GRR, GRRFS, JointGRR, SubsetSelection
from veilgraph.privacy.plain_text import look, misleading_character
from veilgraph.privacy.schema import Column, FeatureSchema
from veilgraph.privacy.strict_json import content_id, number_text

BINARY = CAMPAIGNS["binary"]


@st.composite
def schemas(draw: st.DrawFn) -> FeatureSchema:
    names = draw(st.lists(st.text(min_size=1, max_size=5).filter(_is_plain), min_size=1, max_size=5, unique_by=look))
    columns = []
    for name in names:
        if draw(st.booleans()):
            edges = draw(st.lists(st.floats(allow_nan=False), min_size=3, max_size=5, unique=True))
            columns.append(Column(name=name, edges=tuple(sorted(edges))))
        else:
            values = draw(st.lists(st.text(max_size=4).filter(_is_plain), min_size=2, max_size=4, unique_by=look))
            columns.append(Column(name=name, values=tuple(values)))
    group = draw(st.integers(1, 3)) if all(column.domain_size == 2 for column in columns) else 1
    return FeatureSchema(
        columns=tuple(columns), classes=("a", "b", "c"), group=group, note=draw(st.sampled_from(["", "n"]))
    )


def _is_plain(text: str) -> bool:
    return misleading_character(text) is None


@given(
    schema=schemas(),
    epsilon_x=st.floats(1e-6, 60),
    epsilon_y=st.one_of(st.none(), st.floats(1e-6, 60)),
    share=st.floats(0, 1),
    closes=st.datetimes(datetime(1000, 1, 2), datetime(9999, 12, 30)),
)
@settings(max_examples=150, deadline=None)
def test_a_campaign_survives_a_round_trip_through_json_and_the_client_agrees(
    schema: FeatureSchema, epsilon_x: float, epsilon_y: float | None, share: float, closes: datetime
) -> None:
    made = campaign(
        schema,
        epsilon_x=epsilon_x,
        sampled=1 + int(share * (schema.num_features - 1)),
        epsilon_y=epsilon_y,
        label="the label's name",
        closes=closes.replace(microsecond=0, tzinfo=UTC),
    )
    read = Campaign.from_json(made.to_json())
    assert read == made
    assert read.id == made.id
    assert read.to_json() == made.to_json()
    assert read.schema == schema
    assert read.feature_mechanism == made.feature_mechanism
    question = verify(made.to_json(), max_epsilon=1e4, now=datetime(1000, 1, 1, tzinfo=UTC))
    assert float(question.epsilon) == pytest.approx(made.guarantee.total_user_level, rel=1e-12, abs=1e-12)
    assert question.id == made.id


@given(
    classes=st.integers(2, 90),
    epsilon_y=st.floats(1e-3, 40),
    share=st.floats(0, 1),
    schema=schemas(),
    epsilon_x=st.floats(1e-3, 30),
    asks=st.sampled_from(["label", "features", "both"]),
)
@settings(max_examples=100, deadline=None)
def test_sets_and_joint_features_survive_a_round_trip_and_the_client_agrees(
    classes: int, epsilon_y: float, share: float, schema: FeatureSchema, epsilon_x: float, asks: str
) -> None:
    schema = FeatureSchema(
        columns=() if asks == "label" else schema.columns,
        classes=tuple(f"c{i}" for i in range(classes)),
        group=1 if asks == "label" else schema.group,
    )
    sampled = 1 + int(share * (schema.num_features - 1))
    made = with_mechanisms(
        campaign(schema, epsilon_y=1.0, label="the label's name"),
        feature_mechanism=None if asks == "label" else JointGRR(schema.domain_sizes, sampled, epsilon_x),
        label_mechanism=None if asks == "features" else SubsetSelection(classes, epsilon_y),
    )
    read = Campaign.from_json(made.to_json())
    assert read == made
    assert read.to_json() == made.to_json()
    assert json.loads(made.to_json())["format"] == 3
    question = verify(made.to_json(), max_epsilon=1e4, now=datetime(1000, 1, 1, tzinfo=UTC))
    assert float(question.epsilon) == pytest.approx(made.guarantee.total_user_level, rel=1e-12, abs=1e-12)
    levels = question.asked.features.attribute_levels if question.asked.features else []
    expected = made.guarantee.attribute_levels
    assert [float(level) for level in levels] == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_a_document_of_another_format_is_refused() -> None:
    for version in (1, 2, 5, True, "3"):
        with pytest.raises(CampaignError, match="format is not 3 or 4"):
            Campaign.from_json(rewritten(BINARY, format=version, bound__format=version))


def test_the_same_question_asked_again_is_another_campaign() -> None:
    """A device answers an id once, for ever: whom it answered last year must not seem to have answered this year."""
    schema = FeatureSchema(classes=("ill", "well"))
    again = [campaign(schema, epsilon_y=1.0, nonce=None) for _ in range(100)]
    assert len({made.id for made in again}) == 100
    assert all(re.fullmatch("[0-9a-f]{32}", made.asked.bound["nonce"]) for made in again)
    questions = [verify(made.to_json(), max_epsilon=4.0) for made in again]
    assert [question.id for question in questions] == [made.id for made in again]
    drawn = again[0].asked.bound["nonce"]
    assert campaign(schema, epsilon_y=1.0, nonce=drawn) == again[0]
    assert again[0].revise(purpose="Another").revise(contact="both@example.org").id == again[0].id


def test_waves_of_a_series_are_bound_to_the_nonce_of_its_first_document() -> None:
    first, other = (first_document(nonce=digit * 32) for digit in "01")
    waves = [waves_of(CLASS, first=one)[1] for one in (first, other)]
    assert waves[0].id != waves[1].id
    assert "nonce" not in waves[0].asked.bound


def test_new_campaigns_are_of_format_3_and_ask_for_the_best_set() -> None:
    countries = FeatureSchema(classes=tuple(f"c{i}" for i in range(18)))
    made = campaign(countries, epsilon_y=1.0, label="country")
    assert made.asked.format == 3
    assert made.label_mechanism == SubsetSelection(18, 1.0, size=6)
    assert campaign(countries, epsilon_y=4.0).label_mechanism == GRR(18, 4.0)
    assert campaign(FeatureSchema(classes=("no", "yes")), epsilon_y=0.1).label_mechanism == GRR(2, 0.1)


def test_a_campaign_for_all_features_says_nothing_about_picking_some() -> None:
    schema = FeatureSchema.binary(2, classes=("no", "yes"))
    once = campaign(schema, epsilon_x=1.0, sampled=2, epsilon_y=1.0)
    series = campaign(schema, epsilon_x=1.0, sampled=2, epsilon_y=1.0, rounds=3)
    for made in (once, series):
        asked = made.asked.words.methods[0]
        assert asked.startswith(("The report has", "Asked in 3 rounds. The report has"))
        assert "the true answer to each of 2 features" in asked
        assert not any(word in asked for word in ("picks", "picked", "others"))


def test_a_campaign_says_in_words_what_a_set_and_joint_features_mean() -> None:
    words = CAMPAIGNS["a set of 6 of 18 classes"].in_words()
    assert (
        "A report names 6 of 18 answers to the label, the true one among them with a chance of 57.6 in 100."
    ) in words  # 6 e / (6 e + 12)
    words = CAMPAIGNS["joint features"].in_words()
    assert any("picks 4 at random, and randomizes their answers together" in line for line in words)
    assert any("the report says nothing about the rest" in line for line in words)
    # e^2 / (e^2 + 15) = 0.330 that all four are true, and a share 7/15 of the other values has a given answer right.
    assert any("If picked, true with a chance of 64.3 in 100" in line for line in words)


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_the_document_holds_the_integers_of_the_simulation(name: str) -> None:
    made = CAMPAIGNS[name]
    document = json.loads(made.to_json())
    document = document.get("bound", document)
    features, label = made.feature_mechanism, made.label_mechanism
    if isinstance(features, GRRFS | JointGRR):
        simulated = type(features)(made.schema.domain_sizes, features.sampled, features.epsilon)
        responses = simulated.responses if isinstance(simulated, GRRFS) else simulated.responses.values()
        assert [(t["domain_size"], t["true"], t["other"]) for t in document["features"]["tables"]] == [
            (r.table.domain_size, r.table.true, r.table.other) for r in responses
        ]
    if isinstance(label, GRR):
        table = GRR(made.schema.num_classes, label.epsilon).table
        assert document["label"]["table"] == {
            "domain_size": table.domain_size,
            "true": table.true,
            "other": table.other,
        }
    if isinstance(label, SubsetSelection):
        sets = SubsetSelection(made.schema.num_classes, label.epsilon, label.size).table
        assert document["label"]["size"] == label.size
        assert document["label"]["table"] == {
            "domain_size": sets.domain_size,
            "size": sets.size,
            "inside": sets.inside,
            "outside": sets.outside,
        }


def test_the_document_holds_no_number_that_languages_write_differently() -> None:
    def leaves(value: Any) -> list[Any]:
        items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
        return [value] if items is None else [leaf for item in items for leaf in leaves(item)]

    for made in CAMPAIGNS.values():
        for leaf in leaves(made.document):
            assert leaf is None or isinstance(leaf, str | bool) or (type(leaf) is int and leaf < 2**53)


def test_the_id_is_the_hash_of_what_reports_are_bound_to() -> None:
    document = BINARY.document
    bound = document["bound"]
    assert document["id"] == BINARY.id == content_id(bound)
    for key in bound:
        assert content_id({**bound, key: "other"}) != BINARY.id
    made = campaign(MIXED, epsilon_y=1.0)
    moved = campaign(MIXED, epsilon_y=1.0, closes=CLOSES.astimezone(timezone(timedelta(hours=-8))))
    assert moved.id == made.id
    assert (moved.is_open(CLOSES - timedelta(seconds=1)), moved.is_open(CLOSES)) == (True, False)
    assert len({campaign(MIXED, epsilon_x=epsilon, sampled=1).id for epsilon in (0.5, 0.5 + 1e-15, 0.6)}) == 3


def test_the_notice_may_change_and_what_reports_are_bound_to_may_not() -> None:
    """Every key of the notice is outside of the hash, and every key of the bound part inside."""
    made = CAMPAIGNS["texts and retention"]
    assert content_id(made.asked.bound) == made.id
    changes: dict[str, Any] = {
        "purpose": "Another",
        "contact": "another@example.org",
        "closes": "2100-06-30T23:59:59Z",
        "retention": None,
        "note": "",
        "texts": {},
        "language": "ar",
        "version": 7,
    }
    for key, value in changes.items():
        changed = {f"notice__{key}": value} | ({"notice__retention": None} if key == "closes" else {})
        changed |= {"notice__language": None} if key == "texts" else {}
        read = Campaign.from_json(rewritten(made, **changed))
        assert read.id == made.id, key
        assert read.notice.sha256 != made.notice.sha256, key
    other = campaign(MIXED, epsilon_x=1.0, sampled=2, epsilon_y=2.0, purpose="Another")
    assert other.id == made.id
    assert replace(made, asked=replace(made.asked, graph_sha256="0" * 64)).id != made.id
    assert set(made.notice.document) == {
        "version",
        "purpose",
        "contact",
        "closes",
        "retention",
        "note",
        "round",
        "texts",
        "language",
    }
    assert set(made.asked.bound) == {"format", "schema", "features", "label", "guarantee", "graph", "nonce", "rounds"}


def test_each_revision_raises_the_version_by_one_and_keeps_the_rest() -> None:
    made = CAMPAIGNS["texts and retention"]
    revised = made.revise(texts={"fr": {"purpose": "Pour apprendre"}})
    assert revised.notice.document == made.notice.document | {
        "version": 2,
        "texts": {**made.notice.document["texts"], "fr": {"purpose": "Pour apprendre"}},
    }
    assert revised.revise(note="").notice.version == 3
    assert Campaign.from_json(revised.to_json()) == revised
    with pytest.raises(CampaignError, match="nothing changes"):
        made.revise(purpose=made.notice.purpose)


def test_retention_may_only_move_to_an_earlier_time() -> None:
    made = campaign(MIXED, epsilon_y=1.0, retention=CLOSES + timedelta(days=90))
    assert made.revise(retention=CLOSES + timedelta(days=30)).notice.document["retention"] == "2100-01-31T00:00:00Z"
    with pytest.raises(CampaignError, match="later than 2100-04-01 00:00:00 UTC, which participants agreed to"):
        made.revise(retention=CLOSES + timedelta(days=91))
    with pytest.raises(CampaignError, match="before the campaign closes"):
        made.revise(closes=CLOSES + timedelta(days=91))
    assert campaign(MIXED, epsilon_y=1.0).revise(retention=CLOSES).notice.retention == CLOSES


MISTAKES: dict[str, dict[str, Any]] = {
    "collects nothing": {},
    "belong together": {"epsilon_x": 1.0, "epsilon_y": 1.0},
    "epsilon_y is not finite": {"epsilon_y": float("inf")},
    "epsilon_x is not finite": {"epsilon_x": float("inf"), "sampled": 1},
    "purpose must be text": {"epsilon_y": 1.0, "purpose": ""},
    "contact must be text": {"epsilon_y": 1.0, "contact": "x" * 4001},
    "purpose is not valid Unicode": {"epsilon_y": 1.0, "purpose": "\ud800"},
    "with its time zone": {"epsilon_y": 1.0, "closes": datetime(2027, 1, 1)},
    "to the second": {"epsilon_y": 1.0, "closes": datetime(2027, 1, 1, microsecond=1, tzinfo=UTC)},
    "give the label another name": {"epsilon_y": 1.0, "label": "age"},
}


def test_an_invalid_campaign_is_refused() -> None:
    for message, wrong in MISTAKES.items():
        with pytest.raises(CampaignError, match=message):
            campaign(MIXED, **wrong)
    for name in ("purpose", "contact", "label"):
        for text in MISLEADING_TEXTS.values():
            with pytest.raises(CampaignError, match=f"{name} (holds U|is not valid)"):
                campaign(MIXED, epsilon_y=1.0, **{name: text})
    for budget in ({"epsilon_x": 1.0, "sampled": 0}, {"epsilon_y": 1e-300}):
        with pytest.raises(BudgetError):
            campaign(MIXED, **budget)
    schema = FeatureSchema.binary(2100, classes=["a", "b"])
    with pytest.raises(CampaignError, match="merge columns"):  # a device could not check it
        campaign(schema, epsilon_x=0.01, sampled=1050)
    assert campaign(schema, epsilon_x=0.01, sampled=2100).feature_mechanism is not None
    more = campaign(MIXED, epsilon_x=1.0, sampled=12).feature_mechanism
    assert more == GRRFS(MIXED.domain_sizes, MIXED.num_features, 1.0)


TEXTS = [
    "notice__purpose",
    "notice__contact",
    "notice__note",
    "schema__label__name",
    "schema__label__classes__0",
    "schema__columns__0__name",
    "schema__columns__0__values__0",
]


@pytest.mark.parametrize("place", TEXTS)
def test_every_text_of_a_campaign_refuses_what_could_mislead(place: str) -> None:
    for kind, text in MISLEADING_TEXTS.items():
        with pytest.raises(CampaignError, match=r"control or invisible character|not valid Unicode") as caught:
            Campaign.from_json(rewritten(BINARY, **{place: text}))
        assert str(caught.value).isprintable(), kind
    for text in HONEST_TEXTS.values():
        assert Campaign.from_json(rewritten(BINARY, **{place: text})).to_json()


def test_a_schema_of_classes_alone_collects_the_label_alone() -> None:
    schema = FeatureSchema(classes=("a", "b", "c"))
    made = campaign(schema, epsilon_y=1.0)
    assert made.asked.bound["schema"]["columns"] == []
    assert Campaign.from_json(made.to_json()) == made
    with pytest.raises(CampaignError, match="the schema has no columns: leave epsilon_x and sampled out"):
        campaign(schema, epsilon_x=1.0, sampled=1, epsilon_y=1.0)


def test_mechanisms_for_another_schema_are_refused() -> None:
    made = campaign(MIXED, epsilon_y=1.0)
    with pytest.raises(CampaignError, match="other domain sizes"):
        with_mechanisms(made, feature_mechanism=GRRFS((2, 2), 1, 1.0))
    with pytest.raises(CampaignError, match="is for 2 classes"):
        with_mechanisms(made, label_mechanism=GRR(2, 1.0))
    with pytest.raises(CampaignError, match="SHA-256"):
        replace(made, asked=replace(made.asked, graph_sha256="f" * 63))


def test_a_guarantee_that_is_not_what_the_tables_give_is_refused() -> None:
    with pytest.raises(CampaignError, match=r"not what the tables give: user level \(any two records\) 1\.99999"):
        Campaign.from_json(rewritten(BINARY, guarantee__user_level__total="1.5"))
    with pytest.raises(CampaignError, match="does not hold the integers that an epsilon of 1 gives"):
        Campaign.from_json(rewritten(BINARY, label__table__true=BINARY.asked.bound["label"]["table"]["true"] + 1))


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_a_stated_total_is_the_one_that_the_tables_give_to_the_last_digit(name: str) -> None:
    total = state_epsilon(CAMPAIGNS[name].guarantee.total_user_level)
    for other in (math.nextafter(total, 0.0), math.nextafter(total, math.inf)):
        with pytest.raises(CampaignError, match="not what the tables give"):
            Campaign.from_json(rewritten(CAMPAIGNS[name], guarantee__user_level__total=number_text(other)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"notice__closes": "2100-1-1T00:00:00Z"}, "canonical form"),
        ({"label__epsilon": "1.0"}, "canonical form"),
        ({"label__epsilon": "1e400"}, "must be a number"),
        ({"label__epsilon": 1}, "must be a number"),
        ({"bound__format": True}, "canonical form"),
        ({"schema__group": 2}, "contradicts itself|whole number|does not hold the integers"),
        ({"graph__nodes": 0}, "graph.nodes"),
        ({"notice__contact": None}, "contact must be text"),
        ({"schema__columns__0": {"name": "x", "values": ["a"], "edges": ["1"]}}, "unknown key"),
    ],
)
def test_every_part_is_checked(change: dict[str, Any], message: str) -> None:
    with pytest.raises(CampaignError, match=message):
        Campaign.from_json(rewritten(BINARY, **change))


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "7", "1e5", "NaN", "[" * 100_000, b"\xff", "9" * 5000, '"\\ud800"'),
        BINARY.to_json().replace('"sampled":2', '"sampled":2,"sampled":2'),
    ],
)
def test_what_is_not_a_campaign_is_refused(text: str | bytes) -> None:
    with pytest.raises(CampaignError):
        Campaign.from_json(text)


@pytest.mark.parametrize(
    "name",
    [
        "binary",
        "mixed domains, bins and names beyond ASCII",
        "merged columns",
        "label only",
        "a set of 6 of 18 classes",
        "sets beside features",
        "joint features of mixed domains",
        "texts and retention",
    ],
)
def test_mutated_campaigns_are_refused_cleanly_or_are_consistent(name: str) -> None:
    """Accepted campaigns state the guarantee of their tables; the others raise a veilgraph error, on devices too.

    `python -m studies.fuzz` tries as many as one likes.
    """
    rng = random.Random(name)
    messages: list[str] = []
    for text in mutated_campaigns(CAMPAIGNS[name].to_json(), 400, rng):
        read = question = None
        try:
            read = Campaign.from_json(text)
        except VeilgraphError as error:
            messages.append(str(error))
        try:
            question = verify(text, max_epsilon=1e9, now=datetime(1000, 1, 1, tzinfo=UTC))
        except CampaignError as error:
            messages.append(str(error))
        if read is not None:
            assert question is not None
            assert float(question.epsilon) == pytest.approx(read.guarantee.total_user_level, rel=1e-12, abs=1e-12)
            assert read.to_json() == Campaign.from_json(read.to_json()).to_json()
    assert max(map(len, messages)) < 1000
    assert len(messages) > 400, "hardly anything was refused"


def test_the_graph_is_named_by_its_content() -> None:
    shuffled = Graph.from_edges([[2, 0], [1, 1]], num_nodes=3)
    assert shuffled.fingerprint == GRAPH.fingerprint
    assert Graph.from_edges([[0], [1]], num_nodes=3).fingerprint != GRAPH.fingerprint
    assert Graph.from_edges([[0, 1], [1, 2]], 4).fingerprint != GRAPH.fingerprint
    assert campaign(MIXED, epsilon_y=1.0).graph_sha256 == GRAPH.fingerprint
