"""A collection is a folder: campaign, people and links, secrets, reports and models. Commands take the folder."""

from veilgraph.collection.begin import begin, revise
from veilgraph.collection.folder import Collection
from veilgraph.collection.settings import Settings

__all__ = ["Collection", "Settings", "begin", "revise"]
