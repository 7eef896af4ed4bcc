"""What makes the documentation: the extension for docstrings, and the page of the command line."""
