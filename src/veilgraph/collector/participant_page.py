"""The participant's page: made of the files of the package when a collector starts, and served to whole crowds.

All modules are one script: a page takes few requests, which may all come from one address at once. What only a survey
about contacts needs is a second one. A script is what its modules say without comments and indentation, each in a
function of its own, in place of `import` and `export`.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from string import Template

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from veilgraph.collector.errors import Refusal, RefusalReason
from veilgraph.collector.metrics import Metrics
from veilgraph.collector.middleware import TokenBuckets, sender_of

_FIRST_MODULE = "participant"
_IMPORT = re.compile(r'^import \{([\w$,\s]+)\} from "\./(\w+)\.js";$', re.MULTILINE)
_IMPORT_LATER = re.compile(r'\bimport\("\./(\w+)\.js"\)')
_EXPORT = re.compile(r"^export ((?:async )?function\*?|const|class) ([\w$]+)", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*(?://.*|/\*[\s\S]*?\*/)[ \t]*\n", re.MULTILINE)
_INDENTATION = re.compile(r"^[ \t]+", re.MULTILINE)
_LEFT_OVER = re.compile(r"^(?:import|export)\b.*|\bimport\(.*", re.MULTILINE)
# A script element is compared with its hash before it runs; the import that follows gets the same module.
_LOADER = Template("""\
let laterModules = null;
const laterModule = async (name) => (await (laterModules ??= loadModules()))[name];
async function loadModules() {
const script = Object.assign(document.createElement("script"), { type: "module", integrity: "$integrity" });
script.src = "$name";
await new Promise((done, failed) => {
Object.assign(script, { onload: done, onerror: failed });
document.head.append(script);
});
return (await import("./$name")).make({ $known });
}
""")
_AT_ONCE, _FOR_EVER = "no-cache", "public, max-age=31536000, immutable"


@dataclass(frozen=True)
class PageFile:
    """A file that is served from memory, as it is and compressed.

    Args:
        content: the file.
        media_type: its media type.
        is_fixed: whether another content would have another address, so that browsers may keep it.
    """

    content: bytes
    media_type: str
    is_fixed: bool = False
    compressed: bytes = field(init=False, repr=False)
    tags: tuple[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "compressed", gzip.compress(self.content, mtime=0))
        hashes = (hashlib.sha256(each).hexdigest()[:32] for each in (self.content, self.compressed))
        object.__setattr__(self, "tags", tuple(f'"{each}"' for each in hashes))

    def response(self, headers: Headers) -> Response:
        """Return the answer to a request with these headers: 304 where the sender has the file already."""
        is_compressed = "gzip" in headers.get("accept-encoding", "") and len(self.compressed) < len(self.content)
        content = self.compressed if is_compressed else self.content
        tag = self.tags[is_compressed]
        cached = _FOR_EVER if self.is_fixed else _AT_ONCE
        answered = {"ETag": tag, "Cache-Control": cached, "Vary": "Accept-Encoding"}
        if headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=answered)
        if is_compressed:
            answered["Content-Encoding"] = "gzip"
        return Response(content, 200 if content else 204, media_type=self.media_type, headers=answered)


class PageFiles:
    """ASGI middleware that answers requests for files in memory, and leaves others to the application.

    Args:
        app: application inside.
        files: files by path, below the application's root.
        buckets: rate limit of each sender for these files alone, which a crowd behind one address keeps.
        metrics: counter of refusals.
    """

    def __init__(self, app: ASGIApp, files: Mapping[str, PageFile], *, buckets: TokenBuckets, metrics: Metrics) -> None:
        self._app, self._files, self._buckets, self._metrics = app, files, buckets, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        found = None
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            found = self._files.get(scope["path"].removeprefix(scope.get("root_path", "")))
        sender = sender_of(scope.get("client"))
        if found is None:
            await self._app(scope, receive, send)
        elif self._buckets.allow(sender):
            response = found.response(Headers(scope=scope))
            self._buckets.charge(sender, len(response.body))
            await response(scope, receive, send)
        else:
            refusal = Refusal(RefusalReason.TOO_MANY_REQUESTS)
            self._metrics.count_refusal(refusal.reason)
            await refusal.response()(scope, receive, send)


@cache
def participant_page() -> dict[str, PageFile]:
    """Return the files of the page by path: itself, a script, a style sheet, and the words of each language."""
    browser = resources.files("veilgraph") / "client" / "browser"
    page = (browser / "participant.html").read_bytes().decode()
    script, of_contacts = (each.encode() for each in bundle(browser))
    style = (browser / "participant.css").read_bytes()
    files = {"/favicon.ico": PageFile(b"", "image/x-icon")}
    for content, name, media_type in (
        (script, "participant.js", "text/javascript"),
        (of_contacts, "contacts.js", "text/javascript"),
        (style, "participant.css", "text/css"),
    ):
        fixed, integrity = _fixed(name, content)
        page = page.replace(f'"{name}"', f'"{fixed}" integrity="{integrity}"')
        files[f"/{fixed}"] = PageFile(content, f"{media_type}; charset=utf-8", is_fixed=True)
    for table in (browser / "languages").iterdir():
        files[f"/languages/{table.name}"] = PageFile(table.read_bytes(), "application/json")
    return files | {"/": PageFile(page.encode(), "text/html; charset=utf-8")}


def bundle(browser: Traversable) -> tuple[str, str]:
    """Return the script of the page, and the script that it loads for a survey about contacts; "" if it loads none.

    Each has its modules in an order in which every module stands before those that import it. The second script has
    the modules that are imported by `import("./...")` alone, and takes the modules of the first one as an argument.
    """
    at_once, later = dict[str, str](), dict[str, str]()

    def add(name: str, parts: dict[str, str]) -> None:
        if name in at_once or name in parts:
            return
        source = (browser / f"{name}.js").read_text(encoding="utf-8")
        for _, needed in _IMPORT.findall(source):
            add(needed, parts)
        parts[name] = _as_function(name, source)

    add(_FIRST_MODULE, at_once)
    for name in list(at_once):
        for needed in _IMPORT_LATER.findall((browser / f"{name}.js").read_text(encoding="utf-8")):
            add(needed, later)
    if not later:
        return "\n".join(at_once.values()), ""
    known = ", ".join(f"module_{name}" for name in at_once if name != _FIRST_MODULE)
    made = ", ".join(f"{name}: module_{name}" for name in later)
    second = "\n".join((f"export const make = ({{ {known} }}) => {{", *later.values(), f"return {{ {made} }};\n}};\n"))
    name, integrity = _fixed("contacts.js", second.encode())
    loader = _LOADER.substitute(name=name, integrity=integrity, known=known)
    return "\n".join((loader, *at_once.values())), second


def _as_function(name: str, source: str) -> str:
    """Return a module as a constant that holds what it exports."""
    exported = ", ".join(found for _, found in _EXPORT.findall(source))
    body = _IMPORT.sub(r"const {\1} = module_\2;", _COMMENT.sub("", source))
    body = _IMPORT_LATER.sub(r'laterModule("\1")', body)
    body = _INDENTATION.sub("", _EXPORT.sub(r"\1 \2", body))
    if left_over := _LEFT_OVER.search(body):
        raise ValueError(f"{name}.js imports or exports in a way that no script is made of: {left_over[0]}")
    return f"// {name}.js\nconst module_{name} = (() => {{\n{body}return {{ {exported} }};\n}})();\n"


def _fixed(name: str, content: bytes) -> tuple[str, str]:
    """Return the name that a file has for its content, and the integrity that a browser compares it with."""
    digest = hashlib.sha256(content)
    stem, suffix = name.split(".")
    return f"{stem}.{digest.hexdigest()[:16]}.{suffix}", "sha256-" + base64.b64encode(digest.digest()).decode()
