"""Several processes in one run: process group, and collective operations on a partitioned graph."""
