"""Tests of the grids and their report."""
