"""The label alone, from a list of classes to predictions: every command in an empty folder, without features."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import pytest
from benchmarks.performance.collecting import Server

from tests.support.collection import Collection
from tests.support.running_collector import collector_of, listening
from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import reports_of
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.notice import Notice
from veilgraph.campaign.tokens import read_keys
from veilgraph.cli import main
from veilgraph.client import answer
from veilgraph.collector.auth import Credentials, Role, new_role_token
from veilgraph.collector.middleware import Limits
from veilgraph.collector.store import ReportStore
from veilgraph.datasets import csbm
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, Split
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms.registry import best_label_mechanism
from veilgraph.privacy.schema import FeatureSchema

NODES, CLASSES = 600, 18
PEOPLE = csbm(NODES, num_classes=CLASSES, num_features=0, homophily=0.95, mean_degree=20, seed=0)
NAMES = [f"p{i}" for i in range(NODES)]
COUNTRIES = [f"c{code}" for code in PEOPLE.labels]
ADMIN = new_role_token(Role.OWNER)
STORE = "sqlite:///reports.db"
TABLES = "--graph edges.csv --nodes nodes.csv"

Capture = pytest.CaptureFixture[str]


def call(line: str) -> None:
    assert main(line.split()) == 0, line


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working folder with the organiser's files, and the table of labels for the laboratory."""
    monkeypatch.chdir(tmp_path)
    classes = ", ".join(f'"c{code}"' for code in range(CLASSES))
    Path("schema.toml").write_text(f"classes = [{classes}]\n", encoding="utf-8")
    write_atomically(Path("admin.txt"), ADMIN)
    pd.DataFrame({"id": NAMES}).to_csv("nodes.csv", index=False)
    pd.DataFrame({"id": NAMES, "country": COUNTRIES}).to_csv("people.csv", index=False)
    pd.DataFrame(np.array(NAMES)[PEOPLE.graph.edges.T], columns=["from", "to"]).to_csv("edges.csv", index=False)
    return tmp_path


@contextmanager
def in_a_thread() -> Iterator[str]:
    """Serve the collector in a thread of the test; yield its address."""
    store = ReportStore.open(STORE)
    app = collector_of(
        campaign=Campaign.from_json(Path("campaign.json").read_bytes()),
        graph=Graph.from_files(Path("edges.csv"), nodes=Path("nodes.csv")),
        store=store,
        credentials=Credentials(keys=read_keys(Path("keys.txt")), admin_token=ADMIN),
        limits=Limits(requests_per_second=0),
    )
    with listening(app) as client:
        yield str(client.base_url)
    store.close()


@contextmanager
def as_a_process() -> Iterator[str]:
    """Start `veilgraph serve`; yield its address."""
    options = f"campaign.json {TABLES} --store {STORE} --keys-file keys.txt --admin-token-file admin.txt"
    with Server(options.split(), log=Path("log")) as server:
        yield server.url
        assert server.stop() == 0


def collect(url: str) -> None:
    """Let four of five people answer on devices of their own, and post the reports."""
    text = Path("campaign.json").read_text(encoding="utf-8")
    tokens = pd.read_csv("sent/links.csv").set_index("id")["token"].str.lstrip("'")
    entries = []
    for i, (name, country) in enumerate(zip(NAMES, COUNTRIES, strict=True)):
        if i % 5:
            report = answer(text, {"country": country}, node=name, store=Path("devices") / name, max_epsilon=1.0)
            assert report["features"] is None
            entries.append({"token": tokens[name], "report": report})
    answered = httpx.post(f"{url}/v1/reports", content=Collection.batch(*entries), timeout=60)
    assert answered.status_code == 200, answered.text
    page = httpx.get(f"{url}/dashboard", headers={"Authorization": f"Bearer {ADMIN}"}, timeout=60)
    assert page.status_code == 200
    assert "country" in page.text
    assert "feature" not in page.text


@pytest.mark.parametrize("serve", [in_a_thread, pytest.param(as_a_process, marks=pytest.mark.slow)])
def test_a_campaign_that_asks_for_the_label_alone_ends_in_predictions(
    serve: Callable[[], AbstractContextManager[str]], folder: Path, capsys: Capture
) -> None:
    words = "--question country --purpose P --contact C --closes 2100-01-01"
    call(f"init begun --schema schema.toml --people nodes.csv --links edges.csv --set epsilon_y=1 {words}")
    Path("campaign.json").write_text(Path("begun/campaign.json").read_text())
    call(f"review campaign.json {TABLES}")
    call("rotate-token keys.txt participants")
    call("invite campaign.json --nodes nodes.csv --keys-file keys.txt --out sent --url https://x.example.org")
    with serve() as url:
        collect(url)
    capsys.readouterr()
    call(f"train campaign.json --store {STORE} {TABLES} --out model --device cpu --json")
    facts = json.loads(capsys.readouterr().out)
    assert (facts["method"], facts["feature_reports"], facts["label_reports"]) == ("veil", 0, NODES * 4 // 5)
    call("predict --model model --graph edges.csv --out predictions.csv")
    predicted = pd.read_csv("predictions.csv").set_index("id")
    assert list(predicted.columns[:2]) == ["class", "probability"]
    true = pd.Series(COUNTRIES, index=NAMES)[predicted.index]
    # A guess is right with probability 1/18: five standard errors above that is 10 %. Veil is right for about 70 %.
    assert (predicted["class"] == true).mean() > 1 / 18 + 5 * (1 / 18 * 17 / 18 / len(true)) ** 0.5


def test_every_method_that_needs_no_features_trains_and_predicts(folder: Path, capsys: Capture) -> None:
    campaign = Campaign.new(
        schema=FeatureSchema.load("schema.toml"),
        graph=(graph := Graph.from_files(Path("edges.csv"), nodes=Path("nodes.csv"))),
        notice=Notice(purpose="P", contact="C", closes=datetime(2100, 1, 1, tzinfo=UTC)),
        budget=CampaignBudget(epsilon_y=1.0),
    )
    Path("campaign.json").write_text(campaign.to_json(), encoding="utf-8")
    mechanism, split = campaign.label_mechanism, Split.random(NODES, seed=0)
    assert mechanism is not None
    budget, rng = PrivacyBudget(epsilon_y=mechanism.epsilon), np.random.default_rng(0)
    drawn = simulate(PEOPLE, budget, split, rng=rng, label=lambda *_: mechanism)
    store = ReportStore.open(STORE)
    store.reports.put(list(reports_of(replace(drawn, graph=graph), campaign)), now=0)
    store.close()
    train = f"train campaign.json --store {STORE} {TABLES} --device cpu"
    for name in ("structure_only", "majority", "veil_labels"):
        call(f"{train} --method {name} --out {name}")
        call(f"predict --model {name} --graph edges.csv --out {name}.csv")
        assert len(pd.read_csv(f"{name}.csv")) == NODES
    capsys.readouterr()
    for name in ("rgnn", "plain"):
        assert main([*train.split(), "--method", name, "--out", name]) == 2
        assert f"error: {name} needs feature reports" in capsys.readouterr().err
        assert not Path(name).exists()


@pytest.mark.slow
def test_a_plan_for_the_label_alone_becomes_a_campaign(folder: Path, capsys: Capture) -> None:
    call("plan --epsilon 1 --schema schema.toml --graph edges.csv --label country --out plan.json")
    call("init begun --plan plan.json --links edges.csv --purpose P --contact C --closes 2100-01-01")
    planned = Campaign.from_json(Path("begun/campaign.json").read_bytes())
    assert (planned.feature_mechanism, planned.label_name) == (None, "country")
    assert planned.label_mechanism == best_label_mechanism(CLASSES, 1.0)
