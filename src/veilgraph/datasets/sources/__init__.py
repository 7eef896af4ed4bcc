"""Converters: the bytes of original files to the one format on disk."""

from collections.abc import Callable, Mapping

from veilgraph.datasets.archive import Archive
from veilgraph.datasets.sources import graph2gauss, musae, paper_authors, planetoid

__all__ = ["CONVERTERS", "Converter"]

Converter = Callable[[str, Mapping[str, bytes]], Archive]
"""From the name of a data set and the bytes of its files, by part."""

CONVERTERS: Mapping[str, Converter] = {
    "planetoid": planetoid.convert,
    "graph2gauss": graph2gauss.convert,
    "musae-facebook": musae.convert_facebook,
    "musae-twitch": musae.convert_twitch,
    "german": paper_authors.convert_german,
    "student": paper_authors.convert_student,
}
"""By the name of the format in the catalogue."""
