"""Tests of models, veil."""
