"""The participant's client: it turns a private record into one randomized report, with the standard library alone."""

from veilgraph.client.participant import answer, answered, randomize, send, verify

__all__ = ["answer", "answered", "randomize", "send", "verify"]
