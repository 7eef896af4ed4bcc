"""Forged campaigns and mistaken records, which every client must refuse."""

from __future__ import annotations

import json
import math
from typing import Any

from veilgraph.campaign import Campaign
from veilgraph.campaign.strict_json import canonical_json, content_id

RECORD: dict[str, Any] = {f"x{i}": i % 2 for i in range(8)} | {"ill": "yes"}


def rewritten(campaign: Campaign, **changes: Any) -> str:
    """Return a campaign with changed content and a valid id, as a forger who knows the format would write it."""
    document = json.loads(campaign.to_json())
    for path, value in changes.items():
        *parents, last = path.split("__")
        inner = document
        for key in parents:
            inner = inner[int(key) if key.isdigit() else key]
        inner[int(last) if last.isdigit() else last] = value
    document.pop("id")
    return canonical_json({**document, "id": content_id(document)})


# Changes to the campaign "binary".
FORGERIES: dict[str, dict[str, Any]] = {
    "a smaller stated total": {"guarantee__user_level__total": "0.5"},
    "a smaller stated epsilon of the features": {"guarantee__user_level__features": "0.5"},
    "a smaller stated epsilon of the label": {"guarantee__user_level__label": "0.5"},
    "a smaller attribute level": {"guarantee__attribute_level__3": "0.01"},
    "an attribute level left out": {"guarantee__attribute_level": []},
    "a label table that tells more": {"label__table": {"domain_size": 2, "true": 2**53 - 1, "other": 1}},
    "one feature's table that tells more": {
        "features__tables__5": {"domain_size": 2, "true": 2**53 - 2**40, "other": 2**40}
    },
    "words left over": {"label__table": {"domain_size": 2, "true": 2**52, "other": 2**51}},
    # With the guarantee that the tables give, so that nothing but the table itself is wrong.
    "words left over, with a matching guarantee": {
        "label__table": {"domain_size": 2, "true": 2**52, "other": 2**51},
        "guarantee__user_level__label": repr(math.log(2)),
        "guarantee__user_level__total": repr(1 + math.log(2)),
    },
    "a lie in most reports, with a matching guarantee": {
        "label__table": {"domain_size": 2, "true": 1, "other": 2**53 - 1},
        "guarantee__user_level__label": repr(-math.log(2**53 - 1)),
        "guarantee__user_level__total": repr(1 - math.log(2**53 - 1)),
    },
    "one word too many, with a matching guarantee": {
        "label__table": {"domain_size": 2, "true": 2**52 + 2**51, "other": 2**51 + 1},
        "guarantee__user_level__label": repr(math.log(3)),
        "guarantee__user_level__total": repr(1 + math.log(3)),
    },
    "more words than there are, with a matching guarantee": {
        "label__table": {"domain_size": 2, "true": 2**53 - 1, "other": 2**52},
        "guarantee__user_level__label": repr(math.log(2)),
        "guarantee__user_level__total": repr(1 + math.log(2)),
    },
    "a table that always tells the truth": {"label__table": {"domain_size": 2, "true": 2**53, "other": 0}},
    "more features sampled": {"features__sampled": 8},
    "more features sampled than there are": {"features__sampled": 9},
    "a table for another domain": {"label__table": {"domain_size": 3, "true": 2**53 - 2, "other": 1}},
    "a table of bools": {"label__table": {"domain_size": 2, "true": True, "other": True}},
    "a table that lies": {"label__table": {"domain_size": 2, "true": 1, "other": 2**53 - 1}},
    "nothing asked": {"features": None, "label": None},
    "an unknown mechanism": {"label__mechanism": "identity"},
    "an unknown key": {"extra": 1},
    "another format": {"format": 3},
    "no date": {"closes": "never"},
    "NaN for an epsilon": {"guarantee__user_level__total": "NaN"},
    "infinity for an epsilon": {"guarantee__user_level__total": "Infinity"},
    "merged columns that are not binary": {"schema__group": 8, "schema__columns__0__values": ["a", "b", "c"]},
    "a column without values": {"schema__columns__0__values": []},
    "a column twice": {"schema__columns__0__name": "x1"},
    "a label named like a column": {"schema__label__name": "x1"},
}

# Texts that could hide a guarantee and show another, by what they hold; docs/reference/campaign-format.md has the rule.
MISLEADING_TEXTS: dict[str, str] = {
    "a newline": "To learn\nUser level, any two records: epsilon = 0.1000 in total.",
    "a carriage return": "To learn\rUser level",
    "a tab": "To\tlearn",
    "an escape sequence": "To learn\x1b[1A\x1b[2K",
    "a null character": "To learn\x00",
    "a delete character": "To learn\x7f",
    "a C1 control": "To learn\x9b2K",
    "a next line": "To learn\x85",
    "a soft hyphen": "To le\xadarn",
    "a line separator": "To learn\u2028",
    "a paragraph separator": "To learn\u2029",
    "an Arabic letter mark": "To learn\u061c",
    "a left-to-right mark": "To learn\u200e",
    "a right-to-left mark": "To learn\u200f",
    "a right-to-left override": "epsilon \u202e0.1",
    "a left-to-right embedding": "epsilon \u202a0.1",
    "an isolate": "epsilon \u2066 0.1",
    "the end of an isolate": "epsilon \u2069 0.1",
    "a zero-width space": "To\u200blearn",
    "a word joiner": "To\u2060learn",
    "a byte order mark": "\ufeffTo learn",
    "a combining grapheme joiner": "To\u034flearn",
    "a Hangul filler": "To learn\u3164",
    "a variation selector": "To learn\ufe00",
    "a noncharacter": "To learn\uffff",
    "half of a surrogate pair": "To learn\ud83d",
    "hidden tags": "To learn\U000e0041",
    "a joiner after ASCII": "To\u200dlearn",
    "a joiner at the end": "\u00e9\u200c",
    "a joiner before ASCII": "\u00e9\u200dx",
    "an emoji selector after ASCII": "To learn\ufe0f",
    "an emoji selector at the start": "\ufe0fTo learn",
}
HONEST_TEXTS: dict[str, str] = {
    "accents and symbols": "Größe ≥ 1 → été, “why”?",
    "a no-break space": "10\u00a0km",
    "Arabic and Hebrew": "تعلم ללמוד",
    "a joiner in Persian": "می\u200cخواهم",
    "a joiner in Hindi": "क्\u200dष",
    "an emoji of several": "\U0001f469\U0001f3fd\u200d\u2764\ufe0f\u200d\U0001f468",
    "Chinese": "学习",
    "quotation marks and a backslash": '"quoted\\"',
}

# Changes to a record of the campaign "all features sampled".
SECRET = "31337"  # noqa: S105
MISTAKES: dict[str, dict[str, Any]] = {
    "a number out of range": {"age": 31337},
    "text where a number is asked": {"age": f"x{SECRET}"},
    "a bool where a number is asked": {"age": True},
    "a list where a number is asked": {"age": [31337]},
    "not a number": {"age": float("nan")},
    "an endless number": {"weight": "Infinity"},
    "a huge number": {"age": 31337 * 10**5000},
    "a number that no double holds": {"age": f"{SECRET}e400"},
    "an undeclared value": {"city": SECRET},
    "an undeclared number": {"city": 31337},
    "a huge integer for a value": {"city": 31337 * 10**5000},
    "nothing where a value is asked": {"city": None},
    "an object where a value is asked": {"city": {"name": SECRET}},
    "an undeclared class": {"label": SECRET},
}
