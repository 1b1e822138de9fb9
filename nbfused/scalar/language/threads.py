"""Names for kernels of threads: indices, barriers, shuffles, shared memory.

Kernels read `threadIdx`, `blockIdx`, `blockDim` and `gridDim` (``.x``, ``.y``, ``.z``),
`laneid` and `warpsize`; `grid` and `gridsize` are computed from them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ...errors import KernelTypeError

__all__ = [
    "atomic", "blockDim", "blockIdx", "grid", "gridDim", "gridsize", "laneid", "shared",
    "shfl_down_sync", "shfl_sync", "shfl_up_sync", "shfl_xor_sync", "syncthreads",
    "syncwarp", "threadIdx", "warpsize",
]


def _outside(name: str) -> NoReturn:
    raise KernelTypeError(f"{name} has a value inside a kernel only: write a function "
                          "of your own under @nf.rawkernel, in a file or a notebook, "
                          "and launch it")


class _Position:
    """A number that differs between threads; the parser reads `name`."""

    def __init__(self, name: str, doc: str) -> None:
        self.__nbfused_thread__, self.__doc__ = name, doc

    def _refuse(self, *_: object) -> NoReturn:
        _outside(self.__nbfused_thread__)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = _refuse
    __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __abs__ = _refuse
    __and__ = __rand__ = __xor__ = __rxor__ = __lshift__ = __rshift__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _refuse
    __index__ = __int__ = __float__ = _refuse

    def __repr__(self) -> str:
        return f"<nbfused {self.__nbfused_thread__}>"


class _Axes:
    """A position or size along three axes."""

    def __init__(self, name: str, doc: str) -> None:
        self.x, self.y, self.z = (_Position(f"{name}.{axis}", doc) for axis in "xyz")
        self.__name__, self.__doc__ = name, doc

    def __repr__(self) -> str:
        return f"<nbfused {self.__name__}>"


class _Form:
    """A call that the parser writes; `attr` tells the forms of one name apart."""

    def __init__(self, form: str, name: str, doc: str, attr: str = "",
                 host: Callable[..., Any] | None = None) -> None:
        self.__nbfused_form__, self.attr, self.host = form, attr, host
        self.__name__, self.__doc__ = name, doc

    def __call__(self, *args: Any) -> Any:
        """Run as plain Python, for forms that mean something there."""
        return self.host(*args) if self.host else _outside(self.__name__)

    def __repr__(self) -> str:
        return f"<nbfused {self.__name__}>"


threadIdx: Any = _Axes("threadIdx", "The place of a thread in its block: .x, .y, .z.")
blockIdx: Any = _Axes("blockIdx", "The place of a block in the grid: .x, .y, .z.")
blockDim: Any = _Axes("blockDim", "The threads of a block along .x, .y and .z.")
gridDim: Any = _Axes("gridDim", "The blocks of the grid along .x, .y and .z.")
laneid: Any = _Position("laneid", "The place of a thread in its warp, from 0.")
warpsize: Any = _Position("warpsize", "The threads of a warp: 32 on every backend.")

grid: Any = _Form("grid", "grid", """The place of a thread in the whole grid.

``grid(1)`` is an integer, ``grid(2)`` and ``grid(3)`` are tuples, ``x`` first.
""")
gridsize: Any = _Form("gridsize", "gridsize", """The number of threads of the grid.

``gridsize(1)`` is an integer, ``gridsize(2)`` and ``gridsize(3)`` are tuples.
""")
syncthreads: Any = _Form("barrier", "syncthreads",
                         "Wait for all threads of the block.", "block")
syncwarp: Any = _Form("barrier", "syncwarp", """Wait for all threads of the warp.

``syncwarp(mask)`` takes the mask of the whole warp, 0xffffffff, and no other.
""", "warp")


class _Shared:
    """Memory that the threads of a block share."""

    array = _Form("shared", "shared.array", """An array that the block shares.

    ``shared.array(shape, dtype)``: `shape` is an integer or a tuple of integers that
    are known when the kernel is parsed (numbers, globals, `nf.literal` parameters),
    `dtype` a dtype of NumPy or its name.  What it holds at first is not defined.

    ``shared.array(0, dtype)`` has the elements that fit into the bytes which a launch
    gives, ``shared_mem=``; a kernel has one such array, and is compiled for each size.
    """)


def _shuffle(name: str, attr: str, doc: str) -> _Form:
    return _Form("shuffle", name, f"""{doc}

    Called as ``{name}(mask, value, lane, width=32)``, as in CUDA; the mask is that of
    the whole warp, 0xffffffff.  A `width` of 1, 2, 4, 8 or 16, known now or
    at run time, divides the warp into segments of so many lanes, and lanes are counted
    inside of them; of `lane` the lowest five bits count.  What a lane holds that the
    block does not have is not defined; ``NBFUSED_DEBUG=1`` tells of it.
    """, attr)


shared: Any = _Shared()
shfl_sync: Any = _shuffle("shfl_sync", "idx",
                          "The value that a lane of the warp holds.")
shfl_up_sync: Any = _shuffle("shfl_up_sync", "up",
                             "The value that the lane this far below holds.")
shfl_down_sync: Any = _shuffle("shfl_down_sync", "down",
                               "The value that the lane this far above holds.")
shfl_xor_sync: Any = _shuffle("shfl_xor_sync", "xor",
                              "The value of the lane of this one's number xor `lane`.")


def _exchange(new: Callable[..., Any]) -> Callable[..., Any]:
    """On a host array: store what `new` makes of the old value, and return that."""

    def act(array: Any, index: Any, *values: Any) -> Any:
        old = array[index]
        array[index] = new(old, *values)
        return old

    return act


def _atomic(attr: str, doc: str, new: Callable[..., Any]) -> _Form:
    name = f"{attr}_" if attr in ("and", "or") else attr
    more = "compare, value" if attr == "cas" else "value"
    return _Form("atomic", f"atomic.{name}", f"""{doc}

    ``atomic.{name}(array, index, {more})`` gives the old value; `index` is an integer
    or a tuple of as many as the array has axes.
    """, attr, _exchange(new))


class _Atomic:
    """Operations on an element that no other thread can come between."""

    add = _atomic("add", "Add to an element.", lambda a, b: a + b)
    sub = _atomic("sub", "Subtract from an element.", lambda a, b: a - b)
    inc = _atomic("inc", "Add 1; 0 where the element is `value` or more, as in CUDA.",
                  lambda a, limit: 0 if a >= limit else a + 1)
    dec = _atomic("dec", "Subtract 1; `value` where the element is 0 or above it.",
                  lambda a, limit: limit if a == 0 or a > limit else a - 1)
    min = _atomic("min", "Keep the smaller value.", min)
    max = _atomic("max", "Keep the larger value.", max)
    and_ = _atomic("and", "Bitwise and.", lambda a, b: a & b)
    or_ = _atomic("or", "Bitwise or.", lambda a, b: a | b)
    xor = _atomic("xor", "Bitwise exclusive or.", lambda a, b: a ^ b)
    exch = _atomic("exch", "Store a value.", lambda a, b: b)
    cas = _atomic("cas", "Store `value` where the element equals `compare`.",
                  lambda a, compare, value: value if a == compare else a)


atomic: Any = _Atomic()
