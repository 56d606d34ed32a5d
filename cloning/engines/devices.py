"""Which devices this machine offers to the engines."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Device:
    """A device by torch's name for it; `fault` says why it cannot be used, empty where it can."""

    id: str
    name: str
    memory_bytes: int | None
    fault: str = ""


def devices() -> list[Device]:
    """The CPU, then every CUDA device that the driver shows."""
    found = [Device("cpu", f"{torch.get_num_threads()} threads", None)]
    for i in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(i)
        capability = f"sm_{properties.major}{properties.minor}"
        built = torch.cuda.get_arch_list()
        # Kernels of an older generation run on a newer device of the same major version.
        runs = any(a.startswith(f"sm_{properties.major}") for a in built)
        fault = "" if runs else f"torch was built for {', '.join(built)}, the device has {capability}"
        found.append(Device(f"cuda:{i}", f"{properties.name} ({capability})", properties.total_memory, fault))
    return found


def bound_memory(device: torch.device, n_bytes: int) -> None:
    """From now on torch allocates no more than this on a CUDA device in this process; what needs more fails alone."""
    total = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, n_bytes / total), device)


def use_full_float32() -> None:
    """From now on float32 is float32 in this process: by default torch rounds what a convolution reads to 10 bits."""
    torch.backends.cudnn.allow_tf32 = False
