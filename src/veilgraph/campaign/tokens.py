"""Node tokens: each authorizes its holder to report for one node, and is made from the collector's secret key.

A token is an HMAC, so the collector stores nothing to check it, and tokens of other nodes, campaigns or keys reveal
nothing about it. It is not part of the report, and has no influence on it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from veilgraph.campaign.made_secrets import new_secret, use_of
from veilgraph.errors import RunError

_USE = "key"
_PURPOSE = b"veilgraph participant token 1"


def new_key() -> str:
    """Return a new secret key: 256 random bits with a checksum, as URL-safe text.

    >>> new_key() != new_key()
    True
    """
    return new_secret(_USE)


def check_key(key: str) -> str:
    """Return `key` if `new_key` made it; refuse another, which could be guessed.

    >>> check_key("hunter2")
    Traceback (most recent call last):
    veilgraph.errors.RunError: this is no key that veilgraph made, or it is altered: run 'veilgraph rotate-token'
    """
    use = use_of(key)
    if use is None:
        raise RunError("this is no key that veilgraph made, or it is altered: run 'veilgraph rotate-token'")
    if use != _USE:
        raise RunError(f"this is the token of the {use}, which cannot be a key too: name the file of keys")
    return key


def read_keys(path: Path) -> list[str]:
    """Read keys from a file, one on each line: the first signs, tokens of each are accepted."""
    try:
        keys = path.read_text(encoding="utf-8-sig").split()
    except (OSError, UnicodeDecodeError):
        raise RunError(f"{path} cannot be read as a file of keys") from None
    if not keys:
        raise RunError(f"{path} holds no key: remove it, and 'veilgraph rotate-token' makes a new one")
    try:
        return [check_key(key) for key in keys]
    except RunError as error:
        raise RunError(f"{path}: {error}") from None


def token_for(key: str, campaign_id: str, node: str) -> str:
    r"""Return the HMAC-SHA256 under `key` of purpose, campaign and node, as base64url without padding.

    A null character separates the parts. Neither an id nor a node's name can hold one, so different pairs of
    campaign and node have different messages.

    >>> len(token_for(new_key(), "5f7f", "u17"))
    43
    """
    message = b"\0".join([_PURPOSE, campaign_id.encode(), node.encode(errors="surrogatepass")])
    return signature_of(key, message)


def signature_of(key: str, message: bytes) -> str:
    """Return the HMAC-SHA256 of a message as base64url without padding."""
    signer = _signer(key).copy()
    signer.update(message)
    return base64.urlsafe_b64encode(signer.digest()).rstrip(b"=").decode()


@lru_cache(maxsize=16)
def _signer(key: str) -> hmac.HMAC:
    """Return the HMAC of an empty message, from which all others of the key go on."""
    return hmac.new(key.encode(), digestmod=hashlib.sha256)


def check_token(key: str | Iterable[str], campaign_id: str, node: str, token: str) -> bool:
    """Return whether `token` is the node's, under `key` or, while keys are rotated, under any of several.

    The comparison takes the same time wherever the first difference is, and every key is tried. An apostrophe before
    the token is ignored: tables of tokens have it before tokens that begin with a minus.

    >>> key = new_key()
    >>> check_token([new_key(), key], "5f7f", "u17", token_for(key, "5f7f", "u17"))
    True
    >>> check_token(key, "5f7f", "u18", token_for(key, "5f7f", "u17"))
    False
    """
    keys = [key] if isinstance(key, str) else list(key)
    given = token.removeprefix("'").encode(errors="replace")
    matches = [hmac.compare_digest(token_for(k, campaign_id, node).encode(), given) for k in keys]
    return any(matches)
