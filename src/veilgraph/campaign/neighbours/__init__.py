"""Private neighbours: waves that ask people about the people whom they know, and the server has no public graph.

`wave` says what a wave asks, as every kind of campaign does. A series is the campaign that asks for the label, then one
document for each wave. Nothing outside this folder depends on it but its line in `veilgraph.campaign.document`, and the
commands, sources and methods that are about private neighbours alone.
"""
