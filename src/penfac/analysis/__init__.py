"""What people ask of a finished run: evaluate, compare, play, card."""
