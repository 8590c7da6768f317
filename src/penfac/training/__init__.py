"""From a request to a trained policy: resolve, loop, record, resume."""
