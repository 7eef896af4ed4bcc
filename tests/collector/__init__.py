"""The collector, from its tables to its pages."""
