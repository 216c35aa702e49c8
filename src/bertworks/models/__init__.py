"""Models as values of one configuration."""
