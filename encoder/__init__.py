"""From uploaded bytes to a speaker embedding: decoding, voice activity, quality and the d-vector network."""
