"""What the law wants people to be told is in the notice, in their language, and what is missing is named."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.browser_module import BROWSER, in_node, needs_node
from tests.support.campaigns import BEFORE, CAMPAIGNS
from tests.support.forgeries import MISLEADING_TEXTS, rewritten
from tests.support.health_folder import begun
from veilgraph import client
from veilgraph.campaign import Campaign
from veilgraph.campaign.information_duties import DUTIES, REQUIRED, information, missing_in_words, missing_information
from veilgraph.campaign.notice import missing_texts
from veilgraph.cli import main
from veilgraph.client import verify
from veilgraph.collection import Collection, revise
from veilgraph.errors import CampaignError

BINARY = CAMPAIGNS["binary"]
TOLD = {key: f"what is said: {key}" for key in DUTIES}
RETENTION = datetime(2101, 1, 31, tzinfo=UTC)


@needs_node
def test_every_client_takes_each_duty_and_refuses_one_that_could_mislead() -> None:
    told = BINARY.revise(texts={"de": TOLD})
    assert told.id == BINARY.id
    assert Campaign.from_json(told.to_json()) == told
    assert verify(told.to_json(), max_epsilon=9.0, now=BEFORE).notice.texts == {"de": TOLD}
    wrong = ("", MISLEADING_TEXTS["a newline"])
    forged = [rewritten(told, notice__texts={"de": TOLD | {key: text}}) for key in DUTIES for text in wrong]
    good, *replies = in_node("verify", [told.to_json(), *forged])
    assert "result" in good
    for text, reply in zip(forged, replies, strict=True):
        assert "error" in reply
        with pytest.raises(CampaignError):
            Campaign.from_json(text)
        with pytest.raises(client.CampaignError):
            verify(text, max_epsilon=9.0, now=BEFORE)


def test_the_page_has_a_place_for_each_duty() -> None:
    source = (BROWSER / "about.js").read_text(encoding="utf-8")
    assert set(re.findall(r'"(\w+)"\],', source)) == set(DUTIES)


def test_a_language_without_a_text_has_that_of_the_first_and_is_said_to_lack_it() -> None:
    texts = {"en": {"purpose": "p", "controller": "us", "recipients": "nobody"}, "de": {"controller": "wir"}}
    assert information(texts, "de") == {"controller": "wir", "recipients": "nobody"}
    assert information(texts, "ja") == information(texts, "en")
    schema = BINARY.schema
    assert REQUIRED["recipients"] in missing_texts(texts, schema, None)["de"]
    assert not {REQUIRED["controller"], REQUIRED["legal_basis"]} & set(missing_texts(texts, schema, None)["de"])


def test_a_complete_notice_lacks_nothing_and_another_one_is_one_sentence() -> None:
    required = dict.fromkeys(REQUIRED, "said")
    assert missing_in_words(missing_information({"en": required}, RETENTION)) == []
    assert missing_information({}, None) == [*REQUIRED.values(), "when reports are deleted"]
    (sentence,) = missing_in_words(missing_information({"de": TOLD}, None))
    assert sentence.endswith("says: when reports are deleted.")


def test_init_and_check_name_what_is_missing_until_the_owner_writes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    collection = begun(tmp_path, retention="2100-03-31")
    missing = "Article 13 GDPR wants people to be told more than the notice says"
    for command in (["init", str(collection.folder)], ["review", str(collection.campaign_file)]):
        assert main(command) == 0
        assert missing in capsys.readouterr().out
    text = collection.notice_file.read_text(encoding="utf-8")
    for key in REQUIRED:
        assert f'{key} = ""' in text
        text = text.replace(f'{key} = ""', f'{key} = "said"')
    collection.notice_file.write_text(text, encoding="utf-8")
    revised = revise(collection)
    assert revised is not None
    assert revised.notice.texts["en"]["controller"] == "said"
    for command in (["init", str(collection.folder)], ["review", str(collection.campaign_file)]):
        assert main(command) == 0
        assert missing not in capsys.readouterr().out
    assert Collection(collection.folder).campaign.id == collection.campaign.id
