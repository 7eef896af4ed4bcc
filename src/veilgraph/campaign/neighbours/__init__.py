"""Private neighbours: waves that ask people about the people whom they know, and the server has no public graph.

`wave` says what a wave asks, as every kind of campaign does. A series is the campaign that asks for the label, then one
document for each wave. Nothing outside this folder depends on it but its line in `veilgraph.campaign.document`, and the
commands, sources and methods that are about private neighbours alone.
"""

from veilgraph.campaign.neighbours.series_label import SeriesLabel
from veilgraph.campaign.neighbours.wave import NeighbourWave

KINDS = (NeighbourWave, SeriesLabel)
"""What the documents of a series ask, for the registry of all kinds."""
