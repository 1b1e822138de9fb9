"""Communicators of NCCL through CuPy, on the current stream of the arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cupy
import numpy as np
from cupy.cuda import nccl

from ...arrays import describe, dtype_of

__all__ = ["NcclComm"]

_OPS = {"sum": nccl.NCCL_SUM, "max": nccl.NCCL_MAX, "min": nccl.NCCL_MIN}
_DTYPES = {"int8": nccl.NCCL_INT8, "uint8": nccl.NCCL_UINT8, "int32": nccl.NCCL_INT32,
           "uint32": nccl.NCCL_UINT32, "int64": nccl.NCCL_INT64,
           "uint64": nccl.NCCL_UINT64, "float16": nccl.NCCL_FLOAT16,
           "float32": nccl.NCCL_FLOAT32, "float64": nccl.NCCL_FLOAT64,
           "bfloat16": getattr(nccl, "NCCL_BFLOAT16", 9)}


class NcclComm:
    """A communicator of NCCL.

    Parameters
    ----------
    comm
        ``cupy.cuda.nccl.NcclCommunicator``.
    """

    name, checks_all = "NCCL", False

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self.rank, self.size = comm.rank_id(), comm.size()
        self._beside = cupy.cuda.Stream(non_blocking=True)
        self._given: int | None = None

    def refuse(self, dtype: np.dtype, device: str, reduced: bool) -> str | None:
        """Say why an array cannot be carried, or be `reduced`; or None."""
        if not device.startswith("cuda"):
            return "carries arrays on CUDA devices; use mpi4py or a group with gloo"
        if reduced and dtype.name not in _DTYPES and dtype.kind != "c":
            return f"combines {', '.join(_DTYPES)}; convert the array"
        return None

    def all_reduce(self, source: Any, target: Any, op: str) -> None:
        """Combine `source` of all ranks."""
        count, kind = _numbers(source)
        self._comm.allReduce(*_addresses(source, target), count, kind, _OPS[op],
                             self._stream_of(target))

    def start_sum(self, source: Any, target: Any) -> Callable[[], object]:
        """Begin to sum `source` of all ranks; the arrays' stream waits for it."""
        (here, place), (count, kind) = _addresses(source, target), _numbers(source)
        stream, ready = self._stream_of(target), cupy.cuda.Event(disable_timing=True)
        cupy.cuda.runtime.eventRecord(ready.ptr, stream)
        self._beside.wait_event(ready)
        self._comm.allReduce(here, place, count, kind, nccl.NCCL_SUM, self._beside.ptr)
        done = self._beside.record()

        def finish(read: Any = source) -> None:  # whose memory nobody gets before
            cupy.cuda.runtime.streamWaitEvent(stream, done.ptr)

        return finish

    def all_gather(self, source: Any, target: Any) -> None:
        """Store `source` of rank r in ``target[r]``."""
        self._comm.allGather(*_addresses(source, target), _size(source),
                             nccl.NCCL_UINT8, self._stream_of(target))

    def reduce_scatter(self, source: Any, target: Any) -> None:
        """Sum ``source[rank]`` of all ranks."""
        count, kind = _numbers(target)
        self._comm.reduceScatter(*_addresses(source, target), count, kind,
                                 nccl.NCCL_SUM, self._stream_of(target))

    def broadcast(self, x: Any, root: int) -> None:
        """Overwrite `x` by that of `root`."""
        self._comm.broadcast(*_addresses(x, x), _size(x), nccl.NCCL_UINT8, root,
                             self._stream_of(x))

    def all_to_all(self, source: Any, target: Any) -> None:
        """Store ``source[rank]`` of rank r in ``target[r]``."""
        (start, into), each = _addresses(source, target), _size(source) // self.size
        nccl.groupStart()
        for rank in range(self.size):
            self._comm.send(start + rank*each, each, nccl.NCCL_UINT8, rank,
                            self._stream_of(source))
            self._comm.recv(into + rank*each, each, nccl.NCCL_UINT8, rank,
                            self._stream_of(target))
        nccl.groupEnd()

    @contextmanager
    def on_stream(self, stream: int) -> Iterator[None]:
        """Let calls go to this stream, whatever the arrays' stream is."""
        self._given = stream
        try:
            yield
        finally:
            self._given = None

    def _stream_of(self, x: Any) -> int:
        """The stream that an array's library computes on now."""
        return (describe(x).stream or 0) if self._given is None else self._given

    def tell(self, key: str, text: str, seconds: float) -> None:
        """NCCL has no way from host to host."""
        return


def _addresses(source: Any, target: Any) -> tuple[int, int]:
    return describe(source).pointer, describe(target).pointer


def _size(x: Any) -> int:
    """Bytes of a dense array."""
    array = describe(x)
    return int(np.prod(array.shape))*array.dtype.itemsize


def _numbers(x: Any) -> tuple[int, int]:
    """Count the numbers of an array, with their type in NCCL; complex ones are two."""
    dtype, count = dtype_of(x), int(np.prod(x.shape))
    if dtype.kind == "c":
        return 2*count, _DTYPES[f"float{dtype.itemsize*4}"]
    return count, _DTYPES[dtype.name]
