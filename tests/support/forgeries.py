"""Forged campaigns and mistaken records, which every client must refuse."""

from __future__ import annotations

import json
import math
from typing import Any

from veilgraph.campaign import Campaign
from veilgraph.privacy.strict_json import canonical_json, content_id

RECORD: dict[str, Any] = {f"x{i}": i % 2 for i in range(8)} | {"ill": "yes"}


def rewritten(campaign: Campaign, **changes: Any) -> str:
    """Return a campaign with changed content and a valid id, as a forger who knows the format would write it.

    A path begins with the part, and one without is inside what reports are bound to. The format is in both.
    """
    document = json.loads(campaign.to_json())
    changes = {
        path if path.split("__")[0] in ("bound", "notice", "format") else f"bound__{path}": value
        for path, value in changes.items()
    }
    for path, value in changes.items():
        *parents, last = path.split("__")
        inner = document
        for key in parents:
            inner = inner[int(key) if key.isdigit() else key]
        inner[int(last) if last.isdigit() else last] = value
    return canonical_json({**document, "id": content_id(document["bound"])})


def _matching(epsilon: float) -> dict[str, Any]:
    return {"guarantee__user_level__label": repr(epsilon), "guarantee__user_level__total": repr(epsilon)}


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
    "another format": {"format": 4},
    "a wave's format": {"format": 4, "bound__format": 4},
    "an earlier format": {"format": 2, "bound__format": 2},
    "no date": {"notice__closes": "never"},
    "NaN for an epsilon": {"guarantee__user_level__total": "NaN"},
    "infinity for an epsilon": {"guarantee__user_level__total": "Infinity"},
    "merged columns that are not binary": {"schema__group": 8, "schema__columns__0__values": ["a", "b", "c"]},
    "a column without values": {"schema__columns__0__values": []},
    "a column twice": {"schema__columns__0__name": "x1"},
    "a label named like a column": {"schema__label__name": "x1"},
}

_HALF = 2**52
# Changes to "a set of 6 of 18 classes". With w = 6 and k = 18, epsilon is ln(2 * inside / outside).
SET_FORGERIES: dict[str, dict[str, Any]] = {
    "an understated epsilon of the label": {"guarantee__user_level__label": "0.5"},
    "an understated total": {"guarantee__user_level__total": "0.5"},
    "words left over": {"label__table__outside": 1},
    "more words than there are": {"label__table__inside": 2**53 - 1},
    # With the guarantee that the words would give, so that nothing but their sum is wrong.
    "words left over, with a matching guarantee": {
        "label__table__inside": _HALF,
        "label__table__outside": _HALF - 1,
        **_matching(math.log(2 * _HALF / (_HALF - 1))),
    },
    "one word too many, with a matching guarantee": {
        "label__table__inside": _HALF,
        "label__table__outside": _HALF + 1,
        **_matching(math.log(2 * _HALF / (_HALF + 1))),
    },
    "a set that never leaves the truth out": {"label__table__inside": 2**53, "label__table__outside": 0},
    "a set that avoids the truth, with a matching guarantee": {
        "label__table__inside": 2**51,
        "label__table__outside": 2**53 - 2**51,
        **_matching(math.log(2 / 3)),
    },
    "another size than the table's": {"label__size": 5},
    "another size in the table": {"label__table__size": 5},
    "a smaller set with the same words": {"label__size": 1, "label__table__size": 1},
    "a set of all classes": {"label__size": 18, "label__table__size": 18},
    "a set of more than all classes": {"label__size": 19, "label__table__size": 19},
    "a set of none": {"label__size": 0, "label__table__size": 0},
    "a size that is text": {"label__size": "6", "label__table__size": "6"},
    "a size that is true": {"label__size": True, "label__table__size": True},
    "a table for another number of classes": {"label__table__domain_size": 17},
    "one class less": {"schema__label__classes": [f"c{i}" for i in range(17)]},
    "a table that tells more": {"label__table__inside": 2**53 - 1, "label__table__outside": 1},
    "sets by the name of another mechanism": {"label__mechanism": "grr"},
    "a table of randomized response": {"label__table": {"domain_size": 18, "true": 2**53 - 17 * 2**48, "other": 2**48}},
    "an unknown key": {"label__sampled": 1},
    "merged columns, and no columns": {"schema__group": 2},
    "features of no columns": {
        "features": {"mechanism": "grr_fs", "epsilon": "1", "sampled": 1, "tables": []},
    },
}
# Changes to "joint features of mixed domains": 3 of 5 features with 3, 5, 2, 4 and 3 values.
JOINT_FORGERIES: dict[str, dict[str, Any]] = {
    "an understated epsilon of the features": {"guarantee__user_level__features": "0.4"},
    "an understated attribute level": {"guarantee__attribute_level__1": "0.4"},
    "the attribute level of GRR-FS": {"guarantee__attribute_level": ["0.4"] * 5},
    "fewer features sampled": {"features__sampled": 2},
    "more features sampled": {"features__sampled": 4},
    "more features sampled than there are": {"features__sampled": 6},
    "a table that tells more": {"features__tables__0": {"domain_size": 18, "true": 2**53 - 17, "other": 1}},
    "words left over": {"features__tables__0__true": 2**52},
    "a table for another joint domain": {"features__tables__0__domain_size": 19},
    "a table left out": {"features__tables": []},
    "one table for each feature": {"features__mechanism": "grr_fs"},
    "another mechanism": {"features__mechanism": "joint"},
}

# Changes to "texts and retention".
NOTICE_FORGERIES: dict[str, dict[str, Any]] = {
    "an unknown key": {"notice__extra": 1},
    "an unknown key of the bound part": {"bound__extra": 1},
    "rounds that no client knows": {"bound__rounds": {"count": 2}},
    "a round without rounds": {"notice__round": 1},
    "another format inside": {"bound__format": 2},
    "true for a format inside": {"bound__format": True},
    "another format outside": {"format": 2},
    "no nonce": {"bound__nonce": None},
    "an empty nonce": {"bound__nonce": ""},
    "a nonce that is a number": {"bound__nonce": 10**31},
    "a nonce of 31 digits": {"bound__nonce": "0" * 31},
    "a nonce of 33 digits": {"bound__nonce": "0" * 33},
    "a nonce with a line break": {"bound__nonce": "0" * 32 + "\n"},
    "a nonce in capital letters": {"bound__nonce": "A" * 32},
    "a nonce in Arabic digits": {"bound__nonce": "\u0660" * 32},
    "a nonce in a list": {"bound__nonce": ["0" * 32]},
    "version 0": {"notice__version": 0},
    "a version that is text": {"notice__version": "1"},
    "no purpose": {"notice__purpose": ""},
    "no date": {"notice__closes": None},
    "a retention before the closing date": {"notice__retention": "2099-12-31T23:59:59Z"},
    "a retention that is no date": {"notice__retention": "2100-02-30T00:00:00Z"},
    "a retention that is a number": {"notice__retention": 2200},
    "texts that are a list": {"notice__texts": []},
    "texts that are nothing": {"notice__texts": None},
    "a language that is no tag": {"notice__texts": {"German": {}}, "notice__language": "German"},
    "a language with a line break": {"notice__texts": {"de\n": {}}, "notice__language": "de\n"},
    "a language by an inherited name": {"notice__texts": {"__proto__": {}}, "notice__language": "__proto__"},
    "a first language without texts": {"notice__language": "fr"},
    "no first language": {"notice__language": None},
    "no public column where some are stated": {"notice__public": {}},
    "public columns that are nothing": {"notice__public": None},
    "public columns in a list": {"notice__public": ["village"]},
    "a public column of an unknown kind": {"notice__public": {"village": "colour"}},
    "a public column without a name": {"notice__public": {"": None}},
    "a public column with a line break": {"notice__public": {"village\n": None}},
    "two public columns that look alike": {"notice__public": {"village": None, "village ": None}},
    "a first language in a list": {"notice__language": ["de"]},
    "a first language by an inherited name": {"notice__language": "toString"},
    "a first language and no texts": {"notice__texts": {}},
    "a translation that is text": {"notice__texts": {"de": "x"}},
    "a translation of nothing": {"notice__texts": {"de": {"guarantee": "none"}}},
    "an empty translation": {"notice__texts": {"de": {"purpose": ""}}},
    "a misleading translation": {"notice__texts": {"de": {"purpose": "a\u202eb"}}},
    "questions that are nothing": {"notice__texts": {"de": {"questions": None}}},
    "a question that is not asked": {"notice__texts": {"de": {"questions": {"shoe": {}}}}},
    "a question by an inherited name": {"notice__texts": {"de": {"questions": {"toString": {}}}}},
    "an unknown part of a question": {"notice__texts": {"de": {"questions": {"city": {"hint": "x"}}}}},
    "a question's text that is no text": {"notice__texts": {"de": {"questions": {"city": {"text": 7}}}}},
    "answers that are a list": {"notice__texts": {"de": {"questions": {"city": {"answers": []}}}}},
    "an undeclared answer": {"notice__texts": {"de": {"questions": {"city": {"answers": {"bern": "Bern"}}}}}},
    "an answer that is nothing": {"notice__texts": {"de": {"questions": {"city": {"answers": {"oslo": None}}}}}},
    "answers of numbers": {"notice__texts": {"de": {"questions": {"age": {"answers": {"0": "x"}}}}}},
    "two answers alike": {"notice__texts": {"de": {"questions": {"city": {"answers": {"oslo": "x", "rome": "x"}}}}}},
    "an answer like another's own": {"notice__texts": {"de": {"questions": {"city": {"answers": {"oslo": "rome"}}}}}},
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
    "a note without a head": "To learn\U0001d159",
    "a joiner of hieroglyphs": "To learn\U00013430",
    "a joiner after ASCII": "To\u200dlearn",
    "a joiner at the end": "\u00e9\u200c",
    "a joiner before ASCII": "\u00e9\u200dx",
    "an emoji selector after ASCII": "To learn\ufe0f",
    "an emoji selector at the start": "\ufe0fTo learn",
}
# Pairs of texts that are one answer, and of texts that a reader tells apart.
ALIKE: dict[str, tuple[str, str]] = {
    "a space at the end": ("ill", "ill "),
    "a space at the start": ("ill", " ill"),
    "two spaces": ("very ill", "very  ill"),
    "an ideographic space": ("very ill", "very\u3000ill"),
    "an ideographic space at the end": ("ill", "ill\u3000"),
    "a no-break space": ("very ill", "very\xa0ill"),
    "a thin space beside a space": ("very ill", "very \u2009ill"),
    "an Ogham space": ("very ill", "very\u1680ill"),
    "a blank braille pattern": ("ill", "ill\u2800"),
    "composed and decomposed": ("\xe9tudes", "e\u0301tudes"),
    "two accents in either order": ("a\u0323\u0302", "a\u0302\u0323"),
    "Hangul syllables and letters": ("\ud55c", "\u1112\u1161\u11ab"),
    "full width": ("ill", "\uff49\uff4c\uff4c"),
    "a ligature": ("flu", "\ufb02u"),
    "an angstrom sign": ("\xc5", "\u212b"),
    "a joiner between letters": ("\xe4\xe4", "\xe4\u200d\xe4"),
    "a non-joiner between letters": ("\u0645\u06cc\u062e", "\u0645\u06cc\u200c\u062e"),
    "an emoji selector": ("\u2764", "\u2764\ufe0f"),
    "a text selector": ("\u2764", "\u2764\ufe0e"),
    "nothing and a space": ("", " "),
    "a second dot above an i": ("ill", "i\u0307ll"),
    "a second dot above a j": ("jaune", "j\u0307aune"),
    "a dot above a dotless i": ("ill", "\u0131\u0307ll"),
    "dots above two letters": ("will ill", "wi\u0307ll i\u0307ll"),
    "mathematical letters": ("ill", "\U0001d422\U0001d425\U0001d425"),
}
APART: dict[str, tuple[str, str]] = {
    "another word": ("ill", "well"),
    "upper case": ("Aa", "aa"),
    "an accent": ("etudes", "\xe9tudes"),
    "a space inside": ("not ill", "notill"),
    "another sign": ("<1", "\u22651"),
    "two emoji": ("\U0001f600", "\U0001f621"),
    "a dotless i": ("i", "\u0131"),
    "a dot above another letter": ("z", "z\u0307"),
    "an accent above an i": ("i", "\u00ed"),
    "sharp s": ("Ma\xdf", "Mass"),
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
    "an object where a value is asked": {"city": {"name": SECRET}},
    "an undeclared class": {"label": SECRET},
}
