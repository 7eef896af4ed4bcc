"""Processes of one run: how they meet, what they exchange, and work in a process of its own."""
