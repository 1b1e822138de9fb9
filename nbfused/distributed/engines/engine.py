"""`Engine`, a library that carries arrays between processes, and how one is found."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...errors import KernelTypeError

__all__ = ["Engine", "engine_of"]


class Engine(Protocol):
    """Carries dense arrays between processes; what is received is stored in place.

    Attributes
    ----------
    name
        For messages.
    rank, size
        The number of this process, and how many there are.
    checks_all
        Whether ranks can tell one another of every call: it costs little beside it.
    on_stream
        A context in which calls go to a CUDA stream, whose handle it is given, to be
        captured there; None if they cannot be.
    """

    name: str
    checks_all: bool
    rank: int
    size: int
    on_stream: Callable[[int], AbstractContextManager[None]] | None

    def refuse(self, dtype: np.dtype, device: str, reduced: bool) -> str | None:
        """Say why an array cannot be carried, or be `reduced`; or None."""

    def all_reduce(self, source: Any, target: Any, op: str) -> None:
        """Combine `source` of all ranks by ``"sum"``, ``"max"`` or ``"min"``."""

    def start_sum(self, source: Any, target: Any) -> Callable[[], object]:
        """Begin to sum `source` of all ranks; what it returns waits for it.

        Both may be the same array.
        """

    def all_gather(self, source: Any, target: Any) -> None:
        """Store `source` of rank r in ``target[r]``."""

    def reduce_scatter(self, source: Any, target: Any) -> None:
        """Sum ``source[rank]`` of all ranks."""

    def broadcast(self, x: Any, root: int) -> None:
        """Overwrite `x` by that of `root`."""

    def all_to_all(self, source: Any, target: Any) -> None:
        """Store ``source[rank]`` of rank r in ``target[r]``."""

    def tell(self, key: str, text: str, seconds: float) -> dict[int, str] | None:
        """Exchange a text with every rank: what each one said within `seconds`.

        None: the engine has no way from host to host.
        """


class _Kind(NamedTuple):
    """A library's communicators, by module and class, and the engine for them."""

    module: str
    classes: tuple[str, ...]
    home: str
    engine: str


_KINDS = (
    _Kind("torch.distributed", ("ProcessGroup",), "torch_groups", "TorchGroup"),
    _Kind("mpi4py.MPI", ("Comm",), "mpi", "MpiComm"),
    _Kind("cupy.cuda.nccl", ("NcclCommunicator",), "nccl", "NcclComm"),
)


def engine_of(comm: Any) -> Engine:
    """The engine for a communicator that the user's library made.

    Raises
    ------
    KernelTypeError
        It is of none of the libraries.
    """
    for kind in _KINDS:
        module = sys.modules.get(kind.module)
        if module is not None and isinstance(comm, tuple(
                getattr(module, name) for name in kind.classes)):
            home = import_module(f".{kind.home}", __package__)
            made: Engine = getattr(home, kind.engine)(comm)
            return made
    if type(comm) is int:  # what `torch.distributed.new_group` gives to others
        raise KernelTypeError(
            f"'comm' is the number {comm}, as of a group that this process is not in; "
            "let only its members call this")
    raise KernelTypeError(
        f"'comm' is a {type(comm).__name__}; expected a process group of "
        "torch.distributed (torch.distributed.group.WORLD), a communicator of mpi4py "
        "(MPI.COMM_WORLD), or cupy.cuda.nccl.NcclCommunicator")
