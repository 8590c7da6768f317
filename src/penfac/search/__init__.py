"""`penfac tune`: a random search with successive halving."""
