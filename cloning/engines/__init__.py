"""Ways to run the networks of a voice, behind one contract."""
