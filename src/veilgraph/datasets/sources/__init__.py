"""Converters from original files to `Archive`, one module for each kind of source."""

from collections.abc import Callable, Mapping

from veilgraph.datasets.archive import Archive
from veilgraph.datasets.sources import graph2gauss, musae, paper_authors, planetoid

__all__ = ["CONVERTERS", "Converter"]

Converter = Callable[[str, Mapping[str, bytes]], Archive]
"""Function from the name of a data set and the bytes of its files, by part, to an archive."""

CONVERTERS: Mapping[str, Converter] = {
    "planetoid": planetoid.convert,
    "graph2gauss": graph2gauss.convert,
    "musae-facebook": musae.convert_facebook,
    "musae-twitch": musae.convert_twitch,
    "german": paper_authors.convert_german,
    "student": paper_authors.convert_student,
}
"""Converters by the name of the format in the catalogue."""
