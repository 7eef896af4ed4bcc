"""The participant's page: made of the files of the package when a collector starts, and served to whole crowds.

All modules are one script: a page takes few requests, which may all come from one address at once. The script is what
the modules say without comments and indentation, each in a function of its own, in place of `import` and `export`.
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
    script = bundle(browser).encode()
    style = (browser / "participant.css").read_bytes()
    files = {"/favicon.ico": PageFile(b"", "image/x-icon")}
    for content, name, media_type in (
        (script, "participant.js", "text/javascript"),
        (style, "participant.css", "text/css"),
    ):
        digest = hashlib.sha256(content)
        stem, suffix = name.split(".")
        fixed = f"{stem}.{digest.hexdigest()[:16]}.{suffix}"
        integrity = base64.b64encode(digest.digest()).decode()
        page = page.replace(f'"{name}"', f'"{fixed}" integrity="sha256-{integrity}"')
        files[f"/{fixed}"] = PageFile(content, f"{media_type}; charset=utf-8", is_fixed=True)
    for table in (browser / "languages").iterdir():
        files[f"/languages/{table.name}"] = PageFile(table.read_bytes(), "application/json")
    return files | {"/": PageFile(page.encode(), "text/html; charset=utf-8")}


def bundle(browser: Traversable) -> str:
    """Return the modules of a folder that the first module needs as one script, each before those that import it."""
    parts: dict[str, str] = {}

    def add(name: str) -> None:
        if name in parts:
            return
        source = (browser / f"{name}.js").read_text(encoding="utf-8")
        for needed in (*_IMPORT.findall(source), *_IMPORT_LATER.findall(source)):
            add(needed if isinstance(needed, str) else needed[1])
        parts[name] = _as_function(name, source)

    add(_FIRST_MODULE)
    return "\n".join(parts.values())


def _as_function(name: str, source: str) -> str:
    """Return a module as a constant that holds what it exports."""
    exported = ", ".join(found for _, found in _EXPORT.findall(source))
    body = _IMPORT.sub(r"const {\1} = module_\2;", _COMMENT.sub("", source))
    body = _IMPORT_LATER.sub(r"Promise.resolve(module_\1)", body)
    body = _INDENTATION.sub("", _EXPORT.sub(r"\1 \2", body))
    if left_over := _LEFT_OVER.search(body):
        raise ValueError(f"{name}.js imports or exports in a way that no script is made of: {left_over[0]}")
    return f"// {name}.js\nconst module_{name} = (() => {{\n{body}return {{ {exported} }};\n}})();\n"
