"""Environments: built-in ones as pure JAX functions, and anything Gymnasium knows.

Importing this package registers the built-in ids with Gymnasium.
"""

from penfac.envs.registration import register_envs

register_envs()
