"""Tests of benchmarks, reference."""
