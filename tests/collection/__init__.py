"""Tests of the folder of a collection."""
