"""Names of contacts: shown whole, to participants alone, and only if the owner put the table there."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.neighbour_series import CLASS, NAMES, PEOPLE, PEOPLE_FILE, TABLE, waves_of
from tests.support.running_collector import collector_of, listening
from veilgraph.campaign.neighbours.wave import series_of
from veilgraph.campaign.tokens import new_key, token_for
from veilgraph.collector import contact_names
from veilgraph.collector.auth import Credentials, Role, new_role_token
from veilgraph.collector.contact_names import read_contact_names
from veilgraph.collector.store import ReportStore
from veilgraph.errors import VeilgraphError

FIRST, WAVE = waves_of(CLASS)
KEY = new_key()
CREDENTIALS = Credentials(keys=(KEY,), admin_token=new_role_token(Role.OWNER))
SHOWN = {"u0": "Anna Weber", "ü": "Zoë Núñez"}


def test_a_participant_gets_the_whole_list_and_nobody_else_gets_a_name(tmp_path: Path) -> None:
    published = {TABLE.sha256: TABLE.to_bytes(), series_of(WAVE.asked).people: PEOPLE_FILE}
    with closing(ReportStore.open(f"sqlite:///{tmp_path / 'reports.db'}")) as store:
        store.documents.register(FIRST, now=0)
    store = ReportStore.open(f"sqlite:///{tmp_path / 'reports.db'}")
    now = [time.time()]
    collector = collector_of(
        WAVE,
        graph=PEOPLE,
        store=store,
        credentials=CREDENTIALS,
        clock=lambda: now[0],
        published=published,
        contact_names=SHOWN,
    )
    with listening(collector) as client:
        assert client.get("/v1/contact-names").json() == {"people": 2}
        answers = set()
        for node in NAMES:  # also who is not on the list
            headers = {"Authorization": f"Bearer {token_for(KEY, WAVE.series, node)}"}
            answer = client.get(f"/v1/contact-names/{node}", headers=headers)
            assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
            assert dict(answer.json()["names"]) == SHOWN
            answers.add(answer.content)
        assert len(answers) == 1, "all participants search the same list"
        for refused in ({}, {"Authorization": f"Bearer {token_for(KEY, WAVE.series, 'u1')}"}):
            answer = client.get("/v1/contact-names/u0", headers=refused)
            assert answer.status_code == 401
            assert "Weber" not in answer.text
        now[0] = WAVE.notice.closes.timestamp()
        answer = client.get(
            "/v1/contact-names/u0", headers={"Authorization": f"Bearer {token_for(KEY, WAVE.series, 'u0')}"}
        )
        assert (answer.status_code, "Weber" in answer.text) == (410, False), "nobody chooses contacts any more"


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("id;name\nu0;Anna\nu0;Bert\n", "row 2: the id is there twice"),
        ("id;name\nu0;Anna\nu9;Bert\n", "row 2: nobody who is asked has this id"),
        ("id;name\nu0;An\u202ena\n", "row 1: the name has hidden characters"),
        ("id;name\nu0;\n", "row 1: the cell of 'name' is empty"),
        ("id,first\nu0,Anna\n", "has no column 'name'"),
        ("", "is empty"),
    ],
)
def test_a_table_that_cannot_be_right_is_refused_by_row_without_a_name(tmp_path: Path, table: str, why: str) -> None:
    path = tmp_path / "contact-names.csv"
    path.write_text(table, encoding="utf-8-sig")
    with pytest.raises(VeilgraphError, match=why) as error:
        read_contact_names(path, set(NAMES))
    assert not any(name in str(error.value) for name in ("Anna", "Bert", "u9"))


def test_names_are_in_the_order_of_the_ids_and_other_columns_stay_away(tmp_path: Path) -> None:
    path = tmp_path / "contact-names.csv"
    path.write_text("name;ward;id\nZoë;7;ü\nAnna;3;u0\n", encoding="utf-8-sig")
    assert list(read_contact_names(path, set(NAMES)).items()) == [("u0", "Anna"), ("ü", "Zoë")]


def test_a_list_that_no_phone_can_search_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contact_names, "MOST_PEOPLE", 1)
    path = tmp_path / "contact-names.csv"
    path.write_text("id,name\nu0,Anna\nu1,Bert\n", encoding="utf-8")
    with pytest.raises(VeilgraphError, match="names 2 people, and a phone searches at most 1"):
        read_contact_names(path, set(NAMES))
