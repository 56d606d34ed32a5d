"""Building blocks of the networks. Activations are (B, C, T) by shape and channels-last in memory."""
