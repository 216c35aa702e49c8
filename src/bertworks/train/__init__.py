"""Training: the loop (a generator of steps), optimisers, checkpoints; and, above them, runs, recipes and reports."""
