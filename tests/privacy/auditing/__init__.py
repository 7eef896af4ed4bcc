"""Tests of privacy, auditing."""
