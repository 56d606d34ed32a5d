"""From text and a d-vector to speech: the text front end, the YourTTS networks, their engines and training."""
