"""Tests of campaigns about private neighbours."""
