"""What a run leaves on disk: its folder, checkpoints, rows, policy and TensorBoard."""
