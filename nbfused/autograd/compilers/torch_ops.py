"""Ops of `torch.library`, made where they are first called.

Each call that PyTorch traces is a pair of overloads.  ``nbfused::swish_1f`` is what
users see: PyTorch's tape records it, by `torch_gradient`.  It calls
``nbfused::swish_1f.run``, which computes and which nothing differentiates: that one is
left in compiled programs, and costs a call into Python and no more.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ...arrays import dtype_of
from ...arrays.dtypes import SUPPORTED
from ...scalar.typing.python_numbers import number_type
from ...scalar.typing.types import Type, Weak
from ...support.forks import free_in_child
from ..tape import apply
from .identity import Call, Part, identifier, store
from .pulling import result_dtypes
from .torch_kernels import computing
from .torch_names import MAKING, NAMESPACE, install, library
from .torch_tangents import FUNCTIONS, moves, tangents_of, with_tangents

if TYPE_CHECKING:
    from .torch_callables import CallableOp

__all__ = ["TorchOp", "define", "exact", "spec_of", "symbolic_first", "torch_dtypes",
           "types_of"]

_LOCK = free_in_child(threading.RLock())
_DEFINED: dict[str, Any] = {}


class TorchOp:
    """The pair of overloads of one call.

    Attributes
    ----------
    call
        What it computes.
    recorded, run
        The overloads, which PyTorch's tape does and does not record.
    """

    def __init__(self, call: Call, name: str) -> None:
        self.call, self.name = call, name
        self._function: CallableOp | None = None
        arguments = ", ".join(
            f"{'Tensor' if kind is None else 'Scalar'} {label}" for kind, label in
            zip(call.numbers, _labels(call), strict=True))
        results = ", ".join(["Tensor"] * call.outputs)
        schema = f"({arguments}) -> " + (
            results if call.outputs == 1 else f"({results})")
        lib, torch = library(), sys.modules["torch"]
        for overload in (name, f"{name}.run"):
            lib.define(overload + schema)
            lib.impl(overload, computing(call), "CompositeExplicitAutograd")
            torch.library.register_fake(f"{NAMESPACE}::{overload}", self.infer, lib=lib)
            torch.library.register_vmap(f"{NAMESPACE}::{overload}", self.batch, lib=lib)
        lib.impl(name, self.record, "Autograd")
        packet = getattr(torch.ops.nbfused, name)
        self.recorded, self.run = packet.default, packet.run

    def infer(self, *args: Any) -> Any:
        """Tensors like the results, without elements."""
        like = symbolic_first(args)
        made = [like.new_empty(shape, dtype=torch_dtypes()[dtype])
                for shape, dtype in self._avals(*args)]
        return made[0] if len(made) == 1 else tuple(made)

    def _avals(self, *args: Any) -> list[tuple[tuple[Any, ...], np.dtype]]:
        """Shape and dtype of each result."""
        call = self.call
        values = call.values(args)
        try:
            shapes = call.spec.out_shapes(tuple(map(_shape, values)))
        except TypeError:  # the rule keeps shapes in a table: they have to be numbers
            shapes = call.spec.out_shapes(tuple(map(exact, map(_shape, values))))
        return [*zip(shapes, result_dtypes(call, types_of(values)), strict=True)]

    def record(self, *args: Any) -> Any:
        """Run it and let PyTorch's tape record it, if a gradient is wanted."""
        torch = sys.modules["torch"]
        found = tangents_of(args)
        recorded = torch.is_grad_enabled() and any(
            getattr(x, "requires_grad", False) for x in args)
        if found is not None and not recorded:
            return self._with_tangents(*found)
        if recorded:
            from .torch_gradient import record

            return record(self, args)
        return self.unrecorded(args)

    def _with_tangents(self, args: Sequence[Any], tangents: dict[int, Any]) -> Any:
        """Run it, and push tangents of its arguments forward."""
        made = self.recorded(*args)
        results = made if isinstance(made, (tuple, list)) else (made,)
        if not any(map(moves, results)):
            return made
        found = with_tangents(results, self.as_function().push(tuple(tangents))(
            *args, *tangents.values()))
        return found[0] if len(found) == 1 else tuple(found)

    def as_function(self) -> CallableOp:
        """The same as a function, from which others are derived."""
        if self._function is None:
            self._function = FUNCTIONS[0](
                self.name.rpartition("_")[0], self._applied, self._avals,
                [kind is not None for kind in self.call.numbers])
        return self._function

    def _applied(self, *args: Any) -> tuple[Any, ...]:
        return apply(self.call.spec, self.call.values(args), dtypes=self.call.asked)

    def unrecorded(self, args: Sequence[Any]) -> Any:
        """Run it where the tape is through with it; a transform outside may record."""
        torch_c = sys.modules["torch"]._C
        if not torch_c._are_functorch_transforms_active():
            return self.run(*args)
        with torch_c._AutoDispatchBelowAutograd():
            return self.recorded(*args)

    def batch(self, info: Any, in_dims: Sequence[int | None], *args: Any) -> Any:
        """Run it for the samples of `torch.func.vmap`."""
        from .torch_calls import run_samples

        made = run_samples(self.call, info.batch_size, in_dims, args)
        return (made[0], 0) if self.call.outputs == 1 else (
            tuple(made), (0,) * len(made))


def define(part: Part) -> Any:
    """The op of a call or of its gradient, made if it is new."""
    name = identifier(part)
    with _LOCK:
        found = _DEFINED.get(name)
        if found is None:
            from .torch_gradient import GradientOp

            install()
            kind: Any = TorchOp if isinstance(part, Call) else GradientOp
            MAKING.add(name)
            try:
                found = _DEFINED[name] = kind(part, name)
            finally:
                MAKING.discard(name)
            store(name, part)
        return found


def spec_of(name: str) -> Any:
    """The spec that the op of a name runs; None if it runs another thing."""
    return getattr(getattr(_DEFINED.get(name), "call", None), "spec", None)


def types_of(values: Sequence[Any]) -> tuple[Type, ...]:
    """Dtypes of tensors, and types of numbers, which may be symbols."""
    return tuple([_type(x) for x in values])


def _type(x: Any) -> Type:
    torch = sys.modules["torch"]
    for symbol, kind in ((torch.SymBool, "bool"), (torch.SymInt, "int"),
                         (torch.SymFloat, "float")):
        if isinstance(x, symbol):
            return Weak(kind)
    if isinstance(x, torch.Tensor):
        return dtype_of(x)
    return number_type(x)


def symbolic_first(args: Sequence[Any]) -> Any:
    """The first tensor among arguments."""
    tensor = sys.modules["torch"].Tensor
    return next(x for x in args if isinstance(x, tensor))


def exact(shape: Sequence[Any]) -> tuple[int, ...]:
    """A shape in numbers, to which a compiled program is tied then."""
    return tuple(map(int, shape))


@cache
def torch_dtypes() -> dict[np.dtype, Any]:
    """PyTorch's dtypes by NumPy's; older versions lack some."""
    torch = sys.modules["torch"]
    return {dtype: getattr(torch, dtype.name) for dtype in SUPPORTED
            if hasattr(torch, dtype.name)}


def _shape(x: Any) -> tuple[Any, ...]:
    return tuple(getattr(x, "shape", ()))


def _labels(call: Call) -> list[str]:
    """Names of the parameters, which have to be different."""
    names = [name for _, name in call.spec.parameters]
    return names if len({*names}) == len(names) and all(
        map(str.isidentifier, names)) else [f"x{k}" for k in range(len(names))]
