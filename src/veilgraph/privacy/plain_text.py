r"""Text that shows what it holds: without control, bidirectional and invisible characters.

A newline, an escape sequence or a bidirectional control in a campaign's text could hide its guarantee and show
another. Schemas and campaigns refuse such characters; the command line escapes them wherever they come from.
docs/reference/campaign-format.md lists them, and both clients refuse the same ones.
"""

from __future__ import annotations

import json
import re
import textwrap
import unicodedata
from collections.abc import Iterable

# Controls, line and paragraph separators, surrogates, the code points that Unicode calls default-ignorable, joiners of
# hieroglyphs, and a note without a head.
_HIDDEN = (
    r"\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\uffff"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Persian, Indic scripts and emoji need joiners and the selectors U+FE0E and U+FE0F, always after a character outside
# ASCII. A joiner stands between two of them.
_STRAY = r"(?<![^\x00-\x7f])[\u200c\u200d\ufe0e\ufe0f]|[\u200c\u200d](?![^\x00-\x7f])"
_SPACES = re.compile("[ \u1680\u2800]+")  # NFKC makes U+0020 of all others; a braille pattern without dots is blank
_UNSEEN = re.compile("[\u200c\u200d\ufe0e\ufe0f]")
_DOT = re.compile("(?<=[ij])\u0307")  # these letters have one, which it replaces
_MISLEADING = re.compile(f"[{_HIDDEN}]|{_STRAY}")


def misleading_character(text: str) -> str | None:
    r"""Return the name of the first character that could mislead a reader, or None.

    >>> misleading_character("To learn\u202e"), misleading_character("Größe \U0001f469\u200d\U0001f680")
    ('U+202E', None)
    """
    found = _MISLEADING.search(text)
    return None if found is None else f"U+{ord(found[0]):04X}"


def look(text: str) -> str:
    r"""Return the normal form of a text: texts with the same one look alike, so they are one answer and one name.

    It is NFKC without joiners and variation selectors, with one space for each run of spaces, and none at the ends. A
    dot above an i or j is not seen.
    Upper and lower case stay apart, because a reader sees them. Letters of two scripts that have one shape do, too.

    >>> look(" ill\u3000 now ") == look("ill now"), look("e\u0301") == look("\xe9"), look("Aa") == look("aa")
    (True, True, False)
    """
    if text.isascii() and "  " not in text:
        return text.strip(" ")
    seen = unicodedata.normalize("NFKC", _UNSEEN.sub("", text))
    return _SPACES.sub(" ", _DOT.sub("", seen.replace("\u0131\u0307", "i"))).strip(" ")


def look_alikes(texts: Iterable[str]) -> tuple[str, str] | None:
    """Return two texts that look alike, which the same text twice does, too; or None.

    >>> look_alikes(["well", "ill", "ill "]), look_alikes(["well", "ill"])
    (('ill', 'ill '), None)
    """
    seen: dict[str, str] = {}
    for text in texts:
        if (key := look(text)) in seen:
            return seen[key], text
        seen[key] = text
    return None


def escape(text: str) -> str:
    r"""Return one line that a terminal shows as it is: misleading characters become escape sequences.

    >>> print(escape("a\nb\x1b[2K"))
    a\u000ab\u001b[2K
    """
    return _MISLEADING.sub(lambda found: _escaped(ord(found[0])), text)


def counted(number: int, one: str, many: str = "") -> str:
    """Write a number with its noun, in the singular for 1.

    Args:
        number: the number.
        one: the noun in the singular.
        many: the noun in the plural; default: with an s.

    >>> counted(1, "feature"), counted(2140, "feature"), counted(0, "class", "classes")
    ('1 feature', '2,140 features', '0 classes')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def quote(text: str) -> str:
    r"""Return text from elsewhere between quotation marks, so that no part of it reads as our own words.

    >>> print(quote('an "honest" survey'))
    "an \"honest\" survey"
    """
    return escape(json.dumps(text, ensure_ascii=False))


def quoted_lines(text: str, width: int) -> list[str]:
    r"""Break quoted text into lines that begin with a bar, so that no line of it reads as one of ours.

    Args:
        text: our words and quoted texts.
        width: columns of the terminal. A character outside ASCII may fill two.

    >>> print("\n".join(quoted_lines('Purpose: "To learn who needs a vaccine"', 24)))
      | Purpose: "To learn
      | who needs a vaccine"
    """
    columns = width if text.isascii() else width // 2
    return textwrap.wrap(text, max(columns, 20), initial_indent="  | ", subsequent_indent="  | ")


def _escaped(code: int) -> str:
    return f"\\u{code:04x}" if code < 2**16 else f"\\U{code:08x}"
