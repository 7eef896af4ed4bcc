"""Tests of models, engine."""
