"""Several processes in one run: process group, collective operations on a partitioned graph, worker processes."""
