"""Our voices in the formats of other programs."""
