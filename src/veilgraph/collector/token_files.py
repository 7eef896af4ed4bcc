"""Files of tokens and keys that are made anew: one secret is replaced, and the others stay."""

from __future__ import annotations

from pathlib import Path

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign.made_secrets import use_of
from veilgraph.campaign.tokens import new_key, read_keys
from veilgraph.collector.auth import Role, new_role_token, read_role_tokens
from veilgraph.errors import RunError


def replace_role_token(path: Path, role: Role) -> bool:
    """Write a new token of a role, and return whether there was none; a file with something else is refused.

    Args:
        path: file of the owner's token alone, or of the tokens of other roles, .toml.
        role: the role.
    """
    made, exists = new_role_token(role), path.exists()
    if role is Role.OWNER:
        if exists and use_of(path.read_text(encoding="utf-8-sig").strip()) != role.value:
            raise RunError(f"{path} holds something else than the token of the owner: name another file")
        write_atomically(path, made + "\n")
        return not exists
    before = read_role_tokens(path) if exists else {}
    tokens = before | {role: made}
    write_atomically(path, "".join(f'{known.value} = "{token}"\n' for known, token in tokens.items()))
    return role not in before


def add_key(path: Path) -> int:
    """Write a new key before those in a file, which is made if it does not exist; return the number of keys."""
    keys = [new_key(), *(read_keys(path) if path.exists() else [])]
    write_atomically(path, "".join(f"{key}\n" for key in keys))
    return len(keys)
