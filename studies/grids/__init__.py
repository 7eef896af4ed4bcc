"""Grids of fits that go beyond the paper: what is compared, how it is run, and the pages about it."""
