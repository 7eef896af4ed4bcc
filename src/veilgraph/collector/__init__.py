"""The collector: an HTTP service that stores each report exactly once, and shows its owner statistics of them."""
