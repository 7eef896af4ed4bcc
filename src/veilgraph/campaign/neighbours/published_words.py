"""What is published before a wave about private neighbours, in words."""

from __future__ import annotations

from veilgraph.privacy.plain_text import counted


def published_in_words(nodes: int, *, has_table: bool) -> list[str]:
    """Return sentences about the files that are published before people answer about their neighbours.

    Args:
        nodes: number of all people.
        has_table: whether a belief table is published, or the file of people alone.
    """
    people = counted(nodes, "person", "people")
    if not has_table:
        return [
            "Before the wave one file is published for everyone, whole: by it everyone can check whether an id is "
            f"among the {people}. Nothing else about them is published. What was published cannot be taken back."
        ]
    return [
        "Before each wave two files are published for everyone, whole: one by which everyone can check whether an "
        f"id is among the {people}, and one that says for each of them what the reports so far make likely about "
        "their class.",
        "Everyone who reads the second sees by name who has taken part, and what was reported for them, changed "
        "at random as it was; and who compares two of them sees who withdrew in between. It is computed from such "
        "reports alone, so the figures here hold for all who read it. What was published cannot be taken back.",
        "Both are given out whole, so that nobody learns whom a device looks up.",
    ]
