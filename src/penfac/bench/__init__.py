"""The benchmarks of `penfac bench`: every figure is a ratio measured in one run."""
