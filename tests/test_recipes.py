"""Recipes of the guide for operators: alarms name metrics that exist, the unit is whole, nginx serves over TLS."""

from __future__ import annotations

import re
import shlex
import ssl
import subprocess
import time
from collections.abc import Callable
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import httpx
import pytest
from benchmarks.performance.collecting import Server

from tests.support.collection import Collection
from tests.support.services import find_program
from tests.test_containers import free_port
from tests.test_docs import parse
from veilgraph.collector.errors import RefusalReason
from veilgraph.collector.metrics import Metrics

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "docs" / "how-to" / "deployment.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """Return the first block of a language in the guide."""
    found = re.search(rf"^```{language}\n(.*?)^```$", GUIDE, flags=re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_every_alarm_is_about_metrics_and_reasons_that_there_are() -> None:
    metrics = Metrics(campaign="c", queued=lambda: 0)
    for reason in RefusalReason:
        metrics.count_refusal(reason)
    shown = metrics.render().decode() + "up 1\n"
    load: Callable[[str], Any] = yaml.safe_load  # the library has no types
    (group,) = load((ROOT / "deploy" / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    assert any('"store_full"' in rule["expr"] for rule in group["rules"])
    for rule in group["rules"]:
        names = re.findall(r"\b(?:veilgraph_\w+|up)\b(?=[{\[ ])", rule["expr"])
        assert names, rule["alert"]
        for name in names:
            assert re.search(rf"^(?:# TYPE )?{name}\b|^# TYPE {name.removesuffix('_total')} ", shown, re.MULTILINE), (
                name
            )
        for reasons in re.findall(r'reason=~?"([\w|]+)"', rule["expr"]):
            assert {*reasons.split("|")} <= {reason.value for reason in RefusalReason}
        assert rule["annotations"]["summary"]


def test_the_unit_waits_for_the_network_and_starts_a_command_that_there_is() -> None:
    unit = ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(block("ini"))
    assert set(unit.sections()) == {"Unit", "Service", "Install"}
    assert "network-online.target" in unit["Unit"]["After"]
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert Path(program).name == "veilgraph"
    parse(shlex.join(["veilgraph", *words]))


@pytest.mark.slow
def test_the_nginx_recipe_serves_the_collector_over_tls_and_logs_nothing(tmp_path: Path) -> None:
    nginx, openssl = find_program("nginx", places=["/usr/sbin"]), find_program("openssl")
    if nginx is None or openssl is None:
        pytest.skip("nginx is not installed")
    collection, port = Collection.ring(6), free_port()
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = [
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost",
    ]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([str(openssl), "req", *made, *files], check=True, capture_output=True)
    options = [*collection.write(tmp_path), "--store", f"sqlite:///{tmp_path}/reports.db"]
    with Server([*options, "--trusted-proxy", "127.0.0.1"], log=tmp_path / "log") as server:
        site = block("nginx").replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl")
        site = site.replace("127.0.0.1:8000", f"127.0.0.1:{server.port}").replace(
            "collect.example.org;", "localhost;", 1
        )
        site = re.sub(r"(ssl_certificate\s+)\S+;", rf"\1{certificate};", site, count=1)
        site = re.sub(r"(ssl_certificate_key\s+)\S+;", rf"\1{key};", site, count=1)
        own = "".join(
            f"{name}_temp_path {tmp_path}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        configuration = tmp_path / "nginx.conf"
        configuration.write_text(
            f"pid {tmp_path}/pid;\nerror_log {tmp_path}/start.log;\nevents {{}}\nhttp {{\n{own}{site}\n}}\n", "utf-8"
        )
        running = subprocess.Popen([str(nginx), "-c", str(configuration), "-g", "daemon off;"])
        try:
            trust = ssl.create_default_context(cafile=str(certificate))
            with httpx.Client(base_url=f"https://localhost:{port}", verify=trust) as client:
                ends = time.monotonic() + 20
                while True:
                    try:
                        found = client.get("/v1/campaign")
                        break
                    except httpx.ConnectError:
                        assert time.monotonic() < ends
                        time.sleep(0.05)
                assert found.json()["id"] == collection.campaign.id
                assert "max-age" in found.headers["strict-transport-security"]
                sent = client.put(
                    "/v1/reports/n1", json=collection.report("n1").document, headers=collection.headers("n1")
                )
                assert sent.status_code == 201
        finally:
            running.terminate()
            running.wait()
        assert server.stop() == 0
    assert "n1" not in (tmp_path / "start.log").read_text(encoding="utf-8")
