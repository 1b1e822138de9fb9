"""Process groups of `torch.distributed`, on the current stream of the arrays."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from ...arrays import BFLOAT16
from ...arrays.memory import array_over

__all__ = ["TorchGroup"]

#: What gloo and NCCL reduce; other elements are carried only.
_REDUCED = {"float16", "bfloat16", "float32", "float64", "complex64", "complex128",
            "int8", "uint8", "int32", "int64"}
#: How many were made of each group, by its name: its ranks make them in one order, but
#: each may be in other groups too.
_made: Counter[str] = Counter()
_OPS = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}


def _named(*names: str) -> Callable[..., Any]:
    """The function of the first name that this PyTorch has."""
    found: Callable[..., Any] = next(
        getattr(dist, name) for name in names if hasattr(dist, name))
    return found


_gather = _named("all_gather_single", "all_gather_into_tensor")
_scatter = _named("reduce_scatter_single", "reduce_scatter_tensor")


class TorchGroup:
    """A process group of PyTorch.

    Parameters
    ----------
    group
        Of `torch.distributed`.
    """

    def __init__(self, group: Any) -> None:
        self._group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        backend = dist.get_backend(group)
        self.name = f"torch.distributed ({backend})"
        self._cuda = "nccl" in backend
        self._host = not self._cuda or "gloo" in backend
        self._said: str | None = None
        name = str(group.group_name)
        self._place = f"nbfused/{name}/{_made[name]}"
        _made[name] += 1
        self.checks_all = not self._cuda
        self.on_stream = _on_stream if self._cuda else None

    def refuse(self, dtype: np.dtype, device: str, reduced: bool) -> str | None:
        """Say why an array cannot be carried, or be `reduced`; or None."""
        if device == "cpu" and not self._host:
            return "carries arrays on CUDA devices only; make a group with gloo"
        if device != "cpu" and not self._cuda:
            return "carries arrays in host memory; make a group with NCCL"
        if reduced and dtype.name not in _REDUCED:
            return f"combines {', '.join(sorted(_REDUCED))}; convert the array"
        return None

    def all_reduce(self, source: Any, target: Any, op: str) -> None:
        """Combine `source` of all ranks."""
        into = _copied(source, target)
        dist.all_reduce(into, _OPS[op], group=self._group)

    def start_sum(self, source: Any, target: Any) -> Callable[[], object]:
        """Begin to sum `source` of all ranks; what it returns waits for it."""
        work = dist.all_reduce(_copied(source, target), group=self._group,
                               async_op=True)
        assert work is not None
        return work.wait

    def all_gather(self, source: Any, target: Any) -> None:
        """Store `source` of rank r in ``target[r]``."""
        _gather(_bytes(target), _bytes(source), group=self._group)

    def reduce_scatter(self, source: Any, target: Any) -> None:
        """Sum ``source[rank]`` of all ranks."""
        _scatter(tensor(target).reshape(-1), tensor(source).reshape(-1),
                 group=self._group)

    def broadcast(self, x: Any, root: int) -> None:
        """Overwrite `x` by that of `root`."""
        dist.broadcast(_bytes(x), group=self._group,
                       src=dist.get_global_rank(self._group, root))

    def all_to_all(self, source: Any, target: Any) -> None:
        """Store ``source[rank]`` of rank r in ``target[r]``."""
        dist.all_to_all_single(_bytes(target), _bytes(source), group=self._group)

    def tell(self, key: str, text: str, seconds: float) -> dict[int, str]:
        """Exchange a text through the group's store."""
        store = self._group.get_group_store()
        key = f"{self._place}/{key}"
        store.set(f"{key}/{self.rank}", text)
        found = {self.rank: text}
        end = time.monotonic() + seconds
        for rank in range(self.size):
            left = max(end - time.monotonic(), 0.01)
            try:
                if rank != self.rank:
                    store.wait([f"{key}/{rank}"], timedelta(seconds=left))
                    found[rank] = store.get(f"{key}/{rank}").decode()
            except RuntimeError:  # it does not come, or the store has gone with it
                continue
        if len(found) == self.size:  # all have read what was said before this
            if self._said is not None:
                store.delete_key(self._said)
            self._said = f"{key}/{self.rank}"
        return found


@contextmanager
def _on_stream(stream: int) -> Iterator[None]:
    with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
        yield


def _copied(source: Any, target: Any) -> torch.Tensor:
    """`target` with the elements of `source`, as PyTorch reduces in place."""
    into = tensor(target)
    if source is not target:
        into.copy_(tensor(source))
    return into


def tensor(x: Any) -> torch.Tensor:
    """An array as a tensor of the same memory; complex elements as pairs."""
    made = x.detach() if isinstance(x, torch.Tensor) else _shared(x)
    return torch.view_as_real(made) if made.is_complex() else made


def _shared(x: Any) -> torch.Tensor:
    if not isinstance(x, np.ndarray):
        return torch.from_dlpack(x)
    if not x.flags.writeable:  # which PyTorch has no notion of
        size = x.dtype.itemsize
        x = array_over(x.ctypes.data, x.shape, tuple(s // size for s in x.strides),
                       size, owner=x).view(x.dtype)
    if x.dtype == BFLOAT16:
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)


def _bytes(x: Any) -> torch.Tensor:
    """The bytes of a dense array: these are carried whatever they mean."""
    return tensor(x).reshape(-1).view(torch.uint8)
