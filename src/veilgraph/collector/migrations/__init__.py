"""Every version of the store's tables, and the way from each to the next."""
