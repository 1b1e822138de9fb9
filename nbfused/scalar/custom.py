"""Functions that keep derivative rules of their own: one `Custom` statement."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import KernelTypeError
from ..records import record
from .build import Builder
from .clean import has_effects
from .ir import Block, Custom, Function, Literal, Value, array_args, literal
from .structure import Array, Struct

__all__ = ["Rules", "with_rules"]

#: ``parse(pyfunc, parameters=...)``.
Parse = Callable[..., Function]

_ZERO = literal(0.0)


@record
class Rules:
    """The derivative rules of a scalar function, as Python functions.

    Attributes
    ----------
    vjp
        Takes the arguments, then a cotangent for each result; gives a cotangent for
        each argument that is no array.
    jvp
        Takes the arguments, then a tangent for each that is no array; gives a tangent
        for each result.
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
    vjp = made.rule(rules.vjp, "vjp", len(function.results), "cotangent", "result")
    numbers = len(made.numbers(vjp))
    jvp = made.rule(rules.jvp, "jvp", numbers, "tangent", "number")
    made.check_jvp(jvp)
    builder = Builder(function.params)
    results = tuple(builder.fresh("r") for _ in function.results)
    call = Custom(results, function, function.params, made.filled(vjp), jvp,
                  function.line)
    return Function(function.name, function.params, Block((call,), results),
                    function.pyfile, function.line)


class _Ruled:
    """Parses the rules of `function`, whose parameters are what `given` says."""

    def __init__(self, parse: Parse, pyfunc: Callable[..., Any], function: Function,
                 given: Mapping[str, Any] | None) -> None:
        self.parse, self.function, self.given = parse, function, given
        self.params = list(inspect.signature(pyfunc).parameters)

    def error(self, what: str, text: str) -> KernelTypeError:
        return KernelTypeError(f"the {what} rule of {self.function.name} {text}")

    def rule(self, pyfunc: Callable[..., Any] | None, what: str, more: int,
             added: str, each: str) -> Function | None:
        """A rule: its first parameters are those of the function."""
        if pyfunc is None:
            return None
        names = list(inspect.signature(pyfunc).parameters)
        if len(names) != len(self.params) + more:
            expected = ", ".join(self.params)
            raise self.error(what, f"takes {len(names)} values, expected "
                                   f"{len(self.params) + more}: {expected}, then a "
                                   f"{added} for each {each}")
        if self.given is None:
            return self.parse(pyfunc)
        known = {mine: self.given[theirs] for mine, theirs
                 in zip(names, self.params, strict=False) if theirs in self.given}
        return self.parse(pyfunc, parameters=known)

    def arrays(self, vjp: Function | None) -> list[bool]:
        """For each flat parameter, whether it is an array."""
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

    def check_jvp(self, jvp: Function | None) -> None:
        """A tangent for each result."""
        if jvp is not None and len(jvp.results) != len(self.function.results):
            raise self.error("jvp", f"gives {len(jvp.results)} tangents, expected "
                                    f"{len(self.function.results)}: one for each "
                                    "result")


def _arrays(given: Any) -> Sequence[bool]:
    """For each leaf of a parameter, whether it is an array; literals are no leaves."""
    if isinstance(given, (tuple, Struct)):
        return [a for g in given for a in _arrays(g)]
    if isinstance(given, (Literal, bool, int, float, complex)):
        return []
    return [isinstance(given, Array)]
