"""Former names of commands: each typed one is answered by a sentence that says what replaced it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

FORMER: Mapping[str, str] = {
    "campaign receipt": "use 'veilgraph receipt RECEIPT --keys-file FILE'",
    "card": "use 'veilgraph train --card MODEL'",
    "data": "use 'veilgraph lab data', with names to describe them, and --fetch to download them",
    "graph": "use 'veilgraph shard', or 'veilgraph lab generate' for a generated graph",
    "ledger": "use 'veilgraph receipt', and 'veilgraph randomize --limit' to set a limit",
    "paper": "use 'veilgraph lab paper', with --report for the page of what is finished",
    "receipt check": "use 'veilgraph receipt RECEIPT --url URL'",
    "campaign revise": "'veilgraph close', 'veilgraph extend' and 'veilgraph open-round' change dates and rounds, and "
    "'veilgraph init FOLDER' takes up texts that you changed in its notice.toml",
    "neighbours publish": "use 'veilgraph open-round FOLDER'",
}
"""What does now what a command did, as the rest of a sentence, by the former name without 'veilgraph'."""


def what_replaced(arguments: Sequence[str], former: Mapping[str, str] = FORMER) -> str | None:
    """Return a sentence that says what replaced a command; None if the arguments name no former command.

    Args:
        arguments: the arguments after the name of the program.
        former: what replaced each command.

    >>> former = {"campaign revise": "use 'veilgraph extend FOLDER'"}
    >>> what_replaced(["campaign", "revise", "flu.json"], former)
    "'veilgraph campaign revise' is not there any more: use 'veilgraph extend FOLDER'"
    >>> what_replaced(["campaign", "new"], former)
    """
    words = list(arguments)
    while words[:1] == ["--import"]:
        words = words[2:]
    names = (" ".join(words[:length]) for length in (2, 1))
    name = next((name for name in names if name in former), None)
    return None if name is None else f"'veilgraph {name}' is not there any more: {former[name]}"
