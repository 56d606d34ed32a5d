"""The thread in which the networks are computed on a CPU."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


class Lane:
    """One thread that computes, with its helpers; all other threads of the process compute without any from then on.

    OpenMP gives each thread that computes helpers of its own, which it keeps; once there are more of them than cores,
    all sleep after each operation. So the lane is made before anything is computed.
    Source: docs/decisions/0012-one-lane.md; GCC's libgomp, the manual on GOMP_SPINCOUNT.
    """

    def __init__(self, n_threads: int) -> None:
        self._thread = ThreadPoolExecutor(1, "networks", partial(torch.set_num_threads, n_threads))
        # The number becomes that of all threads which have not computed yet, so the lane is given its own first.
        self._thread.submit(torch.get_num_threads).result()
        torch.set_num_threads(1)

    def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `work` gives, computed in the lane; calls from several threads take turns."""
        return self._thread.submit(work, *args, **kwargs).result()


@cache
def lane_of(n_threads: int) -> Lane:
    """The lane of this process; all voices share it."""
    return Lane(n_threads)
