"""The file of the notice says what the campaign says, with blanks for what a language lacks."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.support.health_folder import QUESTION, begun
from veilgraph.campaign.information_duties import DUTIES
from veilgraph.campaign.notice import missing_texts
from veilgraph.collection.notice_file import languages_of, read_notice, write_notice
from veilgraph.errors import CampaignError


def test_the_first_language_is_complete_and_others_have_blanks(tmp_path: Path) -> None:
    collection = begun(tmp_path, languages=("de", "ar"))
    campaign, texts = collection.campaign, tomllib.loads(collection.notice_file.read_text(encoding="utf-8"))["texts"]
    assert list(texts) == ["de", "ar"] == list(languages_of(collection.notice_file))
    assert missing_texts({"de": texts["de"]}, campaign.schema, QUESTION) == {}
    assert texts["ar"] == {
        "purpose": "",
        "contact": "",
        **dict.fromkeys(DUTIES, ""),
        "questions": {QUESTION: {"text": "", "answers": {"no": "", "yes": ""}}},
    }
    assert campaign.notice.document["language"] == "de"


def test_reading_what_was_written_changes_nothing(tmp_path: Path) -> None:
    collection = begun(tmp_path, languages=("en", "de"), retention="2100-03-31")
    campaign, said = collection.campaign, read_notice(collection.notice_file)
    assert {key: said[key] for key in ("purpose", "contact", "closes", "retention")} == {
        "purpose": campaign.notice.purpose,
        "contact": campaign.notice.contact,
        "closes": campaign.notice.closes,
        "retention": campaign.notice.retention,
    }
    assert said["texts"] == dict(campaign.schema.texts)
    write_notice(tmp_path / "again.toml", campaign, languages_of(collection.notice_file))
    assert (tmp_path / "again.toml").read_text() == collection.notice_file.read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('epsilon = "3"', "unknown key 'epsilon'"),
        ("purpose = 3", "purpose is not a text"),
        ('texts = "de"', "texts is not a table of languages"),
        ("purpose", "is not TOML"),
        ('closes = "soon"', "closes is 'soon'"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "notice.toml").write_text(text)
    with pytest.raises(CampaignError, match=message):
        read_notice(tmp_path / "notice.toml")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match=r"notice\.toml cannot be read"):
        read_notice(tmp_path / "notice.toml")
