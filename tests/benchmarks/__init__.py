"""The benchmarks measure what they say, on sizes that take seconds."""
