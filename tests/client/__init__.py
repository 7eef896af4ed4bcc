"""Clients: common vectors, and what each refuses."""
