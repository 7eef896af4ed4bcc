"""Secrets of a collection: random texts that name their use and end with a checksum.

A secret that a person made up is refused, because its checksum is wrong, except with a probability of 2^-32. So is a
secret of another use: a key of participants' tokens is not the owner's token.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets

_RANDOM_BYTES, _CHECKSUM_BYTES = 32, 4


def new_secret(use: str) -> str:
    """Return a new secret for a use, one word: 256 random bits and a checksum, as URL-safe text.

    >>> len(new_secret("owner")), use_of(new_secret("owner"))
    (54, 'owner')
    """
    random = secrets.token_bytes(_RANDOM_BYTES)
    return f"{use}_{base64.urlsafe_b64encode(random + _checksum(use, random)).decode()}"


def use_of(text: str) -> str | None:
    """Return the use for which `new_secret` made the text; None if it made no such text.

    >>> use_of(new_secret("key")), use_of("admin123admin123admin123")
    ('key', None)
    """
    use, _, body = text.partition("_")
    if not re.fullmatch("[A-Za-z0-9_-]{48}", body):
        return None
    content = base64.urlsafe_b64decode(body)
    return use if content[_RANDOM_BYTES:] == _checksum(use, content[:_RANDOM_BYTES]) else None


def _checksum(use: str, random: bytes) -> bytes:
    return hashlib.sha256(f"veilgraph {use}".encode() + random).digest()[:_CHECKSUM_BYTES]
