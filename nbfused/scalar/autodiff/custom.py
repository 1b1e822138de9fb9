"""Functions that keep derivative rules of their own: one `Custom` statement."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from ...errors import KernelTypeError
from ...support.records import record
from ..ir.build import Builder
from ..ir.clean import has_effects
from ..ir.nodes import (
    Block,
    Custom,
    Function,
    Literal,
    Value,
    array_args,
    literal,
    raw_params,
)
from ..source.structure import Array, Struct, fill, leaves

__all__ = ["Rules", "recursive_call", "with_rules"]

#: ``parse(pyfunc, parameters=...)``.
Parse = Callable[..., Function]

_ZERO = literal(0.0)

#: The functions whose rules are being parsed, with what was said of their parameters.
_RULED: ContextVar[tuple[tuple[Any, dict[str, Any], Function], ...]] = \
    ContextVar("ruled", default=())


@record
class Rules:
    """The derivative rules of a scalar function, as Python functions.

    Attributes
    ----------
    vjp
        Takes the arguments, then a cotangent for each result, or one tuple or struct
        of them as the results are; gives a cotangent for each argument that is no
        array.
    jvp
        Takes the arguments, then a tangent for each that is no array, or for each at
        all; gives a tangent for each result.
    """

    vjp: Callable[..., Any] | None = None
    jvp: Callable[..., Any] | None = None

    def __bool__(self) -> bool:
        return self.vjp is not None or self.jvp is not None


def with_rules(parse: Parse, pyfunc: Callable[..., Any], rules: Rules,
               given: Mapping[str, Any] | None) -> Function:
    """The function of `pyfunc`, as a call that is differentiated by `rules`.

    Raises
    ------
    KernelTypeError
        A rule takes or gives another number of values than it has to.
    """
    function = parse(pyfunc, parameters=given)
    made = _Ruled(parse, pyfunc, function, given)
    token = _RULED.set((*_RULED.get(), (pyfunc, _said(given), function)))
    try:
        vjp, jvp = made.vjp(rules.vjp), made.jvp(rules.jvp, rules.vjp)
    finally:
        _RULED.reset(token)
    return _one_call(function, made.filled(vjp), jvp)


def _one_call(function: Function, vjp: Function | None, jvp: Function | None,
              recursive: bool = False) -> Function:
    """The function as a call of itself, with rules."""
    builder = Builder(function.params)
    results = tuple(builder.fresh("r") for _ in function.results)
    call = Custom(results, function, function.params, vjp, jvp, function.line,
                  recursive)
    return Function(function.name, function.params, Block((call,), results),
                    function.pyfile, function.line, shape=function.shape)


def recursive_call(target: Any, given: Mapping[str, Any] | None) -> Function | None:
    """The function that `target` is where one of its own rules calls it, else None.

    `given` are its parameters, as `parse` takes them.
    """
    pyfunc = getattr(target, "pyfunc", None)
    for ruled, said, function in _RULED.get():
        if ruled is pyfunc and said == _said(given):
            return _one_call(function, None, None, recursive=True)
    return None


def _said(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The parts of `given` for parameters that are not just numbers."""
    return {p: v for p, v in (given or {}).items() if v is not None}


class _Ruled:
    """Parses the rules of `function`, whose parameters are what `given` says."""

    def __init__(self, parse: Parse, pyfunc: Callable[..., Any], function: Function,
                 given: Mapping[str, Any] | None) -> None:
        self.parse, self.function, self.given = parse, function, given
        self.params = list(inspect.signature(pyfunc).parameters)

    def error(self, what: str, text: str) -> KernelTypeError:
        return KernelTypeError(f"the {what} rule of {self.function.name} {text}")

    def vjp(self, pyfunc: Callable[..., Any] | None) -> Function | None:
        """The rule that takes a cotangent for each result."""
        if pyfunc is None:
            return None
        more: list[Any] = [None] * len(self.function.results)
        one = len(_names(pyfunc)) == len(self.params) + 1
        if one and len(more) > 1:  # as the results are: a tuple, or a struct
            more = [fill(self.function.shape, more)]
        return self.rule(pyfunc, "vjp", more, "a cotangent for each result")

    def jvp(self, pyfunc: Callable[..., Any] | None,
            vjp: Callable[..., Any] | None) -> Function | None:
        """The rule that takes a tangent for each number, or for arrays too."""
        if pyfunc is None:
            return None
        arrays = self.arrays(vjp and self.vjp(vjp))
        ranks = iter(_ranks(self.given, self.params))
        every = [next(ranks, Array()) if a else None for a in arrays]
        count = len(_names(pyfunc)) - len(self.params)
        more = every if count == len(every) else [None] * arrays.count(False)
        made = self.rule(pyfunc, "jvp", more, "a tangent for each number")
        self.check_jvp(made)
        return made

    def rule(self, pyfunc: Callable[..., Any], what: str, more: Sequence[Any],
             added: str) -> Function:
        """A rule: its first parameters are those of the function, then `more`."""
        names, own = _names(pyfunc), len(self.params)
        if len(names) != own + len(more):
            raise self.error(what, f"takes {len(names)} values, expected "
                                   f"{own + len(more)}: {', '.join(self.params)}, then "
                                   f"{added}")
        if names[:own] != self.params and set(names[:own]) == set(self.params):
            raise self.error(what, f"has its parameters in another order, "
                                   f"{', '.join(names[:own])}; it takes them by "
                                   f"position: {', '.join(self.params)}")
        given = self.given
        if given is None and not any(isinstance(m, tuple) for m in more):
            return self.parse(pyfunc)
        if given is None:
            given = dict.fromkeys(raw_params(self.function), Array())
        known = {mine: given[theirs] for mine, theirs
                 in zip(names, self.params, strict=False) if theirs in given}
        known |= {n: a for n, a in zip(names[own:], more, strict=True) if a}
        return self.parse(pyfunc, parameters=known)

    def arrays(self, vjp: Function | None) -> list[bool]:
        """Whether each flat parameter is an array."""
        call = Custom((), self.function, self.function.params, vjp)
        used = array_args(call)
        if self.given is None:
            return list(used)
        said = [a for p in self.params for a in _arrays(self.given.get(p))]
        return [a or b for a, b in zip(said, used, strict=True)]

    def numbers(self, vjp: Function | None) -> list[str]:
        """The flat parameters that are no arrays."""
        return [p for p, a in zip(self.function.params, self.arrays(vjp), strict=True)
                if not a]

    def filled(self, vjp: Function | None) -> Function | None:
        """The rule with a cotangent for each number, checked."""
        if vjp is None:
            return None
        numbers, found = self.numbers(vjp), vjp.results
        if not found and has_effects(vjp.body):
            found = (_ZERO,) * len(numbers)  # an accessor: its arguments are indices
        if len(found) != len(numbers):
            raise self.error("vjp", f"gives {len(found)} cotangents, expected "
                                    f"{len(numbers)}: one for each of "
                                    f"{', '.join(numbers) or '(none)'}; 0.0 where "
                                    "there is none")
        call = Custom((), self.function, self.function.params, vjp)
        cotangents = dict(zip(numbers, found, strict=True))
        yields: list[Value] = [cotangents.get(p, _ZERO) for p, raw in zip(
            self.function.params, array_args(call), strict=True) if not raw]
        return Function(vjp.name, vjp.params, Block(vjp.body.statements, tuple(yields)),
                        vjp.pyfile, vjp.line)

    def check_jvp(self, jvp: Function) -> None:
        """A tangent for each result."""
        if len(jvp.results) != len(self.function.results):
            raise self.error("jvp", f"gives {len(jvp.results)} tangents, expected "
                                    f"{len(self.function.results)}: one for each "
                                    "result")


def _names(pyfunc: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(pyfunc).parameters)


def _ranks(given: Mapping[str, Any] | None, params: Sequence[str]) -> list[Array]:
    """The arrays among the leaves of what is given, in order."""
    shapes = [(given or {}).get(p) for p in params]
    return [leaf for leaf in leaves(tuple(shapes)) if isinstance(leaf, Array)]


def _arrays(given: Any) -> Sequence[bool]:
    """Whether each leaf of a parameter is an array; literals are no leaves."""
    if isinstance(given, (tuple, Struct)):
        return [a for g in given for a in _arrays(g)]
    if isinstance(given, (Literal, bool, int, float, complex)):
        return []
    return [isinstance(given, Array)]
