"""The recipe in deploy/, run without a container engine: every step of it in clean environments on this machine.

What an engine would isolate (users, file systems, networks) is not tested. What the files say is: the steps of the
image in their order, the collector's command on PostgreSQL, and the proxy with TLS in front of it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from benchmarks.performance.collecting import Server

from tests.support.collection import Collection
from tests.support.services import Postgres, find_program
from veilgraph.collector.auth import Role, new_role_token
from veilgraph.collector.store import ReportStore

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "deploy"
NO_INDEX = re.compile(r"No matching distribution|Could not find a version|connection|Temporary failure", re.IGNORECASE)

pytestmark = pytest.mark.slow


class Stage(NamedTuple):
    """One FROM of a Containerfile with what follows it."""

    name: str
    steps: list[tuple[str, str]]


def stages(text: str) -> list[Stage]:
    """Split a Containerfile into its stages."""
    found: list[Stage] = []
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            found.append(Stage(rest.partition(" AS ")[2], []))
        elif word and word not in ("#", "ARG"):
            found[-1].steps.append((word, rest))
    return found


class Image:
    """A stage on this machine: a folder as its root, and an environment of its own as its Python."""

    def __init__(self, folder: Path) -> None:
        self.root, self.python = folder / "root", folder / "python"
        self.directory = self.root
        self.entry_point: list[str] = []
        self.health: list[str] = []
        self.root.mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "venv", str(self.python)], check=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VEILGRAPH"))}
        self.environment = {
            **kept,
            "PATH": f"{self.python / 'bin'}:/usr/bin:/bin",
            "VIRTUAL_ENV": str(self.python),
            "PIP_NO_COMPILE": "no",  # pip's way to say yes: most of what is installed is never imported
        }

    def place(self, path: str) -> Path:
        """Return where a path of the image is on this machine."""
        return self.root / path.lstrip("/") if path.startswith("/") else self.directory / path

    def build(self, stage: Stage, earlier: Mapping[str, Image]) -> None:
        for word, rest in stage.steps:
            if word == "WORKDIR":
                self.directory = self.place(rest)
                self.directory.mkdir(parents=True, exist_ok=True)
            elif word == "COPY":
                self.copy(rest, earlier)
            elif word == "RUN":
                self.run(rest.replace("/wheels", str(self.root / "wheels")))
            elif word == "ENTRYPOINT":
                self.entry_point = json.loads(rest)
            elif word == "HEALTHCHECK":
                self.health = json.loads(rest.removeprefix("CMD "))
            else:
                assert word in {"USER", "EXPOSE"}, f"a step that the test does not know: {word}"

    def copy(self, rest: str, earlier: Mapping[str, Image]) -> None:
        *sources, target = rest.split()
        origin = ROOT
        if sources[0].startswith("--from="):
            image = earlier[sources.pop(0).removeprefix("--from=")]
            shutil.copytree(image.place(sources[0]), self.place(target), dirs_exist_ok=True)
            return
        for source in map(origin.joinpath, sources):
            if source.is_dir():
                shutil.copytree(source, self.place(target), ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            else:
                shutil.copy(source, self.place(target))

    def run(self, command: str) -> None:
        done = subprocess.run(
            ["/bin/sh", "-c", command], cwd=self.directory, env=self.environment, capture_output=True, text=True
        )
        if done.returncode and NO_INDEX.search(done.stderr):
            pytest.skip(f"no package index can be reached: {done.stderr.splitlines()[-1]}")
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """Build the image's stages one after the other; return the last."""
    folder = tmp_path_factory.mktemp("image")
    built: dict[str, Image] = {}
    for number, stage in enumerate(stages((RECIPE / "Containerfile").read_text(encoding="utf-8"))):
        built[stage.name] = Image(folder / str(number))
        built[stage.name].build(stage, built)
    yield built[""]
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return dict(yaml.safe_load((RECIPE / "compose.yaml").read_text(encoding="utf-8")))


def test_every_image_of_others_is_named_by_a_digest_without_a_default(services: dict[str, Any]) -> None:
    images = [each["image"] for each in services["services"].values() if "image" in each]
    assert len(images) == 2
    for name in images:
        assert re.fullmatch(r"\$\{\w+:-[\w./]+\}@\$\{\w+_DIGEST:\?.*\}", name), name
    lines = (RECIPE / "Containerfile").read_text(encoding="utf-8").splitlines()
    assert "ARG PYTHON_DIGEST" in lines
    assert {line.split()[1] for line in lines if line.startswith("FROM ")} == {"${PYTHON_IMAGE}@${PYTHON_DIGEST}"}


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def process(command: list[str], *, log: Path, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the block ends."""
    with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file, **options) as started:
        try:
            yield started
        finally:
            started.terminate()


def wait_until_it_answers(port: int, running: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        assert running.poll() is None, log.read_text(encoding="utf-8")[-2000:]
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail(f"nothing answers on port {port}: {log.read_text(encoding='utf-8')[-2000:]}")


def write_proxy_settings(path: Path) -> None:
    """Write the recipe's file; the machine's own ports 80 and 443, and its list of authorities, stay as they are."""
    settings = "{\n\tskip_install_trust\n\tauto_https disable_redirects\n\tadmin off\n"
    path.write_text((RECIPE / "Caddyfile").read_text(encoding="utf-8").replace("{\n", settings, 1))


@pytest.mark.parametrize("answers", [False, True], ids=["no collector", "half an answer"])
def test_the_proxy_logs_no_node_of_a_request_that_fails(answers: bool, tmp_path: Path) -> None:
    caddy = find_program("caddy")
    if caddy is None:
        pytest.skip("caddy is not installed")
    write_proxy_settings(tmp_path / "Caddyfile")
    port, log = free_port(), tmp_path / "proxy.log"
    command = [str(caddy), "run", "--adapter", "caddyfile", "--config", str(tmp_path / "Caddyfile")]
    with socket.socket() as collector:
        collector.bind(("127.0.0.1", 0))
        site = {"SITE_ADDRESS": f"http://localhost:{port}", "HOME": str(tmp_path)}
        site["COLLECTOR"] = f"127.0.0.1:{collector.getsockname()[1]}"
        if answers:
            collector.listen()
            threading.Thread(target=answer_in_part, args=(collector,)).start()
        with process(command, log=log, env=site) as running:
            wait_until_it_answers(port, running, log)
            with suppress(httpx.HTTPError):
                assert httpx.get(f"http://localhost:{port}/v1/reports/Ada").status_code == 502
    assert "serving initial configuration" in log.read_text(encoding="utf-8")
    assert "Ada" not in log.read_text(encoding="utf-8")


def answer_in_part(collector: socket.socket) -> None:
    """Take one request, and break its answer off."""
    connection, _ = collector.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")


def test_the_recipe_collects_a_report_over_tls_into_postgresql(
    image: Image, services: dict[str, Any], tmp_path: Path
) -> None:
    caddy = find_program("caddy")
    if caddy is None:
        pytest.skip("caddy is not installed")
    collection = Collection.ring(60)
    collection.write(tmp_path)
    for name, put in (("nodes.csv", "people.csv"), ("edges.csv", "links.csv")):
        (tmp_path / name).rename(tmp_path / put)  # as the folder of a collection has them
    record = {"age": 35, "smoker": "yes", "region": "west", "health": "ill"}
    (tmp_path / "record.json").write_text(json.dumps(record), encoding="utf-8")
    postgres = Postgres()
    try:
        url = postgres.new_database("reports")
        port, secure = free_port(), free_port()
        places = {
            "/campaign/": f"{tmp_path}/",
            "/run/secrets/keys": f"{tmp_path}/keys.txt",
            "/run/secrets/admin": f"{tmp_path}/admin.txt",
            "postgresql://veilgraph@database/reports": url,
            services["services"]["proxy"]["networks"]["inner"]["ipv4_address"]: "127.0.0.1",
        }
        command = [*image.entry_point, *services["services"]["collector"]["command"], f"--port={port}"]
        for original, here in places.items():
            command = [part.replace(original, here) for part in command]
        command[command.index("0.0.0.0")] = "127.0.0.1"  # noqa: S104 (not in a container)
        command[0] = str(image.python / "bin" / command[0])
        site = {"SITE_ADDRESS": f"https://localhost:{secure}", "COLLECTOR": f"127.0.0.1:{port}"}
        assert set(site) == set(services["services"]["proxy"]["environment"])
        home = {**image.environment, **site, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}
        proxy = [str(caddy), "run", "--adapter", "caddyfile", "--config", str(tmp_path / "Caddyfile")]
        write_proxy_settings(tmp_path / "Caddyfile")
        with (
            process(command, log=tmp_path / "collector.log", cwd=tmp_path, env=image.environment) as collector,
            process(proxy, log=tmp_path / "proxy.log", env=home) as running,
        ):
            wait_until_it_answers(port, collector, tmp_path / "collector.log")
            wait_until_it_answers(secure, running, tmp_path / "proxy.log")
            readiness = services["services"]["collector"]["healthcheck"]["test"][1:]
            for check in (image.health, readiness):
                image.run(shlex.join(part.replace(":8000", f":{port}") for part in check))
            client = [str(image.python / "bin" / "veilgraph")]
            answer = ["--record=record.json", "--node=n0", "--limit=4", "--device-folder=kept", "--out=report.json"]
            tokens = ["--keys-file=keys.txt", "--nodes=people.csv", "--out=sent", "--url=https://localhost"]
            sent = ["report.json", f"--url=https://localhost:{secure}", "--tokens=sent/links.csv", "--json"]
            trust = {"SSL_CERT_FILE": str(tmp_path / "data" / "caddy" / "pki" / "authorities" / "local" / "root.crt")}
            for arguments in (
                ["randomize", "campaign.json", *answer],
                ["invite", "campaign.json", *tokens],
                ["submit", *sent],
            ):
                done = subprocess.run(
                    [*client, *arguments], cwd=tmp_path, env={**home, **trust}, capture_output=True, text=True
                )
                assert done.returncode == 0, done.stderr
            assert "stored" in done.stdout
        store = ReportStore.open(url, create=False)
        assert [report.node for report in store.reports.iterate(collection.campaign)] == ["n0"]
        store.close()
    finally:
        postgres.remove()


def test_the_image_has_no_torch(image: Image) -> None:
    listed = subprocess.run(
        [str(image.python / "bin" / "python"), "-m", "pip", "list", "--format", "json"], capture_output=True, check=True
    )
    found = {entry["name"].lower().replace("_", "-") for entry in json.loads(listed.stdout)}
    assert {"veilgraph", "fastapi", "sqlalchemy"} <= found
    assert not found & {"torch", "torch-geometric", "pymetis", "matplotlib"}


def test_the_recipe_gives_secrets_as_files_and_no_more_rights_than_needed(services: dict[str, Any]) -> None:
    collector = services["services"]["collector"]
    options = " ".join(collector["command"])
    assert not re.search(r"postgresql://[^@]*:[^@]*@", options), "a password in the list of processes"
    assert set(collector["secrets"]) == set(services["secrets"])
    for name in collector["secrets"]:
        assert f"/run/secrets/{name}" in options
    assert collector["read_only"] is True
    assert collector["cap_drop"] == ["ALL"]
    assert services["networks"]["inner"]["internal"] is True
    assert [name for name, service in services["services"].items() if "ports" in service] == ["proxy"]


def test_the_recipe_for_several_campaigns_serves_them_from_their_folders(
    services: dict[str, Any], tmp_path: Path
) -> None:
    text = (RECIPE / "compose.several.yaml").read_text(encoding="utf-8")
    # The tag removes what the file before has.
    several = yaml.safe_load(re.sub(r"!reset (\[\]|\{\})", "null", text))
    one, changed = services["services"]["collector"], several["services"]["collector"]
    (mount,), (replaced,) = changed["volumes"], one["volumes"]
    assert mount.split(":")[1:] == replaced.split(":")[1:], "another place would leave the folder of one campaign"
    assert changed["secrets"] is several["secrets"] is None
    shared = {option for option in one["command"] if option.startswith(("--store", "--trusted-proxy"))}
    assert shared < set(changed["command"])
    collections = {"flu": Collection.ring(6), "mobility": Collection.ring(8)}
    tables = []
    for name, collection in collections.items():
        (tmp_path / name).mkdir()
        token = new_role_token(Role.OWNER)
        own = replace(collection, credentials=replace(collection.credentials, admin_token=token))
        options = own.write(tmp_path / name)
        named = zip(["--campaign", *options[1::2]], [options[0], *options[2::2]], strict=True)
        keys = [f'{option[2:]} = "{name}/{Path(path).name}"' for option, path in named]
        tables.append("\n".join([f"[{name}]", *keys]))
    (tmp_path / "campaigns.toml").write_text("\n".join(tables), encoding="utf-8")
    store = f"sqlite:///{tmp_path}/reports.db"
    places = {
        "/campaign/": f"{tmp_path}/",
        "postgresql://veilgraph@database/reports": store,
        "172.31.250.2": "127.0.0.1",
    }
    command = changed["command"]
    for original, here in places.items():
        command = [part.replace(original, here) for part in command]
    with Server(command, log=tmp_path / "log") as server:
        for name, collection in collections.items():
            served = httpx.get(f"{server.url}/c/{name}/v1/campaign").json()
            assert served["id"] == collection.campaign.id
        assert server.stop() == 0
