"""A participant's device: a private record in, one randomized report out. The standard library is enough."""

from veilgraph.client.participant import answer, randomize, send, verify

__all__ = ["answer", "randomize", "send", "verify"]
