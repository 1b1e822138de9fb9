"""`Batched`: a placeholder for one sample, which holds those of all along axis 0.

`vmap` calls a function with these.  Each has the shape of a sample, and what is done
with it is done to all: a spec's own rule (`Spec.batched`) says how.  As the symbols of
`nf.fuse` they are on the tape inside of the function, that of a `grad`, as samples.
The arrays that they hold may be Variables of a tape outside, symbols, or placeholders
of a `vmap` around this one: what is run on these is recorded there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from math import prod
from typing import Any, ClassVar, NoReturn

import numpy as np

from ...arrays import dtype_of
from ...arrays.creation import array_like
from ...arrays.traced import Traced, extents
from ...errors import KernelTypeError, NotDifferentiableError
from ...specs import Spec, View
from ..graph import Edge
from ..nodes import NUMBERS, link_view, zeros
from ..numpy_api.in_place import is_basic, is_scalar
from ..recording import RECORDING
from ..tape import apply, record_traced
from ..variable import Variable
from .batched_changes import assign, in_place
from .replays import Recorder
from .samples import run_planned

__all__ = ["LEVEL", "SAMPLE_RULES", "Batched", "Level"]


class Level:
    """One call of a function by `vmap`.

    Attributes
    ----------
    size
        How many samples.
    depth
        One more than that of the `vmap` around it.
    like
        An array of the caller's, whose library and device new ones have.
    recording
        Whether the tape outside records.
    arguments
        The placeholders that the function was called with.
    shared
        Those of them that were one for all samples.
    recorder
        Notes what is computed, where that is to be repeated without the function.  None
        from when on something depends on what placeholders hold, or changes it.
    """

    def __init__(self, name: str, size: int, like: Any) -> None:
        outer = LEVEL.get()
        self.name, self.size, self.like = name, size, like
        self.depth: int = 1 if outer is None else outer.depth + 1
        self.recording: bool | None = RECORDING.get()
        self.running = True
        self.arguments: Sequence[Batched] = ()
        self.shared: Sequence[Batched] = ()
        self.recorder: Recorder | None = None

    def lift(self, x: Any) -> Any:
        """An array or Variable that is the same for all samples, as a placeholder."""
        own = isinstance(x, Batched) and x.level is self
        if own or isinstance(x, NUMBERS):
            return x
        if self.recorder is not None:
            self.recorder.plain(x)
        return self.hold(x)

    def hold(self, x: Any, batched: bool = False) -> Batched:
        """A placeholder for an array."""
        return Batched(self, x, batched)

    def run(self, spec: Spec, inputs: Sequence[Any],
            dtypes: Any) -> tuple[Batched, ...]:
        """Run `spec` for all samples, on the arrays that the placeholders hold."""
        if not self.running:
            raise KernelTypeError(
                f"vmap: a placeholder of {self.name} is used after the call; return "
                "from the function what is needed afterwards")
        held = [x.held if isinstance(x, Batched) and x.level is self else x
                for x in inputs]
        has = tuple([isinstance(x, Batched) and x.level is self and x.batched
                     for x in inputs])
        before = RECORDING.get()
        if before is not False:  # a walk inside does not record, but the tape outside
            RECORDING.set(self.recording)
        try:
            made = apply(spec, held, dtypes=dtypes) if not any(has) else \
                run_planned(spec, held, has, self.size, dtypes)
        finally:
            RECORDING.set(before)
        if self.recorder is not None:
            self.recorder.note(spec, held, has, dtypes, made)
        return tuple([self.hold(x, any(has)) for x in made])


#: The innermost `vmap` whose function is running.
LEVEL: ContextVar[Level | None] = ContextVar("nbfused_vmap", default=None)


#: By the class of functions with rules of their own, how one is called on samples.
SAMPLE_RULES: dict[type, Callable[[Any, Level, Sequence[Any]], Any]] = {}


#: How to do without one sample's truth, and without its value in a NumPy array.
_WAY = "choose between values with nf.ops.where"
_STORING = ("use NumPy's functions on it, numpy.stack([x, y]) in place of numpy.array, "
            "and store into what is made of a sample, as numpy.zeros_like(x)")


def _refuse(what: str, way: str = _WAY) -> Callable[..., NoReturn]:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise KernelTypeError(
            f"{self!r}: {what}, which vmap computes for all samples at once; {way}, or "
            "do this outside of the function")

    return refuse


def _refuse_write(symbol: str) -> Callable[..., NoReturn]:
    def refuse(self: Any, *args: Any) -> NoReturn:
        raise KernelTypeError(
            f"{self!r}: {symbol} changes an array in place, which vmap does not "
            "follow; make a new one, as in x = x + y or nf.ops.where(mask, y, x)")

    return refuse


class Batched(Traced, Variable):
    """One sample of many.

    Attributes
    ----------
    held
        The array of all, samples along axis 0; or the one that they share.
    batched
        Whether it has that axis.
    """

    __slots__ = ("batched", "held", "level")
    unknown: ClassVar[str] = "which is another for each sample of vmap"
    level: Level
    held: Any
    batched: bool

    def __new__(cls, level: Level, held: Any, batched: bool,
                edge: Edge | None = None) -> Any:
        """Make it: `Variable` of a placeholder is one that is there already."""
        made = object.__new__(cls)
        made._value, made._edge = None, edge
        made.level, made.held, made.batched = level, held, batched
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: `__new__` has made it."""

    @property
    def depth(self) -> int:
        """The deepest placeholder among the inputs says what a call does."""
        return self.level.depth

    @staticmethod
    def at(data: Any, edge: Edge | None) -> Batched:
        """The same samples with an edge of the graph."""
        made = data.level.hold(data.held, data.batched)
        made._edge = edge
        return made

    def plain(self) -> Batched:
        """The samples as they are now, without a place in the graph of the function."""
        return self.at(self, None)

    def separate(self) -> Batched:
        """The same samples, for the caller."""
        return self if self._edge is None else self.plain()

    def record(self, spec: Any, inputs: Sequence[Any], out: Sequence[Any] | None,
               options: dict[str, Any]) -> tuple[Any, ...]:
        """Run a spec for all samples; recorded inside of the function where wanted."""
        lifted = [self.level.lift(x) for x in inputs]
        _check_out(spec, out)
        made = record_traced(spec, lifted, None, options)
        if made is None:
            made = self.level.run(spec, lifted, options.get("dtypes"))
        if type(spec) is View and spec.rearranges:
            link_view(spec, lifted[0], made[0])
        return made

    def run(self, spec: Any, inputs: Sequence[Any], out: Sequence[Any] | None,
            options: dict[str, Any]) -> tuple[Any, ...]:
        """Run a spec for all samples, not recorded inside of the function."""
        _check_out(spec, out)
        return self.level.run(spec, inputs, options.get("dtypes"))

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Batched:
        """Zeros of another shape and dtype, the same for all samples."""
        held = zeros(shape, dtype, like_data(self.held))
        if self.level.recorder is not None:
            self.level.recorder.zeros(held, shape, dtype)
        return self.level.hold(held)

    def constant(self, host: np.ndarray, given: Sequence[Any] = ()) -> Batched:
        """An array that all samples share."""
        like = like_data(self.held)
        made = like.constant(host, given) if isinstance(like, Traced) else array_like(
            host, like)
        if self.level.recorder is not None:
            self.level.recorder.plain(made)
        return self.level.hold(made)

    def record_call(self, function: Callable[..., Any], args: Sequence[Any],
                    inline: Callable[[Sequence[Any]], Any]) -> Any:
        """Call a function that has a rule of its own."""
        owner = getattr(function, "__self__", function)
        kind = owner if isinstance(owner, type) else type(owner)
        rule = next((rule for base, rule in SAMPLE_RULES.items()
                     if issubclass(kind, base)), None)
        if rule is None:
            name = getattr(function, "__qualname__", repr(function))
            raise KernelTypeError(
                f"vmap: {name} is a Python function with a derivative of its own, and "
                "has no rule for many samples at once; write it with nf.custom_vjp or "
                "nf.custom_jvp, or call it in a loop")
        return rule(owner, self.level, args)

    def record_callback(self, callback: Any, args: Sequence[Any]) -> tuple[Any, ...]:
        """Refuse a function outside, which is one of a sample."""
        raise KernelTypeError(
            f"vmap: {callback.__name__} is a callback, which is called with one "
            "sample; call it in a loop, or let it take all samples outside of vmap")

    def variable(self, requires_grad: bool) -> Batched:
        """The same samples; nothing collects a gradient of one of them."""
        if requires_grad:
            self.requires_grad = True
        return self.plain()

    def record_check(self, check: Callable[[Any], Any]) -> None:
        """Check all samples."""
        if isinstance(self.held, Traced):
            self.held.record_check(check)
            return
        check(self.held)
        if self.level.recorder is not None:
            self.level.recorder.check(check, self.held)

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape of a sample."""
        return extents(self.held)[self.batched:]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a sample."""
        return tuple(self.held.shape)[self.batched:]

    @property
    def dtype(self) -> np.dtype:
        """A NumPy dtype."""
        held = self.held  # asked for often
        return held.dtype if type(held) is np.ndarray else dtype_of(held)

    @property
    def ndim(self) -> int:
        """Dimensions of a sample."""
        return len(self.extents)

    @property
    def size(self) -> int:
        """Number of elements of a sample."""
        return prod(self.shape)

    @property
    def gives_scalars(self) -> bool:
        """Whether its elements are numbers of their own, as those of NumPy's arrays."""
        held = self.held
        return isinstance(held, np.ndarray) or getattr(held, "gives_scalars", False)

    @property
    def device(self) -> str:
        """The name of the device."""
        return Variable(self.held).device

    @property
    def data(self) -> Any:
        """The same samples without a place in the graph inside of the function."""
        return self if self._edge is None else self._same(self.plain())

    @data.setter
    def data(self, value: Any) -> None:
        _refuse_write("an assignment to data")(self)

    @property
    def requires_grad(self) -> bool:
        """Whether a transform inside of the function differentiates by it."""
        return self._edge is not None

    @requires_grad.setter
    def requires_grad(self, want: bool) -> None:
        raise NotDifferentiableError(
            f"{self!r}: requires_grad is not set inside of vmap; differentiate there "
            "with nf.grad, nf.value_and_grad or nf.vjp")

    def detach(self) -> Batched:
        """The same samples, not differentiated through inside or outside."""
        held = self.held
        return self._same(Batched(
            self.level, held.detach() if hasattr(held, "detach") else held,
            self.batched))

    def untaped(self) -> Any:
        """The same samples in their library's own array, unless a tape follows it.

        Rules compute with Variables, also of plain arrays.
        """
        held = self.held
        if isinstance(held, Traced):
            return self._same(Batched(self.level, held.untaped(), self.batched))
        if not isinstance(held, Variable) or held.requires_grad:
            return self
        return self._same(Batched(self.level, held.data, self.batched))

    def _same(self, other: Batched) -> Batched:
        """Note that another placeholder has the memory of this one."""
        other._of = self, None
        return other

    __bool__ = _refuse("if, while, and, or, not need its truth")
    __int__ = __index__ = _refuse("int() needs its value")
    __float__ = _refuse("float() needs its value", _STORING)
    __complex__ = _refuse("complex() needs its value")
    __array__ = _refuse("a NumPy array needs its values", _STORING)
    item = _refuse("item() needs its value")
    to_numpy = numpy = _refuse("to_numpy() needs its values")
    backward = _refuse(
        "backward() needs the graph of one loss")
    def equals(self, other: Traced) -> bool:
        """Whether they hold the same array."""
        return isinstance(other, Batched) and self.held is other.held

    def __getitem__(self, key: Any) -> Any:
        made = super().__getitem__(key)
        if isinstance(made, Batched) and (not is_basic(key) or (
                self.gives_scalars and is_scalar(made, key))):
            made._of = None  # a copy, whatever views it was made by
        return made

    __setitem__ = assign
    __iadd__, __isub__ = in_place("add", "+"), in_place("sub", "-")
    __imul__, __itruediv__ = in_place("mul", "*"), in_place("truediv", "/")
    __ifloordiv__, __imod__ = in_place("floordiv", "//"), in_place("mod", "%")
    __ipow__, __imatmul__ = in_place("pow", "**"), in_place("matmul", "@")
    __iand__, __ior__ = in_place("and_", "&"), in_place("or_", "|")
    __ixor__ = in_place("xor", "^")
    __ilshift__, __irshift__ = in_place("lshift", "<<"), in_place("rshift", ">>")

    def __copy__(self) -> Batched:
        return self.at(self, self._edge)

    def __deepcopy__(self, memo: Any) -> Batched:
        return self.__copy__()

    def __repr__(self) -> str:
        return (f"<one of {self.level.size} samples, {self.dtype} {self.extents}>"
                if self.batched else f"<shared array, {self.dtype} {self.extents}>")

    def _repr_html_(self) -> str:
        return repr(self).replace("<", "&lt;")


def like_data(x: Any) -> Any:
    """The array of a Variable; a placeholder itself."""
    return x.data if isinstance(x, Variable) and not isinstance(x, Traced) else x


def _check_out(spec: Any, out: Sequence[Any] | None) -> None:
    if out is not None and any(o is not None for o in out):
        raise KernelTypeError(
            f"vmap: {spec.name} stores into a given array, which vmap does not follow; "
            "leave out= away and return the result")
