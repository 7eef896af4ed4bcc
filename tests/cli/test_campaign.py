"""The whole way from a schema to a sent report, on the command line, by single files."""

from __future__ import annotations

import csv
import json
import shutil
import stat
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.forgeries import MISLEADING_TEXTS, rewritten
from tests.support.neighbour_series import HISTOGRAM, PEOPLE_FILE, TABLE, waves_of
from tests.support.participant_page import serving
from tests.support.running_collector import collector_of, listening
from veilgraph.campaign import Campaign
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.neighbours.wave import series_of
from veilgraph.campaign.notice import Notice
from veilgraph.campaign.plan import CampaignPlan
from veilgraph.campaign.receipt import Receipt
from veilgraph.campaign.report import Report
from veilgraph.campaign.tokens import check_token, new_key, token_for
from veilgraph.cli import main
from veilgraph.collector.auth import Credentials, Role, new_role_token
from veilgraph.collector.store import ReportStore
from veilgraph.graph import Graph
from veilgraph.privacy.schema import Column, FeatureSchema

Capture = pytest.CaptureFixture[str]

SCHEMA = FeatureSchema(
    columns=(Column(name="age", edges=(0, 30, 120)), Column(name="smoker", values=("no", "yes"))),
    classes=("well", "ill"),
)
WORDS = ["--purpose", "To learn", "--contact", "a@example.org", "--closes", "2100-01-01"]
BUDGET = ["--set", "epsilon_x=0.5", "--set", "sampled=1", "--set", "epsilon_y=1"]
LABEL = ["--set", "epsilon_y=1"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    SCHEMA.save("s.toml")
    Path("edges.csv").write_text("from,to\n007,b\nb,c/d\n")
    Path("record.json").write_text(json.dumps({"age": 44, "smoker": "yes", "health": "ill"}))
    return tmp_path


def new(*arguments: str, question: str = "health", links: str = "edges.csv", file: str = "c.json") -> int:
    """Begin a collection, and copy its campaign, so that what follows has the file alone."""
    home = f"folder of {file}"
    asked = ["--schema", "s.toml", "--question", question, "--links", links]
    code = main(["init", home, *asked, *WORDS, *arguments])
    if code == 0:
        Path(file).write_text(Path(home, "campaign.json").read_text())
    return code


def made() -> Campaign:
    assert new(*BUDGET) == 0
    return Campaign.from_json(Path("c.json").read_bytes())


def complaint(capsys: Capture, arguments: list[str]) -> str:
    capsys.readouterr()
    assert main(arguments) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    return lines[0]


def test_new_writes_a_campaign_that_check_accepts(folder: Path, capsys: Capture) -> None:
    assert new(*BUDGET, "--json") == 0
    assert json.loads(capsys.readouterr().out)["guarantee"]["user_level"]["label"] == pytest.approx(1.0)
    assert new("--set", "epsilon_x=1", "--set", "sampled=3", file="all.json") == 0
    assert json.loads(Path("all.json").read_text(encoding="utf-8"))["bound"]["features"]["sampled"] == 2
    capsys.readouterr()
    assert new("--set", "epsilon_y=5", file="large.json") == 2
    assert "the participant's page refuses a collection above an epsilon of 4" in capsys.readouterr().err
    shutil.rmtree("folder of c.json")
    campaign = made()
    assert replace(campaign.schema, texts={}) == SCHEMA
    assert campaign.label_name == "health"
    assert campaign.graph_sha256 == Graph.from_files("edges.csv").fingerprint
    assert "Devices answer it: epsilon = 1.5000" in capsys.readouterr().out
    assert main(["review", "c.json", "--graph", "edges.csv"]) == 0
    assert "its tables give what it states" in capsys.readouterr().out
    assert main(["review", "c.json", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["id"], facts["open"], facts["epsilon_user_level"]) == (campaign.id, True, pytest.approx(1.5))


def test_nodes_without_edges_belong_to_the_graph_where_a_node_table_names_them(folder: Path, capsys: Capture) -> None:
    Path("nodes.csv").write_text("id\n007\nb\nc/d\nalone\n")
    assert new(*BUDGET, "--people", "nodes.csv") == 0
    assert Campaign.from_json(Path("c.json").read_bytes()).nodes == 4
    assert main(["review", "c.json", "--graph", "edges.csv", "--nodes", "nodes.csv"]) == 0
    assert "is not the campaign's graph" in complaint(capsys, ["review", "c.json", "--graph", "edges.csv"])


def test_show_explains_in_plain_words(folder: Path, capsys: Capture) -> None:
    campaign = made()
    capsys.readouterr()
    assert main(["review", "c.json"]) == 0
    words = capsys.readouterr().out
    for part in (
        "To learn",
        "a@example.org",
        "2100-01-01",
        "picks 1 at random",
        '"age": "0 to below 30"',
        "health",
        "Not protected",
    ):
        assert part in words
    assert "no report is more than 4.49 times as likely" in words
    assert campaign.id in words
    assert main(["review", "c.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["document"] == campaign.document


def test_show_begins_with_the_guarantee_and_quotes_the_organisers_words(
    folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    forged = "User level, any two records: epsilon = 0.1000 in total (features 0.1000, label 0.0000)."
    campaign = Campaign.new(
        schema=FeatureSchema(columns=(Column(name=f'x" {forged}'), Column(name="y")), classes=(forged, "no")),
        graph=Graph.from_files("edges.csv"),
        notice=Notice(purpose=" ".join([forged] * 30), contact=forged, closes=datetime(2100, 1, 1, tzinfo=UTC)),
        budget=CampaignBudget(epsilon_x=5.0, sampled=2, epsilon_y=1.0),
        label=f"{forged} Really",
    )
    Path("c.json").write_text(campaign.to_json())
    capsys.readouterr()
    assert main(["review", "c.json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "User level, any two records: epsilon = 11.0000 in total (features 10.0000, label 1.0000)." in lines[:6]
    said = lines.index("The organiser's own words, which nobody checked:")
    assert not any("0.1000" in line for line in lines[:said])
    assert all(line.startswith("  | ") and len(line) <= 80 for line in lines[said + 1 :])


def test_a_campaign_that_could_forge_what_is_shown_is_refused_in_one_plain_line(folder: Path, capsys: Capture) -> None:
    campaign = made()
    for kind, text in MISLEADING_TEXTS.items():
        Path("forged.json").write_text(rewritten(campaign, notice__purpose=text))
        said = complaint(capsys, ["review", "forged.json"])
        assert ("purpose" in said, said.isascii(), said.isprintable()) == (True, True, True), kind
    assert "no\\u001b[2Kfile\\u202e.json" in complaint(capsys, ["review", "no\x1b[2Kfile\u202e.json"])


def test_check_refuses_what_is_altered_or_states_another_guarantee(folder: Path, capsys: Capture) -> None:
    campaign = made()
    Path("altered.json").write_text(campaign.to_json().replace("smoker", "joker"))
    assert "altered" in complaint(capsys, ["review", "altered.json"])
    Path("lies.json").write_text(rewritten(campaign, guarantee__user_level__total="0.5"))
    assert "not what the tables give" in complaint(capsys, ["review", "lies.json"])
    assert "absent.json: No such file" in complaint(capsys, ["review", "absent.json"])


def test_a_date_is_the_end_of_that_day_in_the_stated_zone(folder: Path, capsys: Capture) -> None:
    assert (
        new(*BUDGET, "--closes", "2099-06-30", "--set", "zone=Europe/Berlin", "--retention", "2099-12-31T12:00:00") == 0
    )
    campaign = Campaign.from_json(Path("c.json").read_bytes())
    assert campaign.notice.document["closes"] == "2099-06-30T21:59:59Z"
    assert campaign.notice.document["retention"] == "2099-12-31T11:00:00Z"
    assert "open until 2099-06-30 21:59:59 UTC." in capsys.readouterr().out
    assert main(["review", "c.json"]) == 0
    assert "promises to delete reports after 2099-12-31 11:00:00 UTC." in capsys.readouterr().out


def test_the_schema_file_may_hold_the_texts_and_a_plan_keeps_them(folder: Path, capsys: Capture) -> None:
    texts = {"de": {"questions": {"health": {"text": "Sind Sie krank?", "answers": {"ill": "ja", "well": "nein"}}}}}
    replace(SCHEMA, texts=texts).save("s.toml")
    campaign = made()
    said = campaign.notice.document["texts"]
    assert said["de"] == texts["de"]
    Path("p.json").write_text(CampaignPlan(campaign).to_json())
    arguments = ["init", "planned", "--plan", "p.json", "--links", "edges.csv", *WORDS]
    assert main(arguments) == 0
    planned = made_of("planned/campaign.json")
    assert planned.notice.document["texts"] == said
    assert {**planned.asked.bound, "nonce": ""} == {**campaign.asked.bound, "nonce": ""}
    assert planned.asked.bound["nonce"] != campaign.asked.bound["nonce"]
    Path("others.csv").write_text("from,to\nb,c\n")
    other = ["init", "other", "--plan", "p.json", "--links", "others.csv", *WORDS]
    assert "the plan was made for another graph" in complaint(capsys, other)
    assert not Path("other").exists()


def made_of(path: str) -> Campaign:
    return Campaign.from_json(Path(path).read_bytes())


MISTAKES: dict[str, list[str]] = {
    "epsilon_x and sampled belong together": ["--set", "epsilon_x=1"],
    "is in the past": [*BUDGET, "--closes", "2020-01-01"],
    "give a date": [*BUDGET, "--closes", "soon"],
    "give the label another name": [*BUDGET, "--question", "age"],
    "sampled is 0": ["--set", "epsilon_x=1", "--set", "sampled=0"],
    "not finite": ["--set", "epsilon_y=inf"],
    "the epsilon is given twice": [*LABEL, "--epsilon", "1"],
}


def test_new_refuses_what_cannot_be(folder: Path, capsys: Capture) -> None:
    for message, arguments in MISTAKES.items():
        assert new(*arguments) == 2
        assert message in capsys.readouterr().err
        assert not Path("c.json").exists()
        assert not Path("folder of c.json").exists()


def rows(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


INVITE = ["invite", "c.json", "--keys-file", "keys.txt", "--nodes", "ids.csv", "--out", "sent"]
URL = ["--url", "https://collect.example.org/"]
LINKS = "sent/links.csv"


def invited(*arguments: str, key: str | None = None, names: str = "007\nb\nc/d\n") -> str:
    """Write a key and the table of people, and invite them; return the key."""
    made_key = key or new_key()
    Path("keys.txt").write_text(made_key + "\n")
    Path("ids.csv").write_text(f"id\n{names}")
    assert main([*INVITE, *URL, *arguments]) == 0
    return made_key


def test_tokens_open_each_node_and_are_secret(folder: Path, capsys: Capture) -> None:
    campaign = made()
    key = invited()
    assert [row["id"] for row in rows(LINKS)] == ["007", "b", "c/d"]
    assert all(check_token(key, campaign.id, row["id"], row["token"].lstrip("'")) for row in rows(LINKS))
    # A token may begin with "-". The column then has an apostrophe, as a cell must not be a formula.
    token = token_for(key, campaign.id, "c/d")
    assert rows(LINKS)[-1]["link"] == f"https://collect.example.org/#node=c%2Fd&token={token}"
    assert stat.S_IMODE(Path(LINKS).stat().st_mode) == 0o600
    assert key not in capsys.readouterr().out
    shutil.rmtree("sent")
    assert main(["rotate-token", "keys.txt", "participants"]) == 0
    first, _ = Path("keys.txt").read_text().split()
    invited(key="\n".join(Path("keys.txt").read_text().split()), names="b\n")
    assert check_token(first, campaign.id, "b", rows(LINKS)[0]["token"].lstrip("'")), "signed by the first key"


def test_mistakes_with_invitations_are_one_line(folder: Path, capsys: Capture) -> None:
    made()
    assert "a campaign alone needs more: give --keys-file, --out" in complaint(
        capsys, ["invite", "c.json", "--nodes", "edges.csv", *URL]
    )
    Path("ids.csv").write_text("id\nb\n")
    Path("keys.txt").write_text("hunter2\n")
    assert "no key that veilgraph made" in complaint(capsys, [*INVITE, *URL])
    Path("keys.txt").write_text("\n")
    assert "holds no key" in complaint(capsys, [*INVITE, *URL])
    Path("keys.txt").write_text(new_key())
    Path("ids.csv").write_text("id\n..\n")
    assert "node must be" in complaint(capsys, [*INVITE, *URL])
    Path("ids.csv").write_text("Person\nann\n")
    message = complaint(capsys, [*INVITE, *URL])
    assert "ids.csv has no column 'id', which names the nodes; its columns are Person: rename one" in message
    Path("keys.txt").unlink()
    assert "keys.txt cannot be read as a file of keys" in complaint(capsys, [*INVITE, *URL])
    assert not Path("sent").exists()


def test_people_without_links_are_counted_and_never_left_out_in_silence(folder: Path, capsys: Capture) -> None:
    Path("ids.csv").write_text("id\n007\nb\nc/d\nalone\n")
    capsys.readouterr()
    assert new(*BUDGET, "--people", "ids.csv") == 0
    assert "4 people, 2 links, people without links: 1." in capsys.readouterr().out
    message = complaint(capsys, ["review", "c.json", "--graph", "edges.csv"])
    assert (
        "edges.csv is not the campaign's graph: it has 3 people, and the campaign 4; give everybody's table" in message
    )
    assert main(["review", "c.json", "--graph", "edges.csv", "--nodes", "ids.csv"]) == 0


@pytest.mark.parametrize("header", ["person,town", "node,class", "name,phone"])
def test_a_table_of_people_whose_column_has_another_name_is_told_where_it_is_taken_for_links(
    header: str, folder: Path, capsys: Capture
) -> None:
    Path("people.csv").write_text(f"{header}\nann,York\nben,Bath\ncleo,York\n")
    assert new(*BUDGET, links="people.csv", file="people.json") == 0
    assert "each link of people.csv is the only one of one of its ends" in capsys.readouterr().err


def test_a_table_of_ids_that_is_given_as_links_is_told(folder: Path, capsys: Capture) -> None:
    Path("people.csv").write_text("id\nann\nben\ncleo\n")
    assert new(*BUDGET, links="people.csv", file="people.json") == 2
    assert "people.csv has no links: give such a table as --people" in capsys.readouterr().err
    assert not Path("people.json").exists()
    assert new(*BUDGET) == 0
    assert "warning" not in capsys.readouterr().err


def test_a_receipt_is_checked_with_any_of_the_keys(folder: Path, capsys: Capture) -> None:
    report = Report(campaign="c0ffee", node="b\x1b[1m", features=(0, 1), label=None)
    new, old = new_key(), new_key()
    Path("keys.txt").write_text(f"{new}\n{old}\n")
    Path("r.json").write_text(json.dumps(Receipt.sign(old, report, hour=7200).document))
    command = ["receipt", "r.json", "--keys-file", "keys.txt"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "1970-01-01T02:00:00Z" in printed
    assert "\x1b" not in printed
    Path("r.json").write_text(json.dumps(Receipt.sign(new_key(), report, hour=7200).document))
    assert "no key in keys.txt signed r.json" in complaint(capsys, command)


def randomize(*arguments: str, record: str = "record.json", node: str = "007", limit: str = "2") -> list[str]:
    return [*f"randomize c.json --record {record} --node {node} --limit {limit} --out r.json".split(), *arguments]


def test_randomize_draws_once(folder: Path, capsys: Capture) -> None:
    campaign = made()
    assert main(randomize()) == 0
    first = Path("r.json").read_text()
    assert Report.from_json(first, campaign).node == "007"
    Path("record.json").unlink()
    assert main(randomize()) == 0, "the record was looked at again"
    assert Path("r.json").read_text() == first
    assert len(list((folder / "data" / "veilgraph" / "reports").glob("[0-9a-f]*.json"))) == 1
    capsys.readouterr()
    assert main(randomize("--json")) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(first)


def test_randomize_says_what_a_set_means(folder: Path, capsys: Capture) -> None:
    """Four of 12 classes at epsilon 1: 4 e / (4 e + 8) = 0.576."""
    FeatureSchema(classes=tuple(f"c{i}" for i in range(12))).save("s.toml")
    assert new(*LABEL) == 0
    Path("record.json").write_text(json.dumps({"health": "c3"}))
    capsys.readouterr()
    assert main(randomize()) == 0
    words = " ".join(capsys.readouterr().out.split())
    report = Report.from_json(Path("r.json").read_text(), Campaign.from_json(Path("c.json").read_bytes()))
    assert isinstance(report.label, tuple)
    assert len(report.label) == 4
    assert 'names 4 of 12 answers to "health", the true one among them with a chance of 57.6 in 100.' in words
    assert "Named: " + ", ".join(f'"c{code}"' for code in report.label) + "." in words


@pytest.mark.parametrize(
    ("table", "label"),
    [
        ("age,smoker,health\n44,yes,ill\n", True),
        ("id,age,smoker,health\nb,999,no,?\n007,44,yes,\n", False),
    ],
)
def test_randomize_takes_a_row_of_a_table(table: str, label: bool, folder: Path) -> None:
    campaign = made()
    Path("record.csv").write_text(table)
    assert main(randomize("--device-folder", "mine", record="record.csv")) == 0
    assert (Report.from_json(Path("r.json").read_bytes(), campaign).label is not None) == label
    assert len(list(Path("mine").glob("[0-9a-f]*.json"))) == 1


def test_another_person_on_a_shared_device_is_counted(folder: Path, capsys: Capture) -> None:
    """The campaign costs 1.5 at user level (any two records)."""
    made()
    assert main(randomize()) == 0
    assert "so far: 1. User level, any two records: epsilon = 1.5000" in capsys.readouterr().out
    Path("r.json").unlink()
    assert "one device answers a campaign once" in complaint(capsys, randomize(node="c/d"))
    assert "above your limit of 2" in complaint(capsys, randomize("--shared-device", node="c/d"))
    assert main(randomize("--shared-device", node="c/d", limit="3")) == 0
    assert "so far: 2. User level, any two records: epsilon = 3.0000" in capsys.readouterr().out


def test_the_ledger_lists_what_was_answered_and_the_limit_is_kept(folder: Path, capsys: Capture) -> None:
    campaign = made()
    answer = ["randomize", "c.json", "--record", "record.json", "--node", "007", "--out", "r.json"]
    assert "no limit yet" in complaint(capsys, answer)
    assert main([*answer, "--limit", "2"]) == 0
    assert "epsilon = 1.5000 together, of your limit of 2." in capsys.readouterr().out
    assert main(answer) == 0
    assert main(["extend", "c.json", "2100-02-01"]) == 0
    assert main(answer) == 0
    capsys.readouterr()
    assert main(["receipt"]) == 0
    words = capsys.readouterr().out
    assert f'Campaign {campaign.id}, as "007".' in words
    assert f"to notice 1, SHA-256 {campaign.notice.sha256}." in words
    assert 'Purpose: "To learn"' in words
    assert "Seen since: notice 2" in words
    assert "so far: 1. User level, any two records: epsilon = 1.5000 together, of your limit of 2." in words
    assert main([*answer, "--limit", "5"]) == 0
    capsys.readouterr()
    assert main(["receipt", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["limit_user_level"] == 5
    assert facts["spent_user_level"] == pytest.approx(1.5)
    assert [notice["version"] for notice in facts["answered"][0]["notices"]] == [1, 2]
    assert "give a number above 0" in complaint(capsys, [*answer, "--limit", "0"])
    assert facts["relation_user_level"] == facts["answered"][0]["relation_user_level"] == "any two records"
    assert main(["receipt", "--device-folder", "empty"]) == 0
    assert "so far: 0. User level, any two records: epsilon = 0 together; you have" in capsys.readouterr().out


def test_randomize_warns_if_reports_are_kept_longer_than_agreed(folder: Path, capsys: Capture) -> None:
    assert new(*BUDGET, "--retention", "2101-01-01") == 0
    answer = ["randomize", "c.json", "--record", "record.json", "--node", "007", "--out", "r.json", "--limit", "2"]
    assert main(answer) == 0
    agreed = made_of("c.json")
    longer = replace(agreed, notice=replace(agreed.notice, retention=None, version=2))
    Path("c.json").write_text(longer.to_json())
    assert main(answer) == 0
    assert "warning: you agreed that reports are deleted after 2101-01-01T23:59:59Z" in capsys.readouterr().err


def test_randomize_refuses_before_it_opens_the_record(folder: Path, capsys: Capture) -> None:
    campaign = made()
    Path("record.json").unlink()
    assert "above your limit" in complaint(capsys, randomize(limit="1.4"))
    Path("c.json").write_text(campaign.to_json().replace("smoker", "joker"))
    assert "altered" in complaint(capsys, randomize())


RECORDS: dict[str, tuple[str, str]] = {
    "must hold a JSON object": ("r1.json", "[]"),
    "it must hold a JSON object": ("r2.json", "{"),
    "has 2 rows": ("r3.csv", "age,smoker,health\n31337,no,ill\n31337,no,ill\n"),
    "has 0 rows": ("r4.csv", "id,age,smoker,health\nzzz,31337,no,ill\n"),
    "outside the declared range": ("r5.json", '{"age": 31337, "smoker": "no", "health": "ill"}'),
    "has no 'smoker'": ("r6.json", '{"age": 3}'),
    "not one of the 2 declared values": ("r7.json", '{"age": 3, "smoker": "31337", "health": "ill"}'),
}


def test_a_record_that_does_not_fit_is_one_line_without_values(folder: Path, capsys: Capture) -> None:
    made()
    for message, (name, content) in RECORDS.items():
        Path(name).write_text(content)
        said = complaint(capsys, randomize(record=name))
        assert message in said
        assert "31337" not in said
        assert not Path("r.json").exists()
    Path("r.json").write_text("precious")
    assert "holds something else" in complaint(capsys, randomize())
    assert Path("r.json").read_text() == "precious"


def test_submit_hands_reports_in(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = made()
    key = invited()
    for node, name in (("007", "r1.json"), ("c/d", "r2.json")):
        assert main([*randomize("--device-folder", f"device of {name}", node=node), "--out", name]) == 0
    with serving(campaign.to_json()) as collector:
        collector.codes = [201, 200]
        url = collector.url
        capsys.readouterr()
        assert main(["submit", "r1.json", "r2.json", "--url", url, "--tokens", LINKS, "--json"]) == 0
        outcomes: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
        assert [(each["node"], each["status"]) for each in outcomes] == [("007", "stored"), ("c/d", "stored before")]
        assert [each["receipt"]["signature"] for each in outcomes] == ["s1gnature"] * 2
        for node, authorization, document in collector.received:
            assert check_token(key, campaign.id, node, authorization.removeprefix("Bearer "))
            assert Report.parse(document, campaign).node == node
        collector.codes = [503, 409, 201]
        monkeypatch.setenv("VEILGRAPH_TOKEN", "t0ken")
        assert main(["submit", "r1.json", "--url", url]) == 2
        captured = capsys.readouterr()
        assert "007: failed: another report of this node was stored before" in captured.out
        assert "not accepted: 1 of 1 report (" in captured.err
        assert "t0ken" not in captured.out + captured.err
        assert main(["submit", "r1.json", "--url", url]) == 0
        assert "007: stored, in the hour from 2027-01-31T17:00:00Z; receipt s1gnature" in capsys.readouterr().out


def test_a_series_of_features_and_label_is_made_answered_and_sent_round_by_round(folder: Path, capsys: Capture) -> None:
    assert new(*BUDGET, "--set", "rounds=3", "--set", "round_epsilon_x=0.4") == 0
    said = capsys.readouterr().out
    assert "Two records that never change" in said
    assert main(["review", "c.json"]) == 0
    assert "the same ones in every round" in capsys.readouterr().out
    invited()
    store = ["--device-folder", "device", "--limit", "9"]
    assert main([*randomize(*store, node="007"), "--out", "r1.json"]) == 0
    assert main(["open-round", "c.json"]) == 0
    assert main([*randomize(*store, node="007"), "--out", "r2.json"]) == 0
    campaign = Campaign.from_json(Path("c.json").read_bytes())
    with serving(campaign.to_json()) as collector:
        send = ["--url", collector.url, "--tokens", LINKS]
        collector.codes = [201, 201]
        assert main(["submit", "r1.json", *send, "--receipt", "kept.json"]) == 0
        assert "The receipt is in kept.json." in capsys.readouterr().out
        assert json.loads(Path("kept.json").read_text())["signature"] == "s1gnature"
        assert "kept.json exists" in complaint(capsys, ["submit", "r2.json", *send, "--receipt", "kept.json"])
        several = complaint(capsys, ["submit", "r1.json", "r2.json", *send, "--receipt", "two.json"])
        assert "--receipt is for one report" in several
        assert main(["submit", "r2.json", *send]) == 0
        first, second = (Report.parse(document, campaign) for _, _, document in collector.received)
    assert (first.number, second.number) == (1, 2)
    assert first.features is not None
    assert second.features is not None
    assert [code is None for code in first.features] == [code is None for code in second.features]


def test_names_and_tokens_that_begin_like_formulas_are_neutral_in_the_table_and_can_be_submitted(folder: Path) -> None:
    names = ["=1+1", "-7", "'=x", "+a", "@b", "'c"]
    Path("edges.csv").write_text("from,to\n" + "".join(f"{name},d\n" for name in names))
    campaign = made()
    # Some tokens begin with a minus: take a key for which one of these does.
    keys = iter(new_key, "")
    key = next(key for key in keys if any(token_for(key, campaign.id, name).startswith("-") for name in names))
    invited(key=key, names="".join(f"{name}\n" for name in names))
    cells = [cell for row in rows(LINKS) for cell in row.values()]
    assert not [cell for cell in cells if cell[0] in "=+-@"]
    assert sum(cell.startswith("'-") for cell in cells) >= 2, "a name and a token"

    reports = [Report(campaign=campaign.id, node=name, features=(0, 1), label=1) for name in names]
    files = [f"r{number}.json" for number in range(len(names))]
    for file, report in zip(files, reports, strict=True):
        Path(file).write_text(report.to_json())
    store = ReportStore.open("sqlite:///reports.db")
    app = collector_of(
        campaign=campaign,
        graph=Graph.from_files("edges.csv"),
        store=store,
        credentials=Credentials(keys=[key], admin_token=new_role_token(Role.OWNER)),
    )
    with listening(app) as client:
        assert main(["submit", *files, "--url", str(client.base_url), "--tokens", LINKS]) == 0
        # A person types what the table shows.
        cell = next(row["token"] for row in rows(LINKS) if row["token"].startswith("'"))
        number = next(n for n, name in enumerate(names) if token_for(key, campaign.id, name) == cell[1:])
        assert main(["submit", files[number], "--url", str(client.base_url), "--token", cell, "--again"]) == 0
        assert {report.node for report in store.reports.iterate(campaign)} == set(names)


def test_mistakes_in_submitting_are_one_line(folder: Path, capsys: Capture) -> None:
    made()
    assert main(randomize()) == 0
    url = ["--url", "https://x.example"]
    assert "give --token" in complaint(capsys, ["submit", "r.json", *url])
    assert "not a report" in complaint(capsys, ["submit", "c.json", *url, "--token", "t"])
    assert main(["submit", "r.json", "--url", "http://collect.example.org", "--token", "t0ken"]) == 2
    assert "https" in capsys.readouterr().err, "a token would be sent in the clear"
    Path("odd.json").write_text('{"campaign": "c", "node": [], "features": [], "label": 1}')
    assert "node must be" in complaint(capsys, ["submit", "odd.json", *url, "--token", "t"])
    Path("sent").mkdir()
    Path(LINKS).write_text("id,token\nb,t\n")
    assert "no token for node 007" in complaint(capsys, ["submit", "r.json", *url, "--tokens", LINKS])


def test_randomize_answers_a_wave_from_a_list_of_neighbours(tmp_path: Path, capsys: Capture) -> None:
    wave = waves_of(HISTOGRAM)[1]
    (tmp_path / "wave.json").write_text(wave.to_json())
    series = series_of(wave.asked)
    (tmp_path / f"{series.table}.beliefs").write_bytes(TABLE.to_bytes())
    (tmp_path / f"{series.people}.people").write_bytes(PEOPLE_FILE)
    (tmp_path / "friends.txt").write_text("u0\n\nu10\n")
    (tmp_path / "friends.csv").write_text("id,since\nu0,2020\n")
    (tmp_path / "others.csv").write_text("name\nu0\n")

    def run(friends: str, *more: str, node: str = "u1") -> int:
        paths = {"--neighbours": friends, "--device-folder": node}
        given = [word for option, name in paths.items() for word in (option, str(tmp_path / name))]
        report = str(tmp_path / f"{node}.json")
        return main(["randomize", str(tmp_path / "wave.json"), *given, "--node", node, "--out", report, *more])

    assert run("friends.txt", "--limit", "5") == 2
    assert "does not protect whole neighbour lists" in capsys.readouterr().err
    assert run("others.csv", "--entry-limit", "1") == 2
    assert "no column 'id'" in capsys.readouterr().err
    assert run("friends.txt") == 0
    said = capsys.readouterr().out
    assert "one entry, two neighbour lists, one with a neighbour more: epsilon = 1.0000" in said.lower()
    same = "any two records with the same neighbour list"
    assert f"User level, {same}: epsilon = 0 together, of your limit of 5." in said
    assert "Whole lists are not protected." in said
    assert run("friends.txt", "--limit", "5", "--entry-limit", "1", node="nobody") == 2
    assert "the node is not among the 6 people of the campaign: correct it" in capsys.readouterr().err
    assert not list((tmp_path / "nobody").glob("[0-9a-f]*.json"))
    assert run("friends.csv", "--limit", "5", "--entry-limit", "1", node="u2") == 0
    assert "add nothing" not in capsys.readouterr().err
    (tmp_path / "friends.txt").write_text("u0\nu11\n")
    assert run("friends.txt", "--limit", "5", "--entry-limit", "1", node="u3") == 0
    assert 'add nothing to the answer: "u11".' in capsys.readouterr().err
    assert "u11" not in "".join(path.read_text() for path in tmp_path.rglob("*.json"))
    assert main(["receipt", "--device-folder", str(tmp_path / "u1"), "--json"]) == 0
    kept = json.loads(capsys.readouterr().out)
    assert (kept["limit_one_entry"], kept["protects_lists"]) == (1.0, False)
    assert kept["answered"][0]["lists"]["any_lists"] == "not private"
    assert (kept["spent_user_level"], kept["spent_same_list"], kept["relation_user_level"]) == (0.0, 0.0, same)
    assert kept["answered"][0]["relation_user_level"] == same
    assert main(["receipt", "--device-folder", str(tmp_path / "u1")]) == 0
    said = capsys.readouterr().out
    assert "epsilon = not private" in said
    assert f"User level, {same}: epsilon = 0 together" in said
    assert "0.0001" not in said
    assert main(["review", str(tmp_path / "wave.json")]) == 0
    assert "The label and 1 wave so far, together:" in capsys.readouterr().out


def test_a_wave_is_audited_with_its_series_and_has_no_page_that_hides_a_relation(
    tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "wave.json"
    path.write_text(waves_of(HISTOGRAM, HISTOGRAM)[2].to_json())
    drawn = ["--audit", "--set", "trials=2000", "--set", "seed=0"]
    assert main(["account", str(path), *drawn, "--json"]) == 0
    audits = json.loads(capsys.readouterr().out)["audits"]
    assert [each["relation"].partition(":")[0] for each in audits] == ["user level", "one entry", "one relationship"]
    assert not any(each["refuted"] for each in audits)
    assert main(["review", str(path), "--out", str(tmp_path / "signed")]) == 0
    page = next((tmp_path / "signed").glob("notice-*/summary.en.html"))
    assert "Whole lists are not protected" in page.read_text(encoding="utf-8")
