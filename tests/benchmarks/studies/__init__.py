"""Tests of benchmarks, studies."""
