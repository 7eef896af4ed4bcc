"""Makes docstrings readable as Markdown: equations in the notation of the pages, examples as code.

An extension of griffe, which reads the docstrings for the reference. `mkdocs.yml` names it.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_DOCTEST = re.compile(r"^( *)(>>> .*(?:\n *\S.*)*)", re.MULTILINE)
_INLINE = re.compile(r":math:`([^`]+)`")
_DISPLAYED = re.compile(r"^( *)\.\. math:: *(.*(?:\n\1 +\S.*)*)", re.MULTILINE)


def to_markdown(text: str) -> str:
    r"""Fence examples, and replace roles and directives of reStructuredText by dollar signs.

    >>> to_markdown(r"At most :math:`\pi`.")
    'At most $\\pi$.'
    """
    text = _DOCTEST.sub(lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", text)
    text = _DISPLAYED.sub(lambda found: f"{found[1]}$$\n{found[1]}{' '.join(found[2].split())}\n{found[1]}$$", text)
    return _INLINE.sub(r"$\1$", text)


class ReadableDocstrings(Extension):
    """Rewrites every docstring before it is rendered."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)
