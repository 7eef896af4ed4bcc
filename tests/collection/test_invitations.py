"""Each person gets their own link, in a file that nobody else can read, and a code that a phone reads back."""

from __future__ import annotations

import csv
import re
import stat
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.support.health_folder import NAMES, begun
from veilgraph.campaign.tokens import check_token, read_keys
from veilgraph.collection import Collection, revise
from veilgraph.collection.invitations import Guests, check_address, invite, qr_code, words_of
from veilgraph.errors import RunError

ADDRESS = "https://flu.example.org/"
LANGUAGES = ("en", "de", "es", "fr", "ar")


def test_every_link_opens_the_page_of_its_person_alone(tmp_path: Path) -> None:
    collection = begun(tmp_path)
    written = invite(Guests.of(collection), ADDRESS)
    rows = list(csv.DictReader(written.table.read_text(encoding="utf-8").splitlines()))
    assert [row["id"].lstrip("'") for row in rows] == NAMES
    keys, series = read_keys(collection.keys_file), collection.campaign.id
    for row, other in zip(rows, [*NAMES[1:], NAMES[0]], strict=True):
        node, token = re.fullmatch(r"https://flu\.example\.org/#node=(.*)&token=(.*)", row["link"]).groups()  # type: ignore[union-attr]
        assert check_token(keys, series, unquote(node), token)
        assert not check_token(keys, series, other, token)


def test_all_files_are_for_the_owner_alone(tmp_path: Path) -> None:
    collection = begun(tmp_path)
    invite(Guests.of(collection), ADDRESS)
    for path in (collection.folder / "invitations").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name


def test_reminders_have_the_named_people_alone(tmp_path: Path) -> None:
    written = invite(Guests.of(begun(tmp_path)), ADDRESS, only=NAMES[:2], name="reminders")
    assert written.people == 2
    assert len(re.findall('class="card"', written.sheets.read_text(encoding="utf-8"))) == 2


def test_a_sheet_speaks_the_language_of_its_person_and_escapes_the_texts(tmp_path: Path) -> None:
    collection = begun(tmp_path, languages=("en", "de"), purpose="<script>alert(1)</script> & more")
    notice = collection.notice_file.read_text(encoding="utf-8")
    collection.notice_file.write_text(notice.replace('[texts.de]\npurpose = ""', '[texts.de]\npurpose = "Zweck"'))
    revise(collection)
    collection = Collection(collection.folder)
    page = invite(Guests.of(collection), ADDRESS).sheets.read_text(encoding="utf-8")
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in page
    assert page.count("<bdi>Zweck</bdi>") == page.count(words_of("de")["sheet"]["scan"]) == len(NAMES) // 2
    assert page.count(words_of("en")["sheet"]["scan"]) == len(NAMES) // 2


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_says_the_same_things(language: str) -> None:
    def shape(words: object) -> object:
        return {key: shape(value) for key, value in words.items()} if isinstance(words, dict) else None

    words = words_of(language)
    assert shape(words) == shape(words_of("en"))
    for part in ("invitation", "reminder"):
        assert set(re.findall(r"\{(\w+)\}", words[part]["text"])) >= {"closes", "contact"}
        assert words[part]["text"].count("LINK") == 1


@pytest.mark.parametrize(
    "address", ["http://flu.example.org", "ftp://x", "flu.example.org", "https://", "https://x/?a=1"]
)
def test_an_address_that_would_give_tokens_away_is_refused(address: str) -> None:
    with pytest.raises(RunError, match="give the https address"):
        check_address(address)


def test_a_code_is_an_svg_without_anything_from_elsewhere() -> None:
    drawn = qr_code("https://flu.example.org/#node=a&token=b")
    assert drawn.startswith("<svg")
    assert "http" not in drawn


def test_people_are_told_the_last_minute_in_the_zone_of_the_collection(tmp_path: Path) -> None:
    collection = begun(tmp_path, zone="Europe/Berlin", closes="2100-01-31")
    written = invite(Guests.of(collection), ADDRESS)
    for path in (written.sheets, *written.texts.values()):
        assert "2100-01-31 23:59 (Europe/Berlin)" in path.read_text(encoding="utf-8")
