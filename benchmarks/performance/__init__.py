"""How fast the package is, as ratios within one run."""
