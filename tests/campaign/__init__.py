"""Tests of campaign."""
