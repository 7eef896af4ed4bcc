"""From collected reports to a model folder, and from a model folder to predictions."""
