"""A file names several campaigns; a mistake in it is one sentence with the file, the table and the remedy."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.types import ASGIApp

from tests.support.collection import Collection
from tests.support.running_collector import listening
from veilgraph.campaign.tokens import new_key
from veilgraph.collector.campaign_files import load_campaigns, make_collector_of_several, read_campaigns
from veilgraph.collector.served_campaign import ServedCampaign
from veilgraph.collector.store import ReportStore
from veilgraph.errors import RunError


def collection(nodes: int) -> Collection:
    return replace(Collection.ring(nodes), credentials=Collection.ring(3).credentials)


def write(folder: Path, **collections: Collection) -> Path:
    """Write the files of each campaign into a folder of its own, and the file that names them."""
    lines = []
    for name, each in collections.items():
        (folder / name).mkdir(exist_ok=True)
        options = each.write(folder / name)
        lines.append(f"[{name}]")
        for option, path in zip(["campaign", *options[1::2]], [options[0], *options[2::2]], strict=True):
            lines.append(f"{option.removeprefix('--')} = {json.dumps(str(Path(path).relative_to(folder)))}")
    file = folder / "campaigns.toml"
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def loaded(file: Path, url: str) -> tuple[dict[str, ServedCampaign], dict[str, str]]:
    """Load the campaigns of a file, all with one store."""
    campaigns = read_campaigns(file)
    stores = dict.fromkeys(campaigns, url)
    return load_campaigns(campaigns, file, stores=stores), stores


def of_several(file: Path, url: str) -> ASGIApp:
    served, stores = loaded(file, url)
    return make_collector_of_several(served, stores=stores, rate=0)


def test_every_campaign_of_the_file_is_served_below_its_name(tmp_path: Path) -> None:
    campaigns = {"flu": collection(10), "mobility-2027": collection(12)}
    file, store = write(tmp_path, **campaigns), f"sqlite:///{tmp_path}/reports.db"
    with listening(of_several(file, store)) as client:
        for name, each in campaigns.items():
            assert client.get(f"/c/{name}/v1/campaign").json()["id"] == each.campaign.id
            sent = client.put(f"/c/{name}/v1/reports/n1", json=each.report("n1").document, headers=each.headers("n1"))
            assert sent.status_code == 201
    left = write(tmp_path, flu=campaigns["flu"])
    with listening(of_several(left, store)) as client:
        # A campaign that is no longer named is not served, and its reports stay.
        assert client.get("/c/mobility-2027/v1/campaign").status_code == 404
    opened = ReportStore.open(store, create=False)
    assert [opened.reports.count(each.campaign.id) for each in campaigns.values()] == [1, 1]
    opened.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "campaigns.toml names no campaign: write a table such as"),
        ("flu", "campaigns.toml is not TOML"),
        ("flu = 3", "campaigns.toml, [flu]: this is not a table: write"),
        ("[Flu]", "campaigns.toml, [Flu]: a name has at most 63 characters of a-z, 0-9 and -"),
        ('["../x"]', "a name has at most 63"),
        ("[flu]", "campaigns.toml, [flu]: 'campaign' is missing: name the file"),
        (
            '[flu]\ncampain = "x"',
            "campaigns.toml, [flu]: 'campain' is unknown: write some of campaign, graph, keys-file",
        ),
        ('[flu]\ncampaign = 3\ngraph = "x"\nkeys-file = "x"\nadmin-token-file = "x"', "'campaign' is not a text"),
    ],
)
def test_a_mistake_in_the_file_names_the_file_the_table_and_the_remedy(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "campaigns.toml"
    file.write_text(text)
    with pytest.raises(RunError) as refusal:
        read_campaigns(file)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("campaign.json", None, "[b]: {folder}/b/campaign.json: No such file or directory"),
        ("campaign.json", "{}", "[b]: {folder}/b/campaign.json: "),
        ("keys.txt", "short", "[b]: {folder}/b/keys.txt: this is no key that veilgraph made"),
        ("admin.txt", "one\ntwo", "admin.txt has 2 lines"),
        ("edges.csv", "from,to\nx,y\n", "[b]: "),
    ],
)
def test_a_mistake_in_a_file_of_a_campaign_names_its_table_and_opens_no_store(
    tmp_path: Path, name: str, content: str | None, message: str
) -> None:
    file = write(tmp_path, a=collection(10), b=collection(12))
    if content is None:
        (tmp_path / "b" / name).unlink()
    else:
        (tmp_path / "b" / name).write_text(content)
    with pytest.raises(RunError) as refusal:
        loaded(file, f"sqlite:///{tmp_path}/reports.db")
    assert message.format(folder=tmp_path) in str(refusal.value)
    assert str(file) in str(refusal.value)
    assert not (tmp_path / "reports.db").exists()


def test_campaigns_with_a_secret_in_common_are_refused_and_the_secret_is_not_quoted(tmp_path: Path) -> None:
    first, second = collection(10), collection(12)
    key, token = first.credentials.keys[0], first.credentials.admin_token
    same_key = replace(second, credentials=replace(second.credentials, keys=[new_key(), key]))
    same_token = replace(second, credentials=replace(second.credentials, admin_token=token))
    for other, message in (
        (same_key, "[a] and [b] have a key of participants' tokens in common: give each its own"),
        (same_token, "[a] and [b] have the token of a role in common: give each its own"),
        (replace(first, credentials=second.credentials), "[a] and [b] have the same campaign: name it once"),
    ):
        with pytest.raises(RunError) as refusal:
            loaded(write(tmp_path, a=first, b=other), f"sqlite:///{tmp_path}/r.db")
        assert message in str(refusal.value)
        assert key not in str(refusal.value)
        assert token not in str(refusal.value)
