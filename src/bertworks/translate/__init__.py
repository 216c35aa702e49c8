"""Training translators, and what belongs to it: settings, the run, its report, and pictures of alignments."""
