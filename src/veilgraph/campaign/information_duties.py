"""What people must be told before data about them are collected: the duties of Article 13 GDPR.

A notice has a text for each of them, by language, beside purpose and contact. Which rights people have is said in
general where a campaign is shown; the owner adds what is special.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

RIGHTS = "rights"
REQUIRED = {
    "controller": "the controller, with an address",
    "data_protection_officer": "the data-protection officer, or that there is none",
    "legal_basis": "the legal basis",
    "recipients": "the recipients, and any transfer to other countries",
    "supervisory_authority": "the supervisory authority for complaints",
}
"""Texts that every notice needs, by key, each with what it says."""
DUTIES = (*REQUIRED, RIGHTS)
"""Keys of all texts."""


def information(texts: Mapping[str, Any], language: str) -> dict[str, str]:
    """Return the information of Article 13 in a language; a missing text comes from the first language of the texts.

    >>> information({"en": {"controller": "us", "rights": "ask"}, "de": {"controller": "wir"}}, "de")
    {'controller': 'wir', 'rights': 'ask'}
    """
    said = {**next(iter(texts.values()), {}), **texts.get(language, {})}
    return {key: said[key] for key in DUTIES if key in said}


def missing_information(texts: Mapping[str, Any], retention: datetime | None) -> list[str]:
    """Return the information of Article 13 that a notice lacks, in words.

    Args:
        texts: texts by language; what the first one says is shown in all.
        retention: time after which the reports are deleted; None if there is none.

    >>> said = dict.fromkeys(REQUIRED, "said") | {"legal_basis": "consent"}
    >>> missing_information({"en": said}, None)
    ['when reports are deleted']
    """
    said = information(texts, "")
    missing = [words for key, words in REQUIRED.items() if key not in said]
    return missing + (["when reports are deleted"] if retention is None else [])


def missing_in_words(missing: list[str]) -> list[str]:
    """Return a sentence about what a notice must still say; none if it says everything.

    >>> missing_in_words(["the legal basis"])
    ['Article 13 GDPR wants people to be told more than the notice says: the legal basis.']
    """
    return [f"Article 13 GDPR wants people to be told more than the notice says: {'; '.join(missing)}."] * bool(missing)
