"""Communicators of mpi4py, for arrays in host memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI

__all__ = ["MpiComm"]

_OPS = {"sum": MPI.SUM, "max": MPI.MAX, "min": MPI.MIN}
#: Seconds between two looks whether another rank has said something.
_PAUSE = 1e-4


class MpiComm:
    """A communicator of MPI.

    Parameters
    ----------
    comm
        Of mpi4py; messages go through a duplicate, so that they do not meet others.
    """

    name, checks_all, on_stream = "MPI", True, None

    def __init__(self, comm: Any) -> None:
        self._comm = comm.Dup()
        self.rank, self.size = comm.Get_rank(), comm.Get_size()

    def refuse(self, dtype: np.dtype, device: str, reduced: bool) -> str | None:
        """Say why an array cannot be carried, or be `reduced`; or None."""
        if device != "cpu":
            return ("carries arrays in host memory; use torch.distributed, or an "
                    "NcclCommunicator")
        if reduced and dtype.kind == "b":
            return "combines numbers; convert the array"
        return None

    def all_reduce(self, source: Any, target: Any, op: str) -> None:
        """Combine `source` of all ranks; 16-bit floats in float32."""
        given, into = _numbers(source), _numbers(target)
        if _is_half(into):
            wide = np.empty(into.shape, np.float32)
            self._comm.Allreduce(given.astype(np.float32), wide, _OPS[op])
            into[...] = wide
            return
        self._comm.Allreduce(given, into, _OPS[op])

    def start_sum(self, source: Any, target: Any) -> Callable[[], object]:
        """Begin to sum `source` of all ranks; what it returns waits for it."""
        into = _numbers(target)
        if _is_half(into):
            wide = _numbers(source).astype(np.float32)
            request = self._comm.Iallreduce(MPI.IN_PLACE, wide, MPI.SUM)

            def finish() -> None:
                request.wait()
                into[...] = wide

            return finish
        given = MPI.IN_PLACE if source is target else _numbers(source)
        return self._comm.Iallreduce(given, into, MPI.SUM).wait

    def all_gather(self, source: Any, target: Any) -> None:
        """Store `source` of rank r in ``target[r]``."""
        self._comm.Allgather(_bytes(source), _bytes(target))

    def reduce_scatter(self, source: Any, target: Any) -> None:
        """Sum ``source[rank]`` of all ranks; 16-bit floats in float32."""
        given, into = _numbers(source), _numbers(target)
        if _is_half(into):
            wide = np.empty(into.shape, np.float32)
            self._comm.Reduce_scatter_block(given.astype(np.float32), wide, MPI.SUM)
            into[...] = wide
            return
        self._comm.Reduce_scatter_block(given, into, MPI.SUM)

    def broadcast(self, x: Any, root: int) -> None:
        """Overwrite `x` by that of `root`."""
        self._comm.Bcast(_bytes(x), root)

    def all_to_all(self, source: Any, target: Any) -> None:
        """Store ``source[rank]`` of rank r in ``target[r]``."""
        self._comm.Alltoall(_bytes(source), _bytes(target))

    def tell(self, key: str, text: str, seconds: float) -> dict[int, str]:
        """Exchange a text by messages from each rank to each."""
        others = [r for r in range(self.size) if r != self.rank]
        sent = [self._comm.isend((key, text), r) for r in others]
        found, end = {self.rank: text}, time.monotonic() + seconds
        waiting = {r: self._comm.irecv(source=r) for r in others}
        while waiting and time.monotonic() < end:
            for rank in tuple(waiting):
                done, message = waiting[rank].test()
                if done:
                    del waiting[rank]
                    found[rank] = message[1]
            time.sleep(_PAUSE)
        for request in (*waiting.values(), *(sent if waiting else ())):
            request.Cancel()
        if not waiting:
            for request in sent:
                request.wait()
        return found


def _numbers(x: np.ndarray) -> np.ndarray:
    """The elements in a row: mpi4py takes strides of single ones for gaps."""
    return x.reshape(-1)


def _is_half(x: np.ndarray) -> bool:
    return x.dtype.itemsize == 2 and x.dtype.kind not in "iu"


def _bytes(x: np.ndarray) -> np.ndarray:
    """The bytes of a dense array: these are carried whatever they mean."""
    return x.reshape(-1).view(np.uint8)
