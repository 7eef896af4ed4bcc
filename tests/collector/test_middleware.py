"""Rate limits concern one sender each and do not depend on the system clock; limits of size fit the campaign."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.collection import Collection
from tests.support.running_collector import collecting
from veilgraph.collector.middleware import TokenBuckets, max_report_bytes, sender_of
from veilgraph.collector.store import ReportStore
from veilgraph.graph import Graph
from veilgraph.privacy.schema import Column, FeatureSchema


class Clock:
    """Time that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_longest_report_of_a_campaign_fits_spaces_included() -> None:
    values = tuple(map(str, range(300)))
    schema = FeatureSchema(columns=tuple(Column(name=f"x{i}", values=values) for i in range(500)), classes=("a", "b"))
    node = "\N{GRINNING FACE}" * 256
    collection = Collection.on(Graph.from_edges([[0], [1]], 2, node_ids=[node, "other"]), schema=schema)
    report = collection.report(node, features=(299,) * 500)
    assert len(json.dumps(report.document)) <= max_report_bytes(collection.campaign)


def test_a_sender_has_a_burst_then_its_own_rate_and_quiet_time_adds_nothing() -> None:
    clock = Clock()
    limit = TokenBuckets(per_second=2, burst=5, clock=clock)
    assert [limit.allow("a") for _ in range(6)] == [True] * 5 + [False]
    clock.now = 1.0
    assert [limit.allow("a") for _ in range(3)] == [True, True, False]
    limit = TokenBuckets(per_second=1, burst=1, clock=Clock())
    assert limit.allow("a")
    assert limit.allow("b")
    assert not limit.allow("a")
    limit = TokenBuckets(per_second=10, burst=3, clock=clock)
    limit.allow("a")
    clock.now = 1e6
    assert sum(limit.allow("a") for _ in range(10)) == 3
    limit = TokenBuckets(per_second=0, burst=1, clock=Clock())
    assert all(limit.allow("a") for _ in range(100))
    limit = TokenBuckets(per_second=1, burst=1, max_senders=10, clock=Clock())
    for number in range(100):
        limit.allow(str(number))
    assert len(limit) == 10


def test_an_ipv4_address_or_an_ipv6_network_of_64_bits_is_one_sender() -> None:
    assert sender_of(("::ffff:192.0.2.1", 1)) == sender_of(("192.0.2.1", 2)) == sender_of(("::ffff:c000:201", 3))
    assert sender_of(("::ffff:192.0.2.1", 1)) != sender_of(("::ffff:192.0.2.2", 1))
    assert sender_of(("2001:db8::1", 1)) == sender_of(("2001:db8::ffff:0:1", 1))
    assert sender_of(("2001:db8:0:1::1", 1)) != sender_of(("2001:db8::1", 1))
    assert sender_of(("fe80::1%eth0", 1)) == sender_of(("fe80::2", 1))
    assert sender_of(None) == ""
    assert sender_of(("no address", 1)) == "no address"


def test_nothing_may_be_kept_by_a_proxy_or_a_browser_but_what_a_route_allows(tmp_path: Path) -> None:
    """Whether a person has answered would stay in the cache of a shared computer."""
    collection = Collection.ring(3)
    with collecting(collection, ReportStore.open(f"sqlite:///{tmp_path}/reports.db")) as client:
        stored = client.put(
            "/v1/reports/n1", content=collection.report("n1").to_json(), headers=collection.headers("n1")
        )
        standing = client.get("/v1/reports/n1", headers=collection.headers("n1"))
        answers = [stored, standing, client.get("/v1/reports/n1"), client.get("/nowhere"), client.get("/dashboard")]
        assert [answer.headers["Cache-Control"] for answer in answers] == ["no-store"] * len(answers)
