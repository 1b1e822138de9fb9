"""The interface of backends: signatures, calls, launchers and native code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableSet, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from .errors import KernelTypeError
from .support.records import record
from .version import PROTOCOL_VERSION

if TYPE_CHECKING:
    import numpy as np

    from .scalar.typing.types import Type
    from .specs import Spec

__all__ = ["PROTOCOL_VERSION", "Backend", "Call", "Extents", "Foreseen",
           "IntegerRange", "Launcher", "Native", "NativeBackend", "NativeKernel",
           "NativeModule", "NumberOf", "SequenceStart", "SequencedCall",
           "SequencedExchange", "Signature", "Start", "builder"]

#: Of a grid or a block: x, y, z.
Extents = tuple[int, int, int]


class Signature(NamedTuple):
    """The key of a compiled kernel, apart from its spec.

    Attributes
    ----------
    inputs
        For each input of the spec, its dtype or, for a call-time number, its weak type.
    outputs
        Dtypes of the outputs as they are stored.
    ranks
        Number of loop dimensions in each group, neighbours merged where every
        operand's strides allow: Map ``(r,)``, Reduce ``(kept, reduced)``, Row
        ``(rows, 1)``, Contract ``(batch, m, n, k)``.
    inner
        For each array operand (inputs, then outputs), its stride in the innermost
        dimension of the last group: ``"1"`` unit, ``"0"`` broadcast, ``"s"`` other.
        Contract: a pair of letters, for the last ``m`` and ``k`` dimension of A, the
        last ``k`` and ``n`` of B, the last ``m`` and ``n`` of extras and outputs.
        A raw input of a Map: ``"r2"`` for an array of two dimensions.  Arrays of a Raw
        alike, or ``"c2"`` where the last stride is 1; it has no loops, ``ranks`` is ().
    """

    inputs: tuple[Type, ...]
    outputs: tuple[np.dtype, ...]
    ranks: tuple[int, ...]
    inner: tuple[str, ...]


@record
class Call:
    """The arguments of one launch: everything that changes from call to call.

    Attributes
    ----------
    shape
        Extents of the loop nest, group after group (`Signature.ranks`).
    pointers
        Addresses: array inputs in the spec's order, then outputs.
    strides
        For each pointer, a stride in elements for each extent (0: broadcast).  A raw
        input has the strides of its own dimensions instead.
    scalars
        The call-time numbers, in order.
    device
        Ordinal of the device (0 on cpu).
    stream
        Handle of the stream to launch on (0 on cpu).
    extents
        The shape of each array that the function indexes itself, in order.
    boxes
        For each box of a Map's windows, and each loop, the first coordinate and the
        one after the last.
    grid, block
        Raw: numbers of blocks, and of threads in a block, along x, y and z.
    shared
        Raw: bytes of shared memory that a block gets besides its own arrays.
    """

    shape: tuple[int, ...]
    pointers: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    scalars: tuple[Any, ...] = ()
    device: int = 0
    stream: int = 0
    extents: tuple[tuple[int, ...], ...] = ()
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    shared: int = 0
    boxes: tuple[tuple[tuple[int, int], ...], ...] = ()


#: Starts a call.  It may have a method ``bind(call) -> Start | None``, which does what
#: can be done for all calls that differ in pointers, numbers and stream only; None if
#: that is nothing.  Those of `call` are examples: each pointer will have the same
#: remainder by 16, each number the same type.
Launcher = Callable[[Call], None]

#: What is left of a launcher then: ``start(pointers, scalars, stream)``.
Start = Callable[[Sequence[int], tuple[Any, ...], int], None]


@record(frozen=True)
class NumberOf:
    """Stands for a number that a later call gives, by its position there."""

    position: int


@record(frozen=True)
class SequencedCall:
    """A call in a sequence, whose addresses and numbers come with each run.

    Attributes
    ----------
    launcher, call
        What starts it, and an example.
    places
        For each of the call's pointers: which address of the run, and bytes from it.
    numbers
        The call's numbers; `NumberOf` in place of one of the run.
    spans
        The memory behind each pointer: which address of the run, and the first byte
        and the one after the last, counted from there.
    outputs
        How many of the pointers, the last ones, are written to.
    """

    launcher: Launcher
    call: Call
    places: tuple[tuple[int, int], ...]
    numbers: tuple[Any, ...]
    spans: tuple[tuple[int, int, int], ...]
    outputs: int


@record(frozen=True, eq=False)
class SequencedExchange:
    """A call between processes in a sequence, of arrays that are always the same.

    Attributes
    ----------
    enqueue
        ``enqueue(stream)`` puts it on a stream that is being captured.
    spans
        The memory of what is sent and of what is received: which address of the run,
        and the first byte and the one after the last.
    captures
        Where a sequence enters itself that holds it; its ``release()`` gives it back.
    """

    enqueue: Callable[[int], None]
    spans: tuple[tuple[int, int, int], ...]
    captures: MutableSet[Any]
    outputs: ClassVar[int] = 1


@record(frozen=True)
class Foreseen:
    """A call that is going to be made.

    Attributes
    ----------
    launcher
        Finds or builds what starts it.
    call
        The call; of its addresses only alignment will be the same.
    """

    launcher: Callable[[], Launcher]
    call: Call


#: Starts a sequence: ``run(addresses, numbers, stream)``; False if it has started
#: nothing, so that its calls have to be started one by one.  It may have
#: ``keep_arena(size)``: if that gives True, runs are given all addresses but the last
#: one, in place of which it has as much memory of its own.
SequenceStart = Callable[[Sequence[int], Sequence[Any], int], bool]


@record(frozen=True)
class DirectCall:
    """A call that machine code makes from the arguments themselves.

    Attributes
    ----------
    call
        What is started.  Its addresses are those of the arrays, inputs before outputs.
    arguments
        For each argument, which address or which number of the call it is.
    kinds
        The Python type of each number.
    results
        For each output that is allocated, which address it is, its shape and dtype, and
        whether it is in Fortran's order; None for one that was given.
    makers
        For each output what allocates it; None of NumPy's arrays, and of given ones.
    pairs
        Two addresses; the distances between them, both exclusive, at which the arrays
        would overlap; whether 0 is allowed.
    zeros
        Numbers of the results that are filled with zeros, which are NumPy's.
    ranges
        Arrays of integers that are read first: the call is made if all are in range.
    """

    call: SequencedCall
    arguments: tuple[int, ...]
    kinds: tuple[type, ...]
    results: tuple[tuple[int, tuple[int, ...], np.dtype, bool] | None, ...]
    makers: tuple[Callable[[], Any] | None, ...]
    pairs: tuple[tuple[int, int, int, int, bool], ...]
    zeros: tuple[int, ...] = ()
    ranges: tuple[IntegerRange, ...] = ()


class IntegerRange(NamedTuple):
    """A range check of an array of integers, before a direct call.

    Attributes
    ----------
    address
        Which address of the call it has.
    itemsize
        Bytes of an integer, 4 or 8; it is signed, or none is negative by `low`.
    size, step
        Number of elements, and the distance between them in elements.
    low, high
        They are in ``[low, high)``.
    """

    address: int
    itemsize: int
    size: int
    step: int
    low: int
    high: int


class Direct(Protocol):
    """A function that makes direct calls, and how it comes to know them."""

    function: Callable[..., Any]

    def add(self, args: Sequence[Any], call: DirectCall, stamp: int) -> bool:
        """Make `call` for arguments that are laid out like these.

        While `support.stamp` is what it was.  False if it cannot be made.
        """


class Backend(Protocol):
    """The interface of a device family, which owns arrays and runs specs.

    Besides these it may have ``devices()``, the names of the devices that it owns, of
    which the first is its default; without it that is ``"cpu"`` if it owns it, else
    ``"name:0"``, and `nbfused.backends` lists no other.  ``start(device, meanwhile)``
    starts a device at its first array, while `meanwhile` imports what a kernel needs.
    ``sequence(calls)`` is a `SequenceStart` for calls (`SequencedCall`, on GPUs
    `SequencedExchange` too) that are always started in this order, or None.
    ``headers(kind, ranks)`` is a function that reads as many arrays of a library's type
    `kind` at once, faster than `arrays.Reading`: it gives their layouts, as an object
    that is equal for equal ones, and their addresses, or None; the ranks are those of
    most calls. ``ahead(calls)`` compiles side by side what calls (`Foreseen`) need and
    launches nothing; what it cannot compile is left to the calls themselves.
    ``expect()`` may start a compiler in another process, for kernels that come soon.
    ``direct_calls(otherwise, unset)`` is a `Direct`, whose function calls `otherwise`
    where it knows nothing, or where one of two context variables has a value; or None.
    """

    name: str
    protocol: int

    def available(self) -> str | None:
        """The reason why it cannot be used, or None.  Cheap; never raises."""

    def owns(self, device: str) -> bool:
        """Whether the backend owns arrays on ``device`` (``"cpu"``, ``"cuda:0"``)."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: str) -> Any:
        """Allocate an uninitialised array of the backend's own type."""

    def from_host(self, array: np.ndarray, device: str) -> Any:
        """Copy a NumPy array to the device."""

    def to_host(self, array: Any) -> np.ndarray:
        """Copy a device array to a NumPy array."""

    def synchronize(self) -> None:
        """Wait until all launched work has finished."""

    def build(self, spec: Spec, signature: Signature) -> Launcher:
        """Compile `spec` for `signature`, or load it from the cache.

        ``spec.typed(signature.inputs, signature.outputs)`` is what there is to compile:
        a `specs.TypedMap`, `TypedReduce`, `TypedRow`, `TypedContract` or `TypedRaw`,
        whose functions have a dtype for every value.  `nbfused.scalar.printing` prints
        them, `nbfused.scalar.ir.interpret.evaluate` evaluates them with NumPy.

        Raises
        ------
        CompileError
            The compiler refuses the kernel.
        KernelTypeError
            The backend has no kernels for such a spec.
        """


def builder(table: Mapping[str, str], spec: Spec,
            package: str) -> Callable[..., Launcher]:
    """Import and return the function that builds launchers of a kind of spec.

    Parameters
    ----------
    table
        For each kind, ``"module:function"`` in `package`.

    Raises
    ------
    KernelTypeError
        The table has no such kind.
    """
    kind = type(spec).__name__
    if kind not in table:
        raise KernelTypeError(
            f"{spec.name}: {package} runs no {kind}, expected {', '.join(table)}; "
            "move the arrays to a backend that does, or add a row for it")
    module, _, function = table[kind].partition(":")
    found: Callable[..., Launcher] = getattr(
        import_module(f".{module}", package), function)
    return found


class Native(NamedTuple):
    """Source code in the device's own language, as users give it.

    Attributes
    ----------
    code
        Source text, or what a compiler made of it (PTX, cubin).
    options
        Of the compiler.
    names
        Expressions such as ``"f<float>"`` that source text has to instantiate.
    label
        What the compiler's messages call the text.
    cooperative
        Whether blocks may wait for one another.
    """

    code: str | bytes
    options: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    label: str = "kernel.cu"
    cooperative: bool = False


class NativeKernel(Protocol):
    """A kernel loaded on one device."""

    sizes: tuple[int, ...] | None
    """Bytes of each parameter; None where the driver cannot say."""

    def launch(self, grid: Extents, block: Extents, values: Sequence[bytes],
               shared: int, stream: int) -> None:
        """Launch blocks on `stream`; `values` are the parameters' bytes."""

    def attributes(self) -> dict[str, int]:
        """The kernel's registers, memory and limits."""

    def set_attribute(self, name: str, value: int) -> None:
        """Change one of the kernel's attributes."""


class NativeModule(Protocol):
    """Native code loaded on a device."""

    def kernel(self, name: str) -> NativeKernel:
        """Look up a kernel by its name or template expression."""

    def variable(self, name: str) -> tuple[int, int]:
        """Address and bytes of a global variable."""


class NativeBackend(Backend, Protocol):
    """A backend that can also compile `Native` code."""

    def native(self, code: Native, device: str) -> NativeModule:
        """Compile native code, or find it in the cache, and load it."""
