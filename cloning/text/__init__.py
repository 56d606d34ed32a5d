"""From text to token ids: markup, folding, readings, sentences, phonemes and symbols."""
