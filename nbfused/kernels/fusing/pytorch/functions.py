"""Functions of PyTorch on what `fuse` traces: torch is not imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ....arrays import dtype_of
from ....errors import KernelTypeError
from ....registry.operations import OPS
from ....scalar.language.vocabulary import OPS as VOCABULARY
from ....support.dtypes import rank_of
from ....support.trees import leaves_of
from ..calling.calls import call_library
from ..calling.steps import is_differentiated
from ..symbols.arrays import Symbol
from . import arrays, networks, reductions  # noqa: F401  (they enter rows)
from .dtypes import converted, promoted, tensor_type, torch_dtype
from .gradients import TorchGradient, Watched
from .table import TORCH

__all__ = ["torch_function", "torch_recording", "torch_records"]

#: PyTorch's names of ops that NumPy calls otherwise.
_NAMES = {
    **{name: op.implementation.__name__ for op in VOCABULARY.values()
       for name in op.torch},
    "amax": "max", "amin": "min", "mm": "matmul", "bmm": "matmul", "rsub": "subtract",
}
#: Reductions whose results and options are NumPy's, but for the names `dim`, `keepdim`.
_REDUCTIONS = frozenset({"sum", "prod", "mean", "logsumexp", "all", "any", "argmax",
                         "argmin"})
#: Functions along an axis.
_ALONG = frozenset({"softmax", "log_softmax"})
_OPTIONS = {"dim": "axis", "keepdim": "keepdims"}
#: Those that count in int64, whatever the integers.
_COUNTING = frozenset({"sum", "prod"})
#: Those to which no axis at all means all of them.
_OF_ALL = frozenset({"sum", "mean", "max", "min"})

#: Methods that store what they are given, in the dtype of the tensor.
_STORING = frozenset({"copy_", "fill_", "zero_"})

#: Functions that move or read tensors, or give another library's.
_REFUSED = frozenset({"cpu", "cuda", "data_ptr", "get_device", "is_contiguous", "numpy",
                      "stride", "storage", "untyped_storage", "tensor"})


def torch_records() -> bool:
    """True if PyTorch differentiates at present."""
    return bool(sys.modules["torch"].is_grad_enabled())


def torch_recording() -> AbstractContextManager[None]:
    """A context in which PyTorch differentiates."""
    found: AbstractContextManager[None] = sys.modules["torch"].enable_grad()
    return found


def torch_function(name: str, args: Sequence[Any], kwargs: Mapping[str, Any],
                   function: Callable[..., Any] | None = None) -> Any:
    """``torch.name(*args, **kwargs)`` as an op, or as a call of `function`.

    Raises
    ------
    KernelTypeError
        There is no op of that name with the same meaning.
    """
    if name.endswith("_") and not name.endswith("__"):
        return _in_place(name, args, kwargs)
    given = name.strip("_")
    if (row := TORCH.get(given)) is not None:
        made = row(args, kwargs)
        return _called(given, args, kwargs, function) if made is NotImplemented \
            else made
    name = _NAMES.get(given, given)
    op = OPS.get(name)
    if name in _REDUCTIONS | _ALONG or given in ("amax", "amin"):
        return _call_reduction(name, args, kwargs)
    if name == "where" and len(args) == 3 and not kwargs:
        found = promoted(lambda x, y: OPS["where"](args[0], x, y), args[1:])
        return converted(found, tensor_type(args[1:]))  # two numbers give the default
    if name == "rint" and rank_of(dtype_of(args[0])) == 1:
        name, op = "positive", OPS["positive"]  # NumPy makes floats of integers
    if op is None or not (hasattr(op, "nin") or name in ("matmul", "power", "gelu")) \
            or kwargs:
        return _called(given, args, kwargs, function)
    return promoted(op, args[::-1] if given == "rsub" else args)


def _called(name: str, args: Sequence[Any], kwargs: Mapping[str, Any],
            function: Callable[..., Any] | None) -> Any:
    """PyTorch's own function, as a call between the launches."""
    function = function or getattr(sys.modules["torch"].Tensor, name, None)
    symbol = next((x for x in leaves_of((args, kwargs)) if isinstance(x, Symbol)),
                  None)
    if function is None or symbol is None or name in _REFUSED:
        refuse = KernelTypeError if symbol is None else symbol.tracer.refuse
        raise refuse(
            f"torch.{name}: nf.fuse does not trace it; use functions of nf.ops, or "
            "call it outside of the fused function")
    return call_library(
        symbol.tracer, f"torch.{name}", Watched(name, function, is_differentiated(
            [*leaves_of((args, kwargs))])), args, kwargs, TorchGradient)


def _in_place(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A function that changes its first argument, as PyTorch's with an underscore."""
    if not isinstance(args[0], Symbol):
        raise KernelTypeError(f"torch.{name}: nf.fuse cannot change a tensor in place "
                              "that is no argument of the function; pass it as one")
    if name in _STORING and not kwargs:
        new = 0 if name == "zero_" else args[1]
        args[0].tracer.assign(args[0], new, casting="unsafe")
    else:
        args[0].tracer.assign(args[0], torch_function(name[:-1], args, kwargs))
    return args[0]


def _call_reduction(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A reduction, or a function along an axis."""
    named = {_OPTIONS.get(k, k): v for k, v in kwargs.items()}
    named |= dict(zip(("axis", "keepdims"), args[1:], strict=False))
    named.pop("_stacklevel", None)  # of torch.nn.functional, for its warnings
    if isinstance(named.get("axis"), list):
        named["axis"] = tuple(named["axis"])
    if named.get("axis") == () and name in _OF_ALL:
        del named["axis"]
    wanted = named.pop("dtype", None)
    if wanted is not None:
        dtype = torch_dtype(wanted)
        counted = {"dtype": dtype} if name in _COUNTING else {}
        return OPS[name](OPS["astype"](args[0], dtype), **named, **counted)
    if name in _COUNTING and dtype_of(args[0]).kind in "biu":
        named["dtype"] = np.dtype(np.int64)
    return promoted(lambda x: OPS[name](x, **named), args[:1])
