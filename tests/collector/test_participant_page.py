"""The participant's page is few requests, with a rate of their own, and the same for everyone who checks it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from tests.support.browser_module import BROWSER, NODE, needs_node
from tests.support.collection import Collection
from tests.support.running_collector import collector_of, listening
from veilgraph.collector.collector import SharedParts
from veilgraph.collector.middleware import Limits
from veilgraph.collector.participant_page import bundle, participant_page
from veilgraph.collector.store import ReportStore

COLLECTION = Collection.ring()
PAGE = participant_page()["/"].content.decode()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    """Yield a client of a collector that grants an address eight requests."""
    app = collector_of(
        campaign=COLLECTION.campaign,
        graph=COLLECTION.graph,
        store=ReportStore.open(f"sqlite:///{tmp_path}/reports.db"),
        credentials=COLLECTION.credentials,
        limits=Limits(requests_per_second=0.001, burst=8),
    )
    with listening(app) as served:
        yield served


class _Loaded(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in ("link", "script"):
            self.files[given.get("href") or given["src"]] = given["integrity"]


def loaded() -> dict[str, str]:
    """Return the files that the page loads at once, and the hashes that it states for them."""
    parser = _Loaded()
    parser.feed(PAGE)
    return parser.files


def test_the_page_loads_a_script_and_a_style_sheet_whose_names_and_hashes_are_of_their_content() -> None:
    files = loaded()
    assert sorted(name.rpartition(".")[2] for name in files) == ["css", "js"]
    for name, integrity in files.items():
        content = participant_page()[f"/{name}"].content
        assert integrity == "sha256-" + base64.b64encode(hashlib.sha256(content).digest()).decode()
        assert hashlib.sha256(content).hexdigest()[:16] in name


def test_the_script_takes_less_than_33_kb_on_the_way_to_a_browser_and_that_of_contacts_11_more() -> None:
    """What counts is what is served: scripts without comments, compressed. How the source is laid out does not."""
    scripts = {path.split(".")[0]: file for path, file in participant_page().items() if path.endswith(".js")}
    assert {path: file.content.decode() for path, file in scripts.items()} == dict(
        zip(("/participant", "/contacts"), bundle(BROWSER), strict=True)
    )
    assert len(scripts["/participant"].compressed) < 33_000
    assert len(scripts["/contacts"].compressed) < 11_000


def test_the_script_states_name_and_hash_of_the_one_that_it_loads_for_a_survey_about_contacts() -> None:
    (path,) = (path for path in participant_page() if path.startswith("/contacts."))
    digest = hashlib.sha256(participant_page()[path].content).digest()
    script = bundle(BROWSER)[0]
    assert f'script.src = "{path[1:]}"' in script
    assert f'import(".{path}")' in script
    assert f'integrity: "sha256-{base64.b64encode(digest).decode()}"' in script
    assert digest.hex()[:16] in path


def test_what_asks_about_contacts_alone_is_not_in_the_script_of_other_surveys() -> None:
    first, second = (re.findall(r"^// (\w+)\.js$", script, re.MULTILINE) for script in bundle(BROWSER))
    assert sorted(first + second) == sorted(module.stem for module in BROWSER.glob("*.js"))
    assert {"contacts", "neighbours"} <= set(second)


def test_a_crowd_behind_one_address_gets_every_file_beyond_its_rate_of_requests(client: httpx.Client) -> None:
    assert [client.get("/health/live").status_code for _ in range(9)] == [200] * 8 + [429]
    for path, file in participant_page().items():
        for encoding in ("gzip", "identity"):
            for _ in range(5):
                answer = client.get(path, headers={"Accept-Encoding": encoding})
                assert answer.content == file.content
                assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert client.head(path).headers.get("content-type") == file.media_type


def test_who_has_a_file_gets_it_again_only_when_it_changed(client: httpx.Client) -> None:
    for path, file in participant_page().items():
        first = client.get(path)
        assert ("immutable" in first.headers["cache-control"]) == file.is_fixed
        again = client.get(path, headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert client.get(path, headers={"If-None-Match": '"another"'}).content == file.content


def test_the_script_is_every_module_of_the_page_word_by_word() -> None:
    script = "\n".join(bundle(BROWSER))
    for module in BROWSER.glob("*.js"):
        text = re.sub(r"^import .*?;$", "", module.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for line in re.sub(r"^\s*/\*.*?\*/$", "", text, flags=re.MULTILINE | re.DOTALL).splitlines():
            if line.strip().startswith("//"):
                assert line not in script, "comments are for those who read the modules"
                continue
            plain = re.sub(r"^export ", "", line.strip())
            assert plain in script or "import(" in line, (module.name, line)


def test_an_import_may_take_several_lines(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text("export const x = 1;\nexport const y = 2;\n", encoding="utf-8")
    (tmp_path / "participant.js").write_text('import { x,\n  y } from "./a.js";\n', encoding="utf-8")
    assert "const { x,\ny } = module_a;" in bundle(tmp_path)[0]
    assert bundle(tmp_path)[1] == ""


@needs_node
def test_the_script_exports_from_each_module_what_the_module_exports() -> None:
    names = ("veilgraph", "device", "neighbours")
    first, second = bundle(BROWSER)
    known = re.findall(r"^const (module_\w+)", first.split("// participant.js")[0], re.MULTILINE)
    script = first.split("// participant.js")[0] + second.replace("export const", "const")
    modules = f"module_veilgraph, module_device, make({{ {', '.join(known)} }}).neighbours"
    ask = f"console.log(JSON.stringify([{modules}].map((each) => Object.keys(each).sort())));"
    ran = subprocess.run([str(NODE), "--input-type=module", "-"], input=script + ask, capture_output=True, text=True)
    for exported, name in zip(json.loads(ran.stdout), names, strict=True):
        source = (BROWSER / f"{name}.js").read_text(encoding="utf-8")
        found = re.findall(r"^export (?:async )?(?:function\*?|const|class) (\w+)", source, re.MULTILINE)
        assert exported == sorted(found)


@pytest.mark.parametrize("line", ['import x from "./a.js";', "export default 7;", 'await import("./" + name);'])
def test_a_module_that_no_script_can_be_made_of_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "participant.js").write_text(line, encoding="utf-8")
    with pytest.raises(ValueError, match=r"participant\.js imports or exports"):
        bundle(tmp_path)


def test_one_address_cannot_load_the_page_for_ever_and_others_still_get_it(client: httpx.Client) -> None:
    """200 connections that did kept others waiting for a third of a second."""
    path = next(name for name in participant_page() if name.startswith("/participant."))
    statuses = [client.get(path, headers={"Accept-Encoding": "identity"}).status_code for _ in range(300)]
    assert statuses[:8] == [200] * 8
    assert statuses[-1] == 429
    assert statuses == sorted(statuses)
    with httpx.Client(base_url=client.base_url, transport=httpx.HTTPTransport(local_address="127.0.0.2")) as other:
        assert other.get(path).status_code == 200


def test_a_thousand_phones_behind_one_address_load_the_page_at_once(tmp_path: Path) -> None:
    shared = SharedParts(ReportStore.open(f"sqlite:///{tmp_path}/reports.db"))
    files = [file for path, file in participant_page().items() if not path.startswith("/languages")]
    files.append(max((file for file in participant_page().values()), key=lambda file: len(file.compressed)))
    for _ in range(1000):
        for file in files:
            assert shared.file_buckets.allow("192.0.2.1")
            shared.file_buckets.charge("192.0.2.1", len(file.compressed))
    shared.store.close()
