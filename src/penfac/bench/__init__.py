"""What `penfac bench` runs: every figure is a ratio measured in one run."""
