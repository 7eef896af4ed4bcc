"""A device's work in a wave about private neighbours, by stages; `python -m benchmarks.performance.device_neighbours`.

Both clients answer from 500 neighbours among 10^5, 10^6 and 10^7 people: the Python file, and the browser's module in
node, and in Chromium with --chromium. Each is a process of its own with one thread of work. Python and node are given
in CPU seconds, which other work on the machine disturbs little; Chromium in seconds of the clock. Times are the
shortest of several runs; with --runs 1 nothing is warm, as on a device. --answer list measures a randomized list among
10^4 and 5 * 10^4 people, which needs no table. With --against CHECKOUT the clients of another
checkout run by turns with these, on the files that its own package makes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.neighbours.next_wave import NextWave, begin_series
from veilgraph.campaign.notice import Notice
from veilgraph.graph import Graph
from veilgraph.privacy.belief_table import BeliefTable, finest_scale
from veilgraph.privacy.mechanisms import NeighbourhoodHistogram, RandomizedNeighbourList
from veilgraph.privacy.schema import FeatureSchema
from veilgraph.privacy.strict_json import canonical_json, content_id

ROOT = Path(__file__).parents[2]
SIZES = {"histogram": (10**5, 10**6, 10**7), "list": (10**4, 5 * 10**4)}
LIST_EPSILON = 4.0
NEIGHBOURS, CLASSES, RUNS = 500, 4, 5
CLOSES = datetime(2999, 1, 1, tzinfo=UTC)
STAGES = ("hash and check", "look up", "draw", "together")

_PYTHON = """
import json, sys, tempfile, time
from pathlib import Path
from veilgraph.client import Published, answer_neighbours, verify
from veilgraph.client.words import system_word

folder, runs = Path(sys.argv[1]), int(sys.argv[2])
text, people = ((folder / name).read_bytes() for name in ("wave.json", "people"))
table = (folder / "table").read_bytes() if (folder / "table").stat().st_size else None
names = json.loads((folder / "list.json").read_text())
published = Published(text, people, table)
best = {}

def timed(stage, work):
    started = time.process_time()
    result = work()
    best[stage] = min(best.get(stage, 1e9), time.process_time() - started)
    return result

for _ in range(runs):
    with tempfile.TemporaryDirectory() as store:
        given = dict(node=names[0], store=store, max_epsilon=9, max_entry_epsilon=9)
        report = timed("together", lambda: answer_neighbours(published, names, **given))
    wave = verify(text, max_epsilon=9).asked.about_a_list()
    look_up = timed("hash and check", lambda: wave.open_files(published, names[0])[1])
    found = timed("look up", lambda: look_up(names))
    timed("draw", lambda: wave.mechanism.report(found, system_word))
    del look_up
best["report"] = len(json.dumps(report))
print(json.dumps(best))
"""

_WORK = """
export async function measure(text, people, table, names, runs, clock) {
  const { readPublished, randomizeRows, randomizeSums, rowsOf, sumsOf, verifyWave } = await import("./neighbours.js");
  const { answerNeighbours } = await import("./device.js"), best = {};
  const timed = async (stage, work) => {
    const started = clock(), result = await work();
    best[stage] = Math.min(best[stage] ?? 1e9, clock() - started);
    return result;
  };
  for (let i = 0; i < runs; i++) {
    const kept = new Map(), locks = { request: (_, work) => work() };
    const storage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value),
      key: (i) => [...kept.keys()][i], get length() { return kept.size; } };
    await timed("together", () => answerNeighbours(text, { people, table, neighbours: names },
      { node: names[0], storage, locks, settle: 0, maxEpsilon: 9, maxEntryEpsilon: 9 }));
    const question = await verifyWave(text, { maxEpsilon: 9, maxEntryEpsilon: 9 });
    const published = await timed("hash and check", () => readPublished(question, people, table));
    const found = await timed("look up", () => (table ? sumsOf : rowsOf)(published, names));
    await timed("draw", () => (table ? randomizeSums : randomizeRows)(question, found));
  }
  return best;
}
"""

_NODE = """
import { readFileSync } from "node:fs";
import { measure } from "./work.js";
const read = (name) => readFileSync(`${process.argv[2]}/${name}`);
const clock = () => { const { user, system } = process.cpuUsage(); return (user + system) / 1e6; };
const [text, names] = ["wave.json", "list.json"].map((name) => read(name).toString());
const table = read("table"), known = table.length ? table : null;
const found = await measure(text, read("people"), known, JSON.parse(names), +process.argv[3], clock);
console.log(JSON.stringify(found));
"""

_PAGE = """<!doctype html><script type="module">
import { measure } from "./work.js";
const read = async (name) => new Uint8Array(await (await fetch(`files/${name}`)).arrayBuffer());
const [text, people, table, names] = await Promise.all(["wave.json", "people", "table", "list.json"].map(read));
const words = (bytes) => new TextDecoder().decode(bytes), clock = () => performance.now() / 1000;
const found = await measure(words(text), people, table.length ? table : null, JSON.parse(words(names)), RUNS, clock)
  .catch((error) => ({ error: String(error) }));
await fetch("done", { method: "POST", body: JSON.stringify(found) });
</script>"""


def make_files(people: int, folder: Path, answer: str = "histogram") -> None:
    """Write what a device reads, as the package of this process publishes it: document, table, people, and a list.

    A randomized list has no table: its file is empty.
    """
    try:
        people_file = import_module("veilgraph.campaign.neighbours.people_file").people_file
    except ImportError:  # a checkout that published a list of ids
        people_file = import_module("veilgraph.campaign.neighbours.series").people_file
    names, rng = [f"u{i:07}" for i in range(people)], np.random.default_rng(0)
    table = BeliefTable(CLASSES, rng.integers(1, 39_000, people).astype(np.uint16))
    is_list = answer == "list"
    content = {"people": people_file(names), "table": b"" if is_list else table.to_bytes()}
    few = Graph.without_edges(2, node_ids=["a", "b"])
    notice = Notice(purpose="A benchmark", contact="nobody", closes=CLOSES)
    schema = FeatureSchema(columns=(), classes=tuple(f"c{i}" for i in range(CLASSES)))
    first = begin_series(schema=schema, people=few, notice=notice, budget=CampaignBudget(epsilon_y=2.0))
    if is_list:
        wave = NextWave(answer=RandomizedNeighbourList(2, LIST_EPSILON), closes=CLOSES).after(
            first, people=few, table=None
        )
    else:
        histogram = NeighbourhoodHistogram(CLASSES, 0.1, finest_scale(CLASSES), cap=1)
        wave = NextWave(answer=histogram, closes=CLOSES).after(first, people=few, table=table.sha256)
    document = json.loads(wave.to_json())  # the document of two people, with the files of all: a device cannot tell
    document["bound"]["graph"]["nodes"] = people
    named = document["bound"]["neighbours"]
    named |= {name: hashlib.sha256(each).hexdigest() for name, each in content.items() if each}
    if is_list:
        named["answers"][0]["people"] = people
    for name, each in content.items():
        (folder / name).write_bytes(each)
    (folder / "wave.json").write_text(canonical_json(document | {"id": content_id(document["bound"])}))
    chosen = rng.choice(people, NEIGHBOURS, replace=False)
    (folder / "list.json").write_text(json.dumps([names[i] for i in chosen]))


def in_python(checkout: Path, folder: Path, runs: int) -> dict[str, float]:
    """Return the CPU seconds of each stage of the Python client."""
    return _last_line([sys.executable, "-c", _PYTHON, str(folder), str(runs)], checkout)


def in_node(checkout: Path, folder: Path, runs: int) -> dict[str, float]:
    """Return the CPU seconds of each stage of the browser's module in node."""
    with tempfile.TemporaryDirectory() as place:
        module = _browser_module(checkout, Path(place))
        (module / "node.js").write_text(_NODE)
        return _last_line(["node", str(module / "node.js"), str(folder), str(runs)], checkout)


def in_chromium(checkout: Path, folder: Path, runs: int) -> dict[str, float]:
    """Return the seconds of each stage of the browser's module in headless Chromium."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("chromium is not installed")
    with tempfile.TemporaryDirectory() as place:
        module = _browser_module(checkout, Path(place) / "page")
        (module / "index.html").write_text(_PAGE.replace("RUNS", str(runs)))
        (module / "files").symlink_to(folder.resolve())
        found: dict[str, float] = {}
        done = threading.Event()

        class Handler(SimpleHTTPRequestHandler):
            def do_POST(self) -> None:
                found.update(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()
                done.set()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(module)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        profile = f"--user-data-dir={place}/profile"
        address = f"http://127.0.0.1:{server.server_port}/"
        browser = subprocess.Popen(
            [chromium, *options, profile, "--remote-debugging-port=0", address],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            if not done.wait(300):
                raise SystemExit("chromium did not finish in five minutes")
        finally:
            browser.terminate()
            browser.wait(30)
            server.shutdown()
            server.server_close()
        if "error" in found:
            raise SystemExit(f"the page failed: {found['error']}")
        return found


def _browser_module(checkout: Path, folder: Path) -> Path:
    """Copy the browser's module to a folder, with the work to measure."""
    shutil.copytree(checkout / "src" / "veilgraph" / "client" / "browser", folder, dirs_exist_ok=True)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "work.js").write_text(_WORK)
    return folder


def _last_line(command: list[str], checkout: Path) -> dict[str, float]:
    environment = os.environ | {"PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(
    people: int, checkouts: Mapping[str, Path], *, runs: int, chromium: bool, answer: str = "histogram"
) -> dict[str, Any]:
    """Return bytes of the files and seconds of all stages, for each checkout and each client."""
    clients = {"python": in_python, "node": in_node} | ({"chromium": in_chromium} if chromium else {})
    found: dict[str, Any] = {"people": people, "neighbours": NEIGHBOURS}
    with tempfile.TemporaryDirectory() as place:
        folders = {name: Path(place) / name for name in checkouts}
        for name, checkout in checkouts.items():
            folders[name].mkdir()
            made = ["--make", str(people), str(folders[name]), "--answer", answer]
            _last_line([sys.executable, "-m", __spec__.name, *made], checkout)
            sizes = {what: (folders[name] / what).stat().st_size for what in ("people", "table")}
            found[name] = {"bytes": sizes | {"together": sum(sizes.values())}}
        for client, run in clients.items():
            for name, checkout in checkouts.items():
                found[name][client] = run(checkout, folders[name], runs)
    return found


def table(measured: list[dict[str, Any]], names: list[str]) -> str:
    """Return all figures as a Markdown table; with two checkouts, the last column is how much less the first takes."""
    lines = [f"| people | | {' | '.join(names)} |{' ratio |' if len(names) > 1 else ''}"]
    lines.append("|---:|---|" + "---:|" * (len(names) + (len(names) > 1)))
    for each in measured:
        rows: list[tuple[str, str, str]] = [(f"bytes, {what}", "bytes", what) for what in each[names[0]]["bytes"]]
        clients = [client for client in each[names[0]] if client != "bytes"]
        rows += [(f"{client}, {stage}", client, stage) for client in clients for stage in STAGES]
        for title, part, key in rows:
            values = [each[name][part][key] for name in names]
            shown = [f"{value:,}" if part == "bytes" else f"{value:.3f} s" for value in values]
            ratio = [f"{values[1] / values[0]:.1f}"] if len(values) > 1 and values[0] else [""] * (len(values) - 1)
            lines.append(f"| {each['people']:,} | {title} | {' | '.join([*shown, *ratio])} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print a table, or JSON with --json."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.performance.device_neighbours", description=__doc__)
    parser.add_argument("--answer", choices=list(SIZES), default="histogram", help="what is answered")
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of people")
    parser.add_argument("--against", type=Path, help="another checkout of the project, to compare with")
    parser.add_argument("--chromium", action="store_true", help="measure in headless Chromium as well")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs, of which the shortest counts")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    parser.add_argument("--make", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make is not None:
        make_files(int(options.make[0]), Path(options.make[1]), options.answer)
        print("{}")
        return
    checkouts = {"this": ROOT} | ({} if options.against is None else {"against": options.against.resolve()})
    measured = []
    for people in options.sizes or SIZES[options.answer]:
        settings = {"runs": options.runs, "chromium": options.chromium, "answer": options.answer}
        measured.append(measure(people, checkouts, **settings))
        print(f"{people:,} people measured", file=sys.stderr)
    print(json.dumps(measured, indent=2) if options.json else table(measured, list(checkouts)))


if __name__ == "__main__":
    main()
