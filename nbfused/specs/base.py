"""The base of all specs: what each says of itself, and how derivatives are written."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..errors import KernelTypeError
from ..scalar.ir.nodes import Function
from ..support.records import record

if TYPE_CHECKING:
    import numpy as np

    from ..scalar.typing.types import Type
    from ..support.loop_nests import Frame, Layout

__all__ = ["IMPLICIT", "KEPT", "Batching", "Hashed", "Operand", "Parameters",
           "Program", "Pullback", "Ref", "Shape", "Spec", "Step", "functions_in",
           "parameters", "with_scalars"]

Shape = tuple[int, ...]
#: Kind and name of each input of a call.
Parameters = tuple[tuple[str, str], ...]

#: Kinds of a function's parameters that are not inputs of the call.
IMPLICIT = ("index", "size", "scatter", "inside")

#: Specs of which a cache knows something after nobody uses them any more, so that who
#: makes an equal one finds it again.  A spec has its kernels (`dispatch.calls`), on the
#: cpu 0.1 MB each: so this bounds what programs keep that make new ones all the time.
KEPT = 512


class Hashed:
    """A frozen record that computes its hash once: specs key every cache."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __hash__(self) -> int:
        cached = self.__dict__.get("_hash")
        if cached is None:
            cached = hash((type(self).__name__,
                           *(getattr(self, f.name) for f in fields(self))))
            self.__dict__["_hash"] = cached
        return int(cached)

    def __getstate__(self) -> dict[str, Any]:
        """The fields: what was found out here (hash, calls) is of this process."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@record(frozen=True)
class Ref:
    """Names an array of a pullback.

    An input or output of the primal call, the cotangent of an output, or an output of
    an earlier step (`index`, `output`).
    """

    source: Literal["input", "output", "cotangent", "step"]
    index: int
    output: int = 0


#: What a step reads: an array, or a number that is passed by value.
Operand = Ref | int | float


@record(frozen=True)
class Step:
    """Run `spec` on `inputs`; each output takes the dtype of the array `like`."""

    spec: Spec
    inputs: tuple[Operand, ...]
    like: tuple[Ref | None, ...]


@record(frozen=True)
class Pullback:
    """A derivative as a straight line of specs.

    Attributes
    ----------
    forward
        The spec to run in the primal's place: the same results first, then what
        must be saved (a reduction's state, a product's accumulator).  Its own
        pullback has itself as forward.
    steps
        What the backward pass runs, in order.
    results
        Per input, the array that holds its cotangent, or None where it is zero.
        Its dtype may still differ from the input's.
    """

    forward: Spec
    steps: tuple[Step, ...]
    results: tuple[Ref | None, ...]

    def keeps(self, source: str) -> frozenset[int]:
        """Indices of the primal's inputs or outputs whose data the steps read."""
        return frozenset(r.index for s in self.steps for r in s.inputs
                         if isinstance(r, Ref) and r.source == source)


@record(frozen=True)
class Batching:
    """A spec run for many samples at once, as a straight line of specs.

    Attributes
    ----------
    steps
        What to run, in order.  `Step.like` names the outputs of the call whose dtypes
        they take.
    results
        For each output of the call, the array that holds it for all samples.
    """

    steps: tuple[Step, ...]
    results: tuple[Ref, ...]


class Spec(Hashed):
    """A skeleton filled with scalar functions, in a frozen record.

    What is abstract each has to say; the rest has answers that are true of most.  All
    of it is asked when a call is planned, `launches` at each.

    Attributes
    ----------
    launches
        Whether it runs as a kernel.
    pointwise
        Whether each point of the results depends on the inputs of kind ``"element"`` at
        that point only.
    """

    launches: ClassVar[bool] = True
    pointwise: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The name for kernels and messages."""

    @property
    def kernel(self) -> Spec:
        """The spec without what only moves strides (axes, permutations)."""
        return self

    def kernel_for(self, frame: Frame, types: tuple[Type, ...]) -> Spec:
        """`kernel`, or what computes the same in these loops with less."""
        return self.kernel

    @property
    @abstractmethod
    def parameters(self) -> Parameters:
        """Kind and name of each input of a call.

        The kind ``"scalar"`` is a number; a ``"raw"`` array has no loops, the
        functions index it.  What others mean is the spec's own.
        """

    @property
    def functions(self) -> tuple[Function, ...]:
        """The scalar functions that show what it computes."""
        return ()

    @property
    def scatter_shapes(self) -> tuple[Shape, ...]:
        """Shapes of the last outputs, those without loops: functions index them.

        They are zero at first, unless the caller gave them.
        """
        return ()

    @property
    def rearranges(self) -> bool:
        """Whether the result is but elements of the first input, at other places."""
        return False

    def reads_in_place(self, position: int) -> bool:
        """Whether this input may be the array that a result is stored in.

        It is read nowhere but at the point that is stored, and before that.
        """
        return self.pointwise and self.parameters[position][0] == "element"

    @property
    def fixes_extents(self) -> bool:
        """Whether extents are in the spec, so that it fits these shapes only."""
        return bool(self.scatter_shapes)

    @abstractmethod
    def out_shapes(self, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """Shapes of the outputs for these input shapes; `ShapeError` if they clash."""

    def frame(self, operands: Sequence[Layout], names: Sequence[str] = (),
              target: Shape | None = None) -> Frame:
        """The loops of a call.

        Parameters
        ----------
        operands
            Of the inputs that are arrays with loops, neither numbers nor raw.
        names
            Theirs, for messages.
        target
            The shape of a given output, to which a spec may repeat its inputs.

        Raises
        ------
        ShapeError
            The operands do not fit together.
        KernelTypeError
            The spec is none that is called on arrays so.
        """
        raise KernelTypeError(f"{self!r} is no spec that launches a kernel")

    def zeros(self, frame: Frame) -> tuple[int, ...]:
        """Numbers of the outputs with loops that the kernel needs to be zero before."""
        return ()

    @abstractmethod
    def result_types(self, types: tuple[Type, ...]) -> tuple[np.dtype, ...]:
        """Dtypes of the outputs, NumPy's rules (NEP 50)."""

    @abstractmethod
    def typed(self, types: tuple[Type, ...], outputs: tuple[np.dtype, ...] = ()) -> Any:
        """The record that a backend prints, every value typed."""

    @abstractmethod
    def vjp(self, needs: tuple[bool, ...], shapes: tuple[Shape, ...],
            present: tuple[bool, ...]) -> Pullback:
        """Cotangents of the inputs that `needs` marks, from the present ones."""

    def batched(self, batched: tuple[bool, ...], shapes: tuple[Shape, ...],
                size: int) -> Batching | None:
        """The same for `size` samples, along a new first axis of inputs and outputs.

        Parameters
        ----------
        batched
            The inputs that have that axis; at least one.
        shapes
            Of the inputs, for one sample.

        Returns
        -------
        Batching or None
            None if there is no rule.
        """
        return None

    def with_numbers(self, numbers: Sequence[bool]) -> Spec | None:
        """The same, called with numbers for the inputs marked; None if it cannot be."""
        return None

    def with_ones(self, ones: tuple[np.dtype | None, ...]) -> Spec | None:
        """The same without the inputs that have a dtype here: they are 1 everywhere.

        None if it cannot do without them.
        """
        return None


def functions_in(part: Any) -> Iterator[Function]:
    """All scalar functions in a spec and in the records that it is made of."""
    if isinstance(part, Function):
        yield part
    elif isinstance(part, tuple):
        for p in part:
            yield from functions_in(p)
    elif is_dataclass(part):
        for f in fields(part):
            yield from functions_in(getattr(part, f.name))


def parameters(kinds: Sequence[str], names: Sequence[str]) -> Parameters:
    """The parameters of a function that are inputs of the call."""
    return tuple((kind, name) for kind, name in zip(kinds, names, strict=True)
                 if kind not in IMPLICIT)


def with_scalars(kinds: Sequence[str], numbers: Sequence[bool]) -> tuple[str, ...]:
    """The kinds of a function's parameters, with numbers for the inputs marked."""
    given = iter(numbers)
    return tuple("scalar" if kind not in IMPLICIT and next(given) else kind
                 for kind in kinds)


@record
class Program:
    """Steps under construction."""

    steps: list[Step] = field(default_factory=list)

    def run(self, spec: Spec, *inputs: Operand,
            like: tuple[Ref | None, ...] = (None,)) -> tuple[Ref, ...]:
        """Append a step; its outputs."""
        self.steps.append(Step(spec, inputs, like))
        index = len(self.steps) - 1
        return tuple(Ref("step", index, k) for k in range(len(like)))

    def extend(self, steps: tuple[Step, ...],
               replace: Mapping[Ref, Ref]) -> dict[Ref, Ref]:
        """Append another program's steps with its references replaced.

        Returns the map of references, the steps' own included.
        """
        table = dict(replace)

        def operand(r: Any) -> Any:
            return table.get(r, r) if isinstance(r, Ref) else r

        for index, s in enumerate(steps):
            outs = self.run(s.spec, *map(operand, s.inputs),
                            like=tuple(map(operand, s.like)))
            for k, out in enumerate(outs):
                table[Ref("step", index, k)] = out
        return table
