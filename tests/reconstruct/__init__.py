"""Tests of `veilgraph.reconstruct`."""
