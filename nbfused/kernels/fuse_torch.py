"""Functions of PyTorch on what `fuse` traces, by their names: torch is not imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import KernelTypeError
from ..table import OPS

__all__ = ["torch_function"]

#: PyTorch's names of ops that NumPy calls otherwise.
_NAMES = {
    "abs": "absolute", "acos": "arccos", "asin": "arcsin", "asinh": "arcsinh",
    "atan": "arctan", "atan2": "arctan2", "div": "divide", "eq": "equal",
    "floor_divide": "floor_divide", "ge": "greater_equal", "gt": "greater",
    "le": "less_equal", "lt": "less", "mm": "matmul", "bmm": "matmul",
    "mul": "multiply", "ne": "not_equal", "neg": "negative", "pow": "power",
    "round": "rint", "rsub": "subtract", "sub": "subtract", "true_divide": "divide",
}
#: Reductions whose results and options are NumPy's, but for the names `dim`, `keepdim`.
_REDUCTIONS = frozenset({"sum", "prod", "mean", "logsumexp", "all", "any", "argmax",
                         "argmin"})
_ALONG = frozenset({"softmax", "log_softmax"})
_OPTIONS = {"dim": "axis", "keepdim": "keepdims"}


def torch_function(function: Callable[..., Any], args: tuple[Any, ...],
                   kwargs: Mapping[str, Any]) -> Any:
    """``function(*args, **kwargs)`` of PyTorch as an op.

    Raises
    ------
    KernelTypeError
        There is no op of that name with the same meaning.
    """
    given = function.__name__.strip("_")
    name = _NAMES.get(given, given)
    op = OPS.get(name)
    if name in _REDUCTIONS | _ALONG:
        named = {_OPTIONS.get(k, k): v for k, v in kwargs.items()}
        named |= dict(zip(("axis", "keepdims"), args[1:], strict=False))
        return OPS[name](args[0], **named)
    if op is None or not (hasattr(op, "nin") or name in ("matmul", "power", "gelu")) \
            or kwargs:
        raise KernelTypeError(
            f"torch.{given}: nf.fuse does not trace it with these arguments; use "
            "functions of nf.ops, wrap it in an nf.Function, or call it outside of the "
            "fused function")
    return op(*(args[::-1] if given == "rsub" else args))
