"""Building blocks: flat keyword arguments, packed batches, no configuration objects."""
