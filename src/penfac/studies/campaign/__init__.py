"""All studies of the paper as one evaluation: planned, run in turn, and told on one page."""
