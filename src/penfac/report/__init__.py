"""What a study found, as figures, a page and Markdown. Never imports jax."""
