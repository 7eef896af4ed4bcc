"""The browser module is an npm package: the same file, types for every export, tests of Node's own runner."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser_module import NODE, in_node, needs_node
from tests.support.collection import Collection
from veilgraph.campaign import Report

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "veilgraph" / "client" / "browser"
MODULE = PACKAGE / "veilgraph.js"
MODULES = {"epsilons.js", "neighbours.d.ts", "neighbours.js", "series.js", "veilgraph.d.ts", "veilgraph.js"}
SHIPPED = {"README.md", "package.json", *MODULES}

needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")

REPORT = """
import { encode, randomize, verify } from "veilgraph";
import { readFileSync } from "node:fs";
const question = await verify(readFileSync("campaign.json", "utf-8"), { maxEpsilon: 10 });
const codes = encode(question, { age: 35, smoker: "yes", region: "west", health: "ill" });
const [features, label] = randomize(question, ...codes);
console.log(JSON.stringify({ campaign: question.id, node: "n0", features, label }));
"""


PROGRAM = """
import { encode, padded, randomize, verify, type Question, type ReportedFeatures, type ReportedLabel } from "veilgraph";
import {
	randomizeNeighbours, randomizeSums, readPublished, rowsOf, sumsOf, turnOf, verifyWave, type Published,
	type PublishedPeople, type WaveQuestion,
} from "veilgraph/neighbours";

export async function answer(
	text: string,
): Promise<{ features: ReportedFeatures; label: ReportedLabel; body: string }> {
	const question: Question = await verify(text, { maxEpsilon: 2 });
	const [codes, code] = encode(question, { age: 35, smoker: "yes", health: null });
	const [features, label] = randomize(question, codes, code);
	const body: string = padded(question, { campaign: question.id, node: "n0", features, label } as { node: string });
	return { features, label, body };
}

export async function answerWave(text: string, people: Uint8Array, table: Uint8Array): Promise<number[]> {
	const wave: WaveQuestion = await verifyWave(text, { maxEpsilon: 2, maxEntryEpsilon: 1 });
	return randomizeSums(wave, await sumsOf(await readPublished(wave, people, table), ["a", "b"]));
}

export async function answerAnyWave(
	text: string, people: Uint8Array, table: Uint8Array | null,
): Promise<number[] | string> {
	const wave = await verifyWave(text, { maxEpsilon: 2, maxEntryEpsilon: 1 });
	return randomizeNeighbours(wave, await readPublished(wave, people, table), ["a", "b"]);
}

export async function rows(wave: WaveQuestion, people: Uint8Array): Promise<number[]> {
	return wave.table === null ? rowsOf(await readPublished(wave, people, null), ["a", "b"]) : [];
}

export async function isTheirTurn(wave: WaveQuestion, node: string): Promise<boolean> {
	return wave.turns === null || (await turnOf(node, wave.turns)) === wave.wave;
}

// @ts-expect-error the limit is not optional
void verify("{}");
// @ts-expect-error neighbours are names
void sumsOf({} as Published, [1]);
// @ts-expect-error people alone have no beliefs
void sumsOf({} as PublishedPeople, ["a"]);
// @ts-expect-error a record holds texts, numbers, booleans and null
void encode(await verify("{}", { maxEpsilon: 1 }), { age: [35] });
"""
TSC = "--noEmit --strict --exactOptionalPropertyTypes --module nodenext --target es2022 --lib es2022,dom"


def manifest() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((PACKAGE / "package.json").read_text(encoding="utf-8"))
    return loaded


def test_the_package_has_the_version_and_the_licence_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    package = manifest()
    assert {key: package[key] for key in ("name", "version", "license")} == {
        key: project[key] for key in ("name", "version", "license")
    }
    assert (package["type"], package.get("dependencies")) == ("module", None)


@pytest.mark.parametrize("module", ["veilgraph", "neighbours"])
def test_every_export_has_a_type_and_every_type_of_a_value_an_export(module: str) -> None:
    exported = r"^export (?:async )?(?:class|const|function) (\w+)"
    code, types = ((PACKAGE / f"{module}.{end}").read_text(encoding="utf-8") for end in ("js", "d.ts"))
    names, typed = (re.findall(exported, text, flags=re.MULTILINE) for text in (code, types))
    assert sorted(typed) == sorted(names)


def test_every_property_that_a_type_declares_is_one_that_the_code_has() -> None:
    code = {word for path in PACKAGE.glob("*.js") for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    types = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.glob("*.d.ts"))
    declared = set(re.findall(r"readonly (\w+)\??:", types))
    assert len(declared) > 50
    assert declared <= code


@needs_node
def test_a_verified_campaign_has_the_parts_that_its_type_names() -> None:
    types = (PACKAGE / "veilgraph.d.ts").read_text(encoding="utf-8")
    (body,) = re.findall(r"^export interface Question \{\n(.*?)^\}", types, flags=re.MULTILINE | re.DOTALL)
    named = re.findall(r"^  readonly (\w+)", body, flags=re.MULTILINE)
    (reply,) = in_node("parts", [Collection.ring(20).campaign.to_json()])
    assert sorted(named) == sorted(reply["result"])


@needs_node
def test_the_tests_of_node_pass() -> None:
    run = subprocess.run([str(NODE), "--test", "tests/client/"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert int(re.findall(r"^. pass (\d+)$", run.stdout, flags=re.MULTILINE)[0]) > 20


@needs_node
@needs_npm
def test_the_packed_package_draws_a_report_that_the_campaign_accepts(tmp_path: Path) -> None:
    pack = ["npm", "pack", "--json", "--offline", "--cache", str(tmp_path / "cache")]
    dry = subprocess.run([*pack, "--dry-run"], cwd=PACKAGE, capture_output=True, text=True, check=True)
    listed = json.loads(dry.stdout)
    (packed,) = listed if isinstance(listed, list) else listed.values()
    assert {file["path"] for file in packed["files"]} == SHIPPED
    subprocess.run([*pack, "--pack-destination", str(tmp_path)], cwd=PACKAGE, capture_output=True, check=True)
    with tarfile.open(tmp_path / packed["filename"]) as archive:
        archive.extractall(tmp_path / "node_modules", filter="data")
    (tmp_path / "node_modules" / "package").rename(tmp_path / "node_modules" / "veilgraph")
    assert (tmp_path / "node_modules" / "veilgraph" / "veilgraph.js").read_bytes() == MODULE.read_bytes()
    collection = Collection.ring(20)
    (tmp_path / "campaign.json").write_text(collection.campaign.to_json(), encoding="utf-8")
    (tmp_path / "report.mjs").write_text(REPORT, encoding="utf-8")
    run = subprocess.run([str(NODE), "report.mjs"], cwd=tmp_path, capture_output=True, text=True, check=True)
    report = Report.from_json(run.stdout, collection.campaign)
    assert report.node == "n0"


@needs_node
@needs_npm
@pytest.mark.slow
def test_the_types_are_those_of_typescript(tmp_path: Path) -> None:
    install = ["npm", "install", "--no-save", "--no-audit", "--no-fund", "--silent", "typescript@5"]
    done = subprocess.run(install, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        pytest.skip(f"typescript cannot be installed from the registry of npm: {done.stderr[-200:]}")
    package = tmp_path / "node_modules" / "veilgraph"
    package.mkdir()
    for name in SHIPPED:
        shutil.copy(PACKAGE / name, package)
    (tmp_path / "page.mts").write_text(PROGRAM, encoding="utf-8")
    compiler = tmp_path / "node_modules" / ".bin" / "tsc"
    run = subprocess.run(
        [compiler, *TSC.split(), "page.mts"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout
