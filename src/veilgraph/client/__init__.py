"""The participant's client: it turns a private record into one randomized report, with the standard library alone."""

from veilgraph.client.participant import (
    DrawnReport,
    answer,
    answer_neighbours,
    answered,
    check_receipt,
    fetch,
    has_reported,
    ledger,
    randomize,
    send,
    set_limit,
    verify,
    withdraw,
)

__all__ = [
    "DrawnReport",
    "answer",
    "answer_neighbours",
    "answered",
    "check_receipt",
    "fetch",
    "has_reported",
    "ledger",
    "randomize",
    "send",
    "set_limit",
    "verify",
    "withdraw",
]
