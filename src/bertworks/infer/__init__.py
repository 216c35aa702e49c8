"""Using a model: embeddings, cloze, attention."""
