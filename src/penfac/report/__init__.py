"""The report of a study: figures, a page, Markdown; nothing here imports JAX."""
