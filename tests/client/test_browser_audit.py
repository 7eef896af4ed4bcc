"""The browser's module is audited in node as any program is: its draws keep the claim, and a fixed seed is found."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.browser_module import BROWSER, NODE, needs_node
from veilgraph.campaign import Campaign, Notice
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.graph import Graph
from veilgraph.privacy.audit import audit_command
from veilgraph.privacy.schema import FeatureSchema

DRAW = """
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { randomize, verify } from "./veilgraph.js";

const question = await verify(readFileSync("%s", "utf8"), { maxEpsilon: 100 });
for await (const line of createInterface({ input: process.stdin })) {
  const [features, label] = JSON.parse(line);
  console.log(JSON.stringify(randomize(question, features, label%s)));
}
"""
FIXED = ", ((state) => () => (state = (state * 16807) % 2147483647) * 2 ** 22)(line.length)"
"""A source of words that starts with the same seed for each report."""


def command(folder: Path, budget: CampaignBudget, words: str = "") -> str:
    """Write a program that draws reports of a campaign, and return how it is started."""
    campaign = Campaign.new(
        schema=FeatureSchema.binary(2, classes=["a", "b", "c", "d", "e"]),
        graph=Graph.from_edges([[0], [1]], num_nodes=2),
        notice=Notice(purpose="Learn", contact="privacy@example.org", closes=datetime(2100, 1, 1, tzinfo=UTC)),
        budget=budget,
    )
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    for name in ("epsilons.js", "series.js", "veilgraph.js"):
        (folder / name).write_bytes((BROWSER / name).read_bytes())
    (folder / "campaign.json").write_text(campaign.to_json(), encoding="utf-8")
    program = folder / "draw.js"
    program.write_text(DRAW % (folder / "campaign.json", words), encoding="utf-8")
    return f"{NODE} {program}"


LABELS = [f"[null, {label}]" for label in range(5)]
FEATURES = ["[[0, 0], null]", "[[0, 1], null]", "[[1, 0], null]", "[[1, 1], null]"]


@needs_node
@pytest.mark.parametrize(
    ("budget", "records", "claim"),
    [
        pytest.param(CampaignBudget(epsilon_y=1.0), LABELS, 1.0, id="label"),
        pytest.param(CampaignBudget(epsilon_x=1.0, sampled=2), FEATURES, 2.0, id="features"),
    ],
)
def test_the_module_keeps_its_claim_and_no_lower_one(
    budget: CampaignBudget, records: list[str], claim: float, tmp_path: Path
) -> None:
    program = command(tmp_path, budget)
    found = audit_command(program, records, claim=claim, trials=40_000, confidence=1 - 1e-6)
    assert not found.refuted
    assert found.lower_bound > 0.7 * claim
    assert found.repeats_p_value is not None


@needs_node
def test_words_from_a_fixed_seed_are_found(tmp_path: Path) -> None:
    program = command(tmp_path, CampaignBudget(epsilon_y=1.0), FIXED)
    found = audit_command(program, LABELS, claim=1.0, trials=4000)
    assert "the reports of two processes agree: the noise has a fixed seed" in found.reasons or found.lower_bound > 1
    assert found.refuted
