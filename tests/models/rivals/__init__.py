"""Tests of models, rivals."""
