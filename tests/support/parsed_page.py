"""An HTML page, parsed for tests."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """Tags of a page with their attributes, its visible text, and a check that tags close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)


def self_contained(text: str, *, captions: bool = True) -> Page:
    """Return a page that is well formed, needs nothing else, and names every figure and table for a screen reader."""
    page = Page(text)
    assert not page.open
    assert not {"script", "link", "img", "iframe", "object", "embed"} & {tag for tag, _ in page.tags}
    references = [value or "" for _, a in page.tags for name, value in a.items() if name.endswith(("href", "src"))]
    assert all(reference.startswith("#") for reference in references)
    assert not re.search(r"https?://|@import|url\((?!#)", text)
    ids = Counter(a["id"] for _, a in page.tags if "id" in a)
    assert max(ids.values()) == 1
    assert set(re.findall(r'(?:href="#|url\(#|aria-labelledby=")([^")]+)', text)) <= set(ids)
    assert all(a["role"] == "img" and a["aria-label"] for tag, a in page.tags if tag == "svg")
    tags = Counter(tag for tag, _ in page.tags)
    assert tags["caption"] == tags["table"] or not captions
    assert tags["h1"] == 1
    return page
