"""Text to vectors: the embedded sentence encoder, its builder, and an embeddings endpoint in its place."""
