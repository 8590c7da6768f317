"""The paper's equations, one pure function each; docs/equations.md is the index."""
