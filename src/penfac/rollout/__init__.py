"""Collecting experience: the only layer that sees an environment and a policy together."""
