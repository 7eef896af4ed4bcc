"""Data sets and budgets of results as text for people."""

from __future__ import annotations

from veilgraph.datasets.registry import short_name
from veilgraph.experiments.results import Row

_DATASET_NAMES = {
    "citeseer": "Citeseer",
    "cora": "Cora",
    "dblp": "DBLP",
    "facebook": "Facebook",
    "german": "German",
    "student": "Student",
    "pubmed": "Pubmed",
    "twitch_engb": "Twitch",
    "lastfm": "LastFM",
    "flickr": "Flickr",
}


def dataset_name(key: str) -> str:
    """Return the paper's spelling of a data set; another one keeps its name, or that of its file or folder."""
    return _DATASET_NAMES.get(key, short_name(key))


def budget_text(row: Row) -> str:
    """Return the requested budgets of a row.

    >>> from types import SimpleNamespace
    >>> budget_text(SimpleNamespace(epsilon_x=0.1, epsilon_y=3.0))
    'ε_x = 0.1, ε_y = 3'
    >>> budget_text(SimpleNamespace(epsilon_x=None, epsilon_y=None))
    'not private'
    """
    named = (("ε_x", row.epsilon_x), ("ε_y", row.epsilon_y))
    return ", ".join(f"{name} = {value:g}" for name, value in named if value is not None) or "not private"
