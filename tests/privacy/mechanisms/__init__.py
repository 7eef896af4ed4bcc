"""Tests of privacy, mechanisms."""
