"""float32 is float32 here, as in a server: NVIDIA's libraries read this variable when they are loaded."""

import os

os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")
