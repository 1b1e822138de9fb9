"""Keywords of calls: the signature that shows them, refusals of unknown ones.

NumPy's keywords that an operation does not have itself are those of the table of
NumPy's functions, which honours them, or refuses them by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter
from types import MappingProxyType
from typing import Any

from ..errors import KernelTypeError
from ..registry.operations import NAMESPACES

__all__ = ["CallSignature", "as_numpy", "check_keywords", "other_keywords",
           "suggestion"]

#: PyTorch's names of options.
_TORCH_NAMES = {"dim": "axis", "keepdim": "keepdims"}


class CallSignature:
    """The ``__signature__`` of an op: its function's parameters, then its options.

    `inspect.signature`, ``help`` and editors read it.  The class has none of its own.
    """

    def __get__(self, op: Any, owner: type | None = None) -> inspect.Signature:
        if op is None:
            raise AttributeError("__signature__")
        call = [p.replace(annotation=p.empty) for p in
                inspect.signature(type(op).__call__).parameters.values()]
        options = {p.name: p for p in call if p.kind is p.KEYWORD_ONLY}
        own = [p for n, p in op.signature.parameters.items() if n not in options]
        leading = [p for p in call if p.kind is p.POSITIONAL_OR_KEYWORD][1:]
        if leading:  # of a product: the first parameter is the accumulator
            taken = {p.name for p in leading}
            own = [*leading, *(p.replace(name=f"{p.name}_") if p.name in taken else p
                               for p in own[1:])]
        names = {p.name for p in own}
        more = [Parameter(name, Parameter.KEYWORD_ONLY, default=default)
                for name, default in op.keywords.items() if name not in names]
        return inspect.Signature([*own, *options.values(), *more])


def suggestion(given: Iterable[str], known: Sequence[str]) -> str:
    """Name the keywords that unknown ones may have meant; "" if there are none."""
    from difflib import get_close_matches  # late: for errors only

    given = list(given)
    torch = [f"{_TORCH_NAMES[name]!r} is what PyTorch calls {name!r}" for name in given
             if _TORCH_NAMES.get(name) in known]
    if torch:
        return "; " + ", ".join(torch)
    near = [match for name in given for match in get_close_matches(name, known, 1)]
    return f"; did you mean {', '.join(map(repr, near))}?" if near else ""


def check_keywords(name: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise `KernelTypeError` if a call was given keywords besides those `known`.

    Parameters
    ----------
    name
        How the message calls what was called.
    """
    unknown = [keyword for keyword in given if keyword not in known]
    if unknown:
        raise KernelTypeError(
            f"{name}: got an unexpected keyword argument {unknown[0]!r}; by keyword it "
            f"takes {', '.join(known)}{suggestion(unknown, known)}")


def as_numpy(name: str, *args: Any, dtype: Any = None, out: Any = None,
             **keywords: Any) -> Any:
    """Call NumPy's function of a name as the table has it, on arrays of any library."""
    for option, value in (("dtype", dtype), ("out", out)):
        if value is not None:  # not every function of NumPy has them
            keywords[option] = value
    return NAMESPACES["numpy"](name)(*args, **keywords)


def other_keywords(function: Callable[..., Any],
                   known: Iterable[str]) -> Mapping[str, Any]:
    """Keywords of a function of NumPy beside its operand and `known` ones."""
    _, *rest = inspect.signature(function).parameters.values()
    return MappingProxyType({p.name: p.default for p in rest if p.name not in known})
