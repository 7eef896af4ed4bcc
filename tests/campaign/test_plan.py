"""Plans: read back as they were written, refused if altered, and only for their own schema and graph."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from veilgraph.campaign import Campaign
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.notice import Notice
from veilgraph.campaign.plan import CampaignPlan
from veilgraph.cli import main
from veilgraph.errors import CampaignError
from veilgraph.graph import Graph
from veilgraph.privacy.mechanisms import GRR, GRRFS, JointGRR, SubsetSelection
from veilgraph.privacy.mechanisms.registry import best_label_mechanism
from veilgraph.privacy.schema import Column, FeatureSchema
from veilgraph.privacy.strict_json import canonical_json, content_id

CLASSES = tuple(f"c{i}" for i in range(3))
SCHEMA = FeatureSchema(columns=(), classes=CLASSES)
GRAPH = Graph.from_edges([[0, 1], [1, 2]], num_nodes=4, node_ids=["a", "b", "c", "d"])
PLAN = CampaignPlan.new(schema=SCHEMA, graph=GRAPH, label="country", label_mechanism=best_label_mechanism(3, 1.0))


def test_the_campaign_of_a_plan_is_the_one_made_without_it() -> None:
    told, nonce = Notice(purpose="P", contact="C", closes=datetime(2100, 1, 1, tzinfo=UTC)), "0123456789abcdef" * 2
    budget = CampaignBudget(epsilon_y=1.0)
    direct = Campaign.new(schema=SCHEMA, graph=GRAPH, notice=told, budget=budget, label="country", nonce=nonce)
    assert CampaignPlan.from_json(PLAN.to_json()).campaign(told, nonce=nonce) == direct


@pytest.mark.parametrize("features", [JointGRR((2, 3, 2), 2, 0.5), GRRFS((2, 3, 2), 3, 0.5), None])
@pytest.mark.parametrize("label", [GRR(3, 1.0), SubsetSelection(3, 1.0, 2), None])
def test_every_design_is_read_back(features: JointGRR | GRRFS | None, label: GRR | SubsetSelection | None) -> None:
    if features is None and label is None:
        return
    schema = FeatureSchema(
        columns=(Column(name="a"), Column(name="b", values=("x", "y", "z")), Column(name="c")), classes=CLASSES
    )
    plan = CampaignPlan.new(schema=schema, graph=GRAPH, feature_mechanism=features, label_mechanism=label)
    again = CampaignPlan.from_json(plan.to_json())
    assert again == plan
    assert (again.draft.feature_mechanism, again.draft.label_mechanism) == (features, label)


def test_a_plan_says_nothing_about_purpose_contact_and_closing_date() -> None:
    content = json.loads(PLAN.to_json())["plan"]
    assert set(content) == set(PLAN.draft.asked.bound) - {"nonce"} | {"note", "texts", "language"}


def test_two_campaigns_of_one_plan_have_different_ids() -> None:
    told = Notice(purpose="P", contact="C", closes=datetime(2100, 1, 1, tzinfo=UTC))
    assert PLAN.campaign(told).id != PLAN.campaign(told).id
    assert PLAN.campaign(told).asked.bound["nonce"] != PLAN.draft.asked.bound["nonce"]


def sealed(content: object) -> str:
    return canonical_json({"plan": content, "id": content_id({"plan": content})})


def content(**changed: object) -> dict[str, Any]:
    return {**json.loads(PLAN.to_json())["plan"], **changed}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is not a plan"),
        ("{", "it is not a plan"),
        ("[]", "the plan must be an object"),
        ("{}", "the plan lacks the key 'id'"),
        (PLAN.to_json().replace("country", "county"), "the plan was altered"),
        (PLAN.to_json()[:-1], "it is not a plan"),
        (json.dumps(json.loads(PLAN.to_json()), indent=1), "it is not a plan"),
        (sealed([]), "it is not a plan"),
        (sealed(content(purpose="mine")), "it is not a plan"),
        (sealed(content(sender="me")), "unknown key"),
        (sealed(content(graph={"nodes": 4, "sha256": "0"})), "SHA-256"),
        (sealed(content(label=None)), "collects nothing"),
        (sealed({"schema": 1}), "lacks the key"),
    ],
)
def test_anything_but_a_plan_is_refused(text: str, message: str) -> None:
    with pytest.raises(CampaignError, match=message):
        CampaignPlan.from_json(text)


def test_an_understated_epsilon_is_refused_even_with_a_fitting_id() -> None:
    forged = content()
    forged["label"] = {**forged["label"], "epsilon": "0.5"}
    with pytest.raises(CampaignError, match="does not hold the integers"):
        CampaignPlan.from_json(sealed(forged))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"schema": replace(SCHEMA, classes=(*CLASSES, "c3"))}, "another schema"),
        ({"graph": Graph.from_edges([[0, 1], [1, 3]], num_nodes=4)}, "another graph"),
        ({"label": "age"}, "the plan's label is 'country', not 'age'"),
    ],
)
def test_a_plan_for_something_else_is_refused(given: dict[str, Any], message: str) -> None:
    PLAN.check(schema=SCHEMA, graph=GRAPH, label="country")
    with pytest.raises(CampaignError, match=message):
        PLAN.check(**given)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    SCHEMA.save("schema.toml")
    Path("edges.csv").write_text("from,to\na,b\nb,c\n", encoding="utf-8")
    Path("nodes.csv").write_text("id\na\nb\nc\nd\n", encoding="utf-8")
    graph = Graph.from_files("edges.csv", nodes=Path("nodes.csv"))
    mechanism = best_label_mechanism(3, 1.0)
    made = CampaignPlan.new(schema=SCHEMA, graph=graph, label="country", label_mechanism=mechanism)
    Path("plan.json").write_text(made.to_json() + "\n", encoding="utf-8")
    return tmp_path


INIT = ["init", "begun", "--purpose=P", "--contact=C", "--closes=2100-01-01"]
PEOPLE = ["--people=nodes.csv", "--links=edges.csv"]


def test_init_needs_people_and_links_beside_the_plan(folder: Path) -> None:
    assert main([*INIT, *PEOPLE, "--plan=plan.json"]) == 0
    made = Campaign.from_json((folder / "begun" / "campaign.json").read_bytes())
    assert (made.asked.schema, made.nodes, made.label_name) == (SCHEMA, 4, "country")
    assert made.label_mechanism == PLAN.draft.label_mechanism


def test_the_planned_question_may_be_said_again(folder: Path) -> None:
    assert main([*INIT, *PEOPLE, "--plan=plan.json", "--question=country"]) == 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--plan=plan.json", "--links=edges.csv"], "another graph"),
        (["--plan=plan.json", *PEOPLE, "--schema=other.toml"], "or a plan, and one of them alone"),
        (["--plan=plan.json", *PEOPLE, "--question=age"], "the plan's label is 'country', not 'age'"),
        (["--plan=plan.json", *PEOPLE, "--set=epsilon_y=2"], "the epsilon is given twice"),
        (["--plan=plan.json", *PEOPLE, "--set=rounds=2"], "a plan says how the epsilon is spent"),
        (["--plan=plan.json"], "give the table of links"),
        (["--plan=edges.csv", *PEOPLE], "it is not a plan"),
        (["--plan=nowhere.json", *PEOPLE], "nowhere.json"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(
    more: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    FeatureSchema(columns=(), classes=("x", "y")).save("other.toml")
    assert main([*INIT, *more]) == 2
    (error,) = (line for line in capsys.readouterr().err.splitlines() if not line.startswith("warning: "))
    assert message in error
    assert not (folder / "begun").exists()
