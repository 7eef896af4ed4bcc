"""A collection begins whole or not at all, and what reports are bound to never changes afterwards."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.health_folder import ALONE, NAMES, PEOPLE, QUESTION, begun
from veilgraph.campaign.acceptance import PAGE_LIMIT
from veilgraph.campaign.tokens import read_keys
from veilgraph.collection import Collection, revise
from veilgraph.collection.begin import check_free
from veilgraph.errors import CampaignError, GraphError, RunError, VeilgraphError
from veilgraph.graph import read_public
from veilgraph.privacy.epsilon import state_epsilon
from veilgraph.privacy.public_columns import PublicColumn
from veilgraph.privacy.schema import Column, FeatureSchema

PUBLIC = {"campaign.json", "notice.toml", "schema.toml"}


def test_the_folder_has_what_the_next_commands_need(tmp_path: Path) -> None:
    collection = begun(tmp_path)
    assert collection.graph.num_nodes == PEOPLE
    assert int((collection.graph.degrees == 0).sum()) == ALONE
    assert set(collection.graph.names) == set(NAMES)
    assert collection.campaign.schema.classes == ("no", "yes")
    assert len(read_keys(collection.keys_file)) == 1
    assert QUESTION in collection.campaign.to_json()


def test_only_what_is_published_is_readable_for_others(tmp_path: Path) -> None:
    folder = begun(tmp_path).folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in folder.iterdir():
        readable = stat.S_IMODE(path.stat().st_mode) & 0o077
        assert (readable != 0) == (path.name in PUBLIC), path.name


def test_two_collections_have_different_keys_and_ids(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one, two = begun(tmp_path / "one"), begun(tmp_path / "two")
    assert one.campaign.id != two.campaign.id
    assert one.keys_file.read_text() != two.keys_file.read_text()
    assert one.admin_token_file.read_text() != two.admin_token_file.read_text()


@pytest.mark.parametrize("rounds", [None, 2, 6])
@pytest.mark.parametrize("epsilon", [0.5, PAGE_LIMIT])
def test_all_that_a_person_answers_stays_within_the_epsilon_and_spends_it(
    tmp_path: Path, rounds: int | None, epsilon: float
) -> None:
    guarantee = begun(tmp_path, rounds=rounds, epsilon=epsilon).campaign.guarantee
    spent = state_epsilon(guarantee.total_user_level)
    assert spent <= epsilon * (1 + 1e-9)
    # Budgets of rounds are whole steps of 0.01, each of which costs at most a few hundredths of the total.
    assert spent > epsilon - 0.05


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": PAGE_LIMIT + 0.1}, "the participant's page refuses"),
        ({"epsilon": 1e-6, "rounds": 12}, "too little for 12 rounds"),
        ({"answers": ("ill", "ill ")}, "look alike"),
        ({"answers": ("yes", "yes")}, "declare 2 or more"),
        ({"languages": ("Deutsch",)}, "must be a tag such as"),
    ],
)
def test_a_refused_collection_leaves_nothing(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(VeilgraphError, match=message):
        begun(tmp_path, **changes)
    assert {path.name for path in tmp_path.iterdir()} == {"people.csv", "links.csv"}


def test_a_table_that_lacks_people_whom_the_links_name_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "few.csv").write_text("id\nanna-0\n")
    with pytest.raises(VeilgraphError, match="unknown node"):
        begun(tmp_path, people=tmp_path / "few.csv")
    assert not (tmp_path / "health").exists()


def test_a_folder_with_something_else_or_that_a_shell_is_in_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "health").mkdir()
    (tmp_path / "health" / "thesis.tex").touch()
    with pytest.raises(RunError, match="is no collection: choose another folder"):
        begun(tmp_path)
    assert [path.name for path in (tmp_path / "health").iterdir()] == ["thesis.tex"]
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for folder in (Path(), Path(".."), tmp_path):
        with pytest.raises(RunError, match="is where you are: give the name of a new folder"):
            check_free(folder)


def test_contacts_that_nobody_holds_begin_with_people_alone(tmp_path: Path) -> None:
    collection = begun(tmp_path, links=None, contacts="list")
    assert collection.graph_files == (collection.ids_file, None)
    assert list(collection.graph.names) == NAMES
    assert collection.graph.num_edges == 0


def test_a_changed_notice_is_taken_up_and_the_id_stays(tmp_path: Path) -> None:
    collection = begun(tmp_path, languages=("en", "de"))
    before = collection.campaign
    assert revise(collection) is None
    text = collection.notice_file.read_text(encoding="utf-8")
    collection.notice_file.write_text(text.replace("flu@example.org", "office@example.org"), encoding="utf-8")
    revised = revise(collection)
    assert revised is not None
    assert Collection(collection.folder).campaign == revised
    assert (revised.id, revised.notice.version) == (before.id, 2)
    assert revise(Collection(collection.folder)) is None


def test_a_closing_time_in_the_past_closes_nothing(tmp_path: Path) -> None:
    collection = begun(tmp_path)
    before = collection.campaign_file.read_bytes()
    text = collection.notice_file.read_text(encoding="utf-8")
    assert "2100-01-31" in text
    collection.notice_file.write_text(text.replace("2100-01-31", "2020-01-31"), encoding="utf-8")
    with pytest.raises(CampaignError, match="in the past: give a later day, or close the collection at once with"):
        revise(collection)
    assert collection.campaign_file.read_bytes() == before


def test_a_changed_question_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    collection = begun(tmp_path)
    before = collection.campaign_file.read_bytes()
    columns = (Column(name="age", edges=(0, 30, 120)),)
    FeatureSchema(columns=columns, classes=("no", "yes")).save(collection.schema_file)
    with pytest.raises(CampaignError, match="reports are bound to its questions and answers"):
        revise(collection)
    assert collection.campaign_file.read_bytes() == before


def test_public_columns_go_with_the_people_and_are_named_in_the_campaign(tmp_path: Path) -> None:
    schema = FeatureSchema(
        classes=("no", "yes"), public=(PublicColumn(name="language"), PublicColumn(name="profile", kind="embedding"))
    )
    schema.save(tmp_path / "asked.toml")
    np.save(tmp_path / "profile.npy", np.arange(2.0 * PEOPLE).reshape(PEOPLE, 2))
    collection = begun(tmp_path, answers=(), schema=tmp_path / "asked.toml")
    assert collection.campaign.notice.public == schema.public
    assert (collection.folder / "profile.npy").read_bytes() == (tmp_path / "profile.npy").read_bytes()
    assert read_public(schema.public, collection.people_file, collection.graph) is not None
    assert revise(collection) is None
    replace(schema, public=schema.public[:1]).save(collection.schema_file)
    with pytest.raises(CampaignError, match="was changed, and reports are bound to its questions"):
        revise(collection)


def test_a_public_column_that_the_people_lack_begins_nothing(tmp_path: Path) -> None:
    FeatureSchema(classes=("no", "yes"), public=(PublicColumn(name="village"),)).save(tmp_path / "asked.toml")
    with pytest.raises(GraphError, match="has no column 'village', which is declared as public: add it"):
        begun(tmp_path, answers=(), schema=tmp_path / "asked.toml")
    assert not (tmp_path / "health").exists()
