"""Tests of `veilgraph.graph`."""
