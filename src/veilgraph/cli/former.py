"""Former names of commands and options: each typed one is answered by a sentence that says what replaced it."""

from __future__ import annotations

from collections.abc import Sequence

FORMER: dict[str, str] = {
    "audit": "use 'veilgraph account --audit'",
    "campaign audit-log": "use 'veilgraph audit-log FOLDER'",
    "campaign check": "use 'veilgraph review FOLDER'",
    "campaign missing": "use 'veilgraph invite FOLDER --remind'",
    "campaign new": "use 'veilgraph init FOLDER', with --set epsilon_y=... where --epsilon is not enough",
    "campaign progress": "use 'veilgraph status FOLDER'",
    "campaign purge": "use 'veilgraph purge FOLDER'",
    "campaign receipt": "use 'veilgraph receipt RECEIPT --keys-file FILE'",
    "campaign revise": "'veilgraph close', 'veilgraph extend' and 'veilgraph open-round' change dates and rounds, and "
    "'veilgraph init FOLDER' takes up texts that you changed in its notice.toml",
    "campaign role-token": "use 'veilgraph rotate-token FOLDER ROLE'",
    "campaign show": "use 'veilgraph review FOLDER'",
    "campaign summary": "use 'veilgraph review FOLDER', which writes summary, consent text and impact assessment",
    "campaign tokens": "use 'veilgraph invite FOLDER --url https://...'",
    "campaign withdraw": "use 'veilgraph withdraw FOLDER NODE'",
    "campaign withdrawals": "use 'veilgraph backup FOLDER COPIES --list'",
    "card": "use 'veilgraph train --card MODEL'",
    "data": "use 'veilgraph lab data', with names to describe them, and --fetch to download them",
    "graph": "use 'veilgraph shard', or 'veilgraph lab generate' for a generated graph",
    "ledger": "use 'veilgraph receipt', and 'veilgraph randomize --limit' to set a limit",
    "neighbours plan": "use 'veilgraph plan --private-neighbours'",
    "neighbours publish": "use 'veilgraph open-round FOLDER'",
    "neighbours run": "use 'veilgraph run --private-neighbours'",
    "paper": "use 'veilgraph lab paper', with --report for the page of what is finished",
    "receipt check": "use 'veilgraph receipt RECEIPT --url URL'",
    "schema propose": "use 'veilgraph review SAMPLE.csv --label NAME --out schema.toml'",
    "schema show": "use 'veilgraph review schema.toml'",
    "submit --store": "use 'veilgraph submit --device-folder'",
    "randomize --store": "use 'veilgraph randomize --device-folder'",
    "receipt --store": "use 'veilgraph receipt --device-folder'",
    "run --edges": "use 'veilgraph run --graph'",
    "serve --campaign": "use 'veilgraph serve CAMPAIGN', with the campaign in the place of FOLDER",
    "serve --campaigns": "use 'veilgraph serve CAMPAIGNS.toml', or 'veilgraph serve FOLDER FOLDER'",
    "shard --campaign": "use 'veilgraph shard CAMPAIGN', with the campaign in the place of FOLDER",
    "train --campaign": "use 'veilgraph train CAMPAIGN', with the campaign in the place of FOLDER",
}
"""What does now what a command or an option did, as the rest of a sentence, by the former name without 'veilgraph'."""


def what_replaced(arguments: Sequence[str]) -> str | None:
    """Return a sentence that says what replaced a command or an option; None if the arguments name none of them.

    Args:
        arguments: the arguments after the name of the program.

    >>> what_replaced(["campaign", "missing", "flu.json"])
    "'veilgraph campaign missing' is not there any more: use 'veilgraph invite FOLDER --remind'"
    >>> what_replaced(["invite"])
    """
    words = list(arguments)
    while words[:1] == ["--import"]:
        words = words[2:]
    typed = [
        *(" ".join(words[:length]) for length in (2, 1)),
        *(f"{words[0]} {each.partition('=')[0]}" for each in words[1:]),
    ]
    name = next((name for name in typed if name in FORMER), None)
    return None if name is None else f"'veilgraph {name}' is not there any more: {FORMER[name]}"
