"""From recordings with transcripts to a voice bundle: corpora, packing, losses and the trainer."""
