"""The collector: takes in reports over HTTP, keeps each exactly once, and shows its owner what came in."""
