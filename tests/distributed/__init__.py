"""Tests of `veilgraph.distributed`."""
