"""Tests of benchmarks, performance."""
