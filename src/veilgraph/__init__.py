"""Graph neural networks on data that was randomized before anyone collected it."""
