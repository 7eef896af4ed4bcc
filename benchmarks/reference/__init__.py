"""What the package is compared with: the paper's loops as written, and its own numbers from before a change."""
