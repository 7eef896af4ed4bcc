"""Tests of the studies beside the package, on sizes that take seconds."""
