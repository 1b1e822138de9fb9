"""`Communicator`: the user's communicator, with checks that all ranks call alike."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any, TypeVar
from weakref import WeakSet

from ..arrays import Array, canonical_device
from ..config import config
from ..errors import (
    DeviceError,
    DistributedError,
    KernelTypeError,
    NbFusedError,
    RangeError,
)
from ..support.forks import free_in_child
from .engines.engine import Engine, engine_of

__all__ = ["Communicator", "communicator", "given"]

#: Seconds until a rank that does not come to a call is said to be missing.
TIMEOUT = 60.0
#: Seconds in which the others have to read what a rank has said before it ends.
_LINGER = 5.0

_T = TypeVar("_T")

#: By identity: mpi4py's are not hashed.  Each is kept, so that no other gets its place.
_made: dict[int, tuple[Any, Communicator]] = {}
_lock = free_in_child(threading.Lock())


#: All of them, to `release` at exit: libraries end their communicators there.
_all: WeakSet[Communicator] = WeakSet()


@atexit.register
def _release_all() -> None:
    for one in tuple(_all):
        one.release()


class Communicator:
    """A communicator of the user's engine, as collectives take it.

    Parameters
    ----------
    comm
        A process group of `torch.distributed`, a communicator of mpi4py, or
        ``cupy.cuda.nccl.NcclCommunicator``.
    timeout : float
        Seconds until a rank that does not come to a call is said to be missing.

    Attributes
    ----------
    rank, size : int
        The number of this process, and how many there are.

    Notes
    -----
    On the host the ranks tell one another at each call what they are about to do.  On
    devices, where they would have to wait for that, they do it the first time that an
    operation with a shape, a dtype and further arguments is called, and for every call
    with ``NBFUSED_DEBUG=1``.  NCCL through CuPy cannot.
    """

    #: `nf.fuse` need not trace again for one that it has met.
    __nbfused_constant__ = True

    def __init__(self, comm: Any, timeout: float = TIMEOUT) -> None:
        if not timeout > 0:
            raise RangeError(f"'timeout' is {timeout!r}; expected seconds above 0")
        self._engine: Engine = engine_of(comm)
        self.rank, self.size = self._engine.rank, self._engine.size
        self._timeout, self._known, self._calls = float(timeout), set[str](), 0
        #: Graphs that hold calls of it.
        self.captures: WeakSet[Any] = WeakSet()
        _all.add(self)

    def __repr__(self) -> str:
        return (f"<nbfused communicator of {self._engine.name}: rank {self.rank} of "
                f"{self.size}>")

    @property
    def engine(self) -> Engine:
        """The engine that carries the arrays."""
        return self._engine

    @property
    def on_stream(self) -> Callable[[int], AbstractContextManager[None]] | None:
        """`Engine.on_stream`; None where ranks tell one another of every call."""
        return None if config.debug else self._engine.on_stream

    def release(self) -> None:
        """Give back the graphs of fused functions that hold collectives.

        NCCL does not end a communicator before: call it, on every rank, before
        ``torch.distributed.destroy_process_group()``, or let go of these functions.
        """
        for one in tuple(self.captures):
            one.release()

    def check(self, name: str, array: Array, reduced: bool,
              how: Mapping[str, Any]) -> None:
        """Check that the engine carries an array, and that all ranks call alike.

        Raises
        ------
        DeviceError
            The array is where the engine does not reach.
        KernelTypeError
            The engine does not combine its dtype.
        DistributedError
            A rank calls another operation, or with another shape, dtype or argument,
            or does not call in time.
        """
        why = self._engine.refuse(array.dtype, canonical_device(array.device), reduced)
        if why is not None:
            error = KernelTypeError if "combines" in why else DeviceError
            raise error(f"{name}: 'x' is {array.dtype} on {array.device}, and "
                        f"{self._engine.name} {why}")
        said = f"{name} of {array.dtype} {array.shape}" + "".join(
            f", {key}={value}" for key, value in how.items())
        if self._engine.checks_all or config.debug or said not in self._known:
            self._agree(said)
            self._known.add(said)

    def reporting(self, name: str, call: Callable[..., _T]) -> Callable[..., _T]:
        """A call of the engine whose failure is an error of nbfused.

        Raises
        ------
        DistributedError
            The engine fails: as a rule another process has ended.
        """
        def run(*args: Any) -> _T:
            try:
                return call(*args)
            except NbFusedError:
                raise
            except RuntimeError as error:  # which all engines' errors are
                raise DistributedError(
                    f"{name} of rank {self.rank} fails: {error}; see whether another "
                    "rank has ended") from error

        return run

    def _agree(self, said: str) -> None:
        self._calls += 1
        tell = self.reporting(said, self._engine.tell)
        told = tell(str(self._calls), said, self._timeout)
        if told is None:
            return
        missing = [r for r in range(self.size) if r not in told]
        if missing:
            raise DistributedError(
                f"rank {self.rank} calls {said}, and {_ranks(missing)} did not come to "
                f"it in {self._timeout:g} s: every rank has to make the same calls in "
                "the same order")
        if len(set(told.values())) > 1:
            # Whoever ends by this error takes along what the others have yet to read.
            with suppress(RuntimeError):
                self._engine.tell(f"{self._calls}, read", "",
                                  min(self._timeout, _LINGER))
            others = "; ".join(f"rank {r}: {told[r]}" for r in sorted(told))
            raise DistributedError(f"ranks do not make the same call: {others}")


def _ranks(numbers: list[int]) -> str:
    return f"rank{'s'*(len(numbers) > 1)} {', '.join(map(str, numbers))}"


def communicator(comm: Any, timeout: float = TIMEOUT) -> Communicator:
    """Prepare a communicator for collectives.

    Every rank has to do it, in the same order as with its other collectives.  Functions
    of this module take the user's communicator too, and do it once with the defaults.

    Parameters
    ----------
    comm
        A process group of `torch.distributed`, a communicator of mpi4py, or
        ``cupy.cuda.nccl.NcclCommunicator``.
    timeout : float
        Seconds until a rank that does not come to a call is said to be missing.

    Returns
    -------
    Communicator

    Raises
    ------
    KernelTypeError
        `comm` is of none of these libraries.
    RangeError
        `timeout` is not positive.
    """
    return comm if isinstance(comm, Communicator) else Communicator(comm, timeout)


def given(comm: Any) -> Communicator:
    """The `Communicator` of an argument `comm`, made once for each of the user's."""
    if isinstance(comm, Communicator):
        return comm
    with _lock:
        if id(comm) not in _made:
            _made[id(comm)] = comm, Communicator(comm)
        return _made[id(comm)][1]
