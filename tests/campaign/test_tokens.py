"""A token opens one node of one campaign under one key."""

from __future__ import annotations

import base64
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilgraph.campaign.made_secrets import new_secret
from veilgraph.campaign.tokens import check_key, check_token, new_key, token_for
from veilgraph.errors import RunError

KEY = "k" * 43
ids = st.text(alphabet="0123456789abcdef", min_size=1, max_size=64)
nodes = st.text(min_size=1, max_size=20).filter(lambda node: "\0" not in node)


def test_a_token_is_the_hmac_that_the_documentation_says() -> None:
    digest = hmac.digest(KEY.encode(), b"veilgraph participant token 1\0c0ffee\0u17", "sha256")
    assert token_for(KEY, "c0ffee", "u17") == base64.urlsafe_b64encode(digest).decode().rstrip("=")


@given(campaign=ids, node=nodes, other_campaign=ids, other_node=nodes)
def test_a_token_opens_its_own_node_and_no_other(
    campaign: str, node: str, other_campaign: str, other_node: str
) -> None:
    token = token_for(KEY, campaign, node)
    assert check_token(KEY, campaign, node, token)
    assert not check_token(new_key(), campaign, node, token)
    same = (campaign, node) == (other_campaign, other_node)
    assert check_token(KEY, other_campaign, other_node, token) == same


@given(token=st.text(max_size=60))
def test_anything_else_is_refused_without_an_error(token: str) -> None:
    assert not check_token(KEY, "c0ffee", "u17", token)
    assert not check_token([], "c0ffee", "u17", token)


def test_while_keys_are_rotated_any_of_them_is_accepted() -> None:
    old, new = new_key(), new_key()
    assert check_token((new, old), "c", "u", token_for(old, "c", "u"))
    assert check_token((new, old), "c", "u", token_for(new, "c", "u"))
    assert not check_token((new,), "c", "u", token_for(old, "c", "u"))


def test_an_apostrophe_of_a_table_before_a_token_is_ignored() -> None:
    token = token_for(KEY, "c0ffee", "u17")
    assert check_token(KEY, "c0ffee", "u17", f"'{token}")
    assert not check_token(KEY, "c0ffee", "u17", f"''{token}")
    assert not check_token(KEY, "c0ffee", "u18", f"'{token}")


def test_comparison_takes_the_same_time_wherever_tokens_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return True

    monkeypatch.setattr("veilgraph.campaign.tokens.hmac.compare_digest", compare)
    check_token([KEY, "l" * 43], "c", "u", "t")
    assert [b for _, b in compared] == [b"t", b"t"]


@pytest.mark.parametrize("key", ["", "short", "é" * 54, "k" * 54, "key_" + "admin123" * 6])
def test_a_key_that_could_be_guessed_is_refused(key: str) -> None:
    with pytest.raises(RunError, match="no key that veilgraph made"):
        check_key(key)


def test_a_token_of_a_role_is_no_key() -> None:
    with pytest.raises(RunError, match="this is the token of the owner, which cannot be a key too"):
        check_key(new_secret("owner"))


def test_a_fresh_key_is_accepted() -> None:
    assert check_key(new_key())
