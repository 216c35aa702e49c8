"""Data in and out: streamed readers and resumable, atomic outputs. Nothing here imports torch."""
