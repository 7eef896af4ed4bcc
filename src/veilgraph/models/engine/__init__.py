"""How many GNNs are trained at once."""
