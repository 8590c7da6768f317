"""Environments: built-in ones as pure JAX functions, and anything Gymnasium knows."""
