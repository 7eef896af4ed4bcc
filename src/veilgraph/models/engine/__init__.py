"""Training of many GNNs at once."""
