"""`func`: users' scalar functions that other scalar functions call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, update_wrapper
from types import MappingProxyType
from typing import Any, Self, TypeVar, overload

from ..autograd.compilers.dynamo import as_argument, called_whole
from ..errors import KernelTypeError
from ..scalar.autodiff.custom import Rules, recursive_call, with_rules
from ..scalar.autodiff.preferences import check_preference, preferring
from ..scalar.ir.build import Builder
from ..scalar.ir.nodes import Function, Value, raw_params
from ..scalar.parse.functions import parse
from ..scalar.source.definitions import keep_sources
from ..scalar.source.resolve import freeze
from ..scalar.source.static import literal_parameters
from ..specs.vjp.functions import compose
from ..support.display import SourceText
from ..support.forks import cached_property
from ..support.pickling import PickledByName
from .base import Parameters, check_pyfunc, unpack_single
from .kernel_counts import counting_decorator
from .keywords import CallSignature

__all__ = ["Func", "func"]

R = TypeVar("R", bound=Callable[..., Any])


class Func(PickledByName):
    """A scalar function, callable from others and as plain Python.

    Attributes
    ----------
    function : nbfused.scalar.ir.nodes.Function
        What it was parsed to, at first use.
    prefer : str
        What its loops record; "" if nothing was said.
    """

    __signature__: Any = CallSignature()
    #: Options of a call, for messages.
    options: tuple[str, ...] = ()
    #: Those that `__call__` takes without naming them, with their defaults.
    keywords: Mapping[str, Any] = MappingProxyType({})
    #: Whether a function is all that one is made of.
    renewable = False
    #: What it was computed from, if its function was not parsed.
    derived_from: Any = None

    def __init__(self, pyfunc: Callable[..., Any], gradcheck: bool = False,
                 nondiff: str | Sequence[str] = (), prefer: str | None = None) -> None:
        kind = type(self).__name__.lower().removesuffix("op")
        if isinstance(pyfunc, Func) and type(pyfunc) is not Func:
            raise KernelTypeError(
                f"nf.{kind} must decorate a Python function of numbers, got "
                f"{pyfunc!r}, an operation on arrays; an elementwise one is called in "
                f"a function, as in lambda x: {pyfunc.__name__}(x)")
        check_pyfunc(pyfunc, kind)
        self.pyfunc = pyfunc
        self.signature: inspect.Signature = inspect.signature(pyfunc)
        self.literals: tuple[str, ...] = literal_parameters(pyfunc)
        self.rules: Rules = Rules()
        self.gradcheck = gradcheck
        self.prefer: str = check_preference(pyfunc.__name__, prefer)
        if not isinstance(nondiff, (str, tuple, list, set, frozenset)):
            raise KernelTypeError(f"{pyfunc.__name__}: 'nondiff_argnames' must be a "
                                  "name, or several in a tuple, got "
                                  f"{type(nondiff).__name__}")
        self.nondiff: tuple[str, ...] = (
            (nondiff,) if isinstance(nondiff, str) else tuple(nondiff))
        self.parameters: Parameters = Parameters(pyfunc.__name__, self.signature,
                                                 self.options)
        for name in self.nondiff:
            if name not in self.signature.parameters:
                raise KernelTypeError(
                    f"{pyfunc.__name__}: 'nondiff_argnames' has {name!r}; the "
                    f"parameters are {', '.join(self.signature.parameters)}")
        update_wrapper(self, pyfunc, updated=())
        self.__name__: str = pyfunc.__name__
        called_whole(self)

    @cached_property
    def function(self) -> Function:
        """The parsed function, with literal parameters at their defaults."""
        found = self.parsed(self.frozen({}) if self.literals else None)
        if self.gradcheck and self.rules and not raw_params(found):
            from .derivative import check_rules

            check_rules(found)
        return found

    def parsed(self, given: Mapping[str, Any] | None) -> Function:
        """The function parsed for parameters of the given kinds."""
        found = with_rules(parse, self.pyfunc, self.rules, given) if self.rules \
            else parse(self.pyfunc, parameters=given)
        found = preferring(found, self.prefer)
        return _constant(found, self.nondiff) if self.nondiff else found

    def frozen(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the literal parameters in a call.

        Raises
        ------
        KernelTypeError
            One is missing, or is no number.
        """
        values = {}
        for name in self.literals:
            value = given.get(name, self.signature.parameters[name].default)
            if freeze(value) is None:
                got = "nothing" if value is inspect.Parameter.empty else \
                    f"a {type(value).__name__}"
                raise KernelTypeError(f"{self.__name__}: '{name}' is an nf.literal: "
                                      f"expected a number, got {got}")
            values[name] = freeze(value)
        return values

    def renewed(self, pyfunc: Callable[..., Any]) -> Self:
        """A copy made of another Python function, without the rules.

        Raises
        ------
        KernelTypeError
            It takes more than that to make one.
        """
        if type(self) is not Func and not self.renewable:
            raise KernelTypeError(
                f"{self.__name__}: specialize takes what @nf.elementwise, @nf.func or "
                f"@nf.rawkernel made, not a {type(self).__name__.lower()}; move what "
                "reads the constant into an @nf.func and specialize that")
        if self.derived_from is not None:
            raise KernelTypeError(
                f"{self.__name__}: specialize reaches no function that was computed "
                "from another; call nf.derivative or nf.tangent inside the function")
        return type(self)(pyfunc, *self.made_of()[1:])

    @property
    def rule_functions(self) -> tuple[Any, ...]:
        """The derivative rules, as functions."""
        return tuple(r for r in (self.rules.vjp, self.rules.jvp) if r is not None)

    def take_rules(self, other: Self, change: Callable[[Any], Any]) -> None:
        """Copy the rules of another function, transformed by `change`."""
        rules = other.rules
        self.rules = Rules(rules.vjp and change(rules.vjp),
                           rules.jvp and change(rules.jvp))

    def defvjp(self, rule: R) -> R:
        """Define the reverse-mode derivative, in the scalar language.

        Parameters
        ----------
        rule : callable
            Takes the arguments, then a cotangent for each result; gives a cotangent
            for each argument that is no array, as a tuple if there are several.  It
            may call the function itself.

        Notes
        -----
        Of an array that the function reads, the rule reads the elements, and what it
        adds by `atomic_add` is added to the gradient.  An array that the function
        stores to is, in the rule, the array of its cotangents: read one and set it to
        zero.  An array whose elements the function does not touch is the rule's own.

        Examples
        --------
        >>> import nbfused as nf
        >>> @nf.elementwise
        ... def clipped(x, low, high):
        ...     return min(max(x, low), high)
        >>> @clipped.defvjp
        ... def straight_through(x, low, high, g):
        ...     return g, 0.0, 0.0
        >>> float(nf.grad(clipped)(5.0, 0.0, 1.0))
        1.0
        """
        self._check_rule("defvjp", rule)
        self.rules.vjp = rule
        return rule

    def defjvp(self, rule: R) -> R:
        """Define the forward-mode derivative, in the scalar language.

        Parameters
        ----------
        rule : callable
            Takes the arguments, then a tangent for each that is no array, or for each
            at all, an array of tangents for an array; gives a tangent for each result.
        """
        self._check_rule("defjvp", rule)
        self.rules.jvp = rule
        return rule

    def _check_rule(self, what: str, rule: Any) -> None:
        if not callable(rule):
            raise KernelTypeError(f"{self.__name__}.{what}: the rule is {rule!r}; "
                                  "expected a function in the scalar language")
        if "function" in self.__dict__:
            raise KernelTypeError(
                f"{self.__name__}.{what}: the function was used already, with another "
                "derivative; give its rules right after its definition")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the Python function on numbers, or inside another scalar function."""
        if self.rules:
            given = [*args, *kwargs.values()]
            tracing = next((a for a in given if hasattr(a, "__nbfused_trace__")), None)
            if tracing is not None:
                return self._recorded(tracing, args, kwargs)
        return self.pyfunc(*args, **kwargs)

    def _recorded(self, tracing: Any, args: Sequence[Any],
                  kwargs: Mapping[str, Any]) -> Any:
        """Record a call of a function with rules, under tracing."""
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        function = self.parsed(self.frozen(bound.arguments)) if self.literals \
            else self.called
        return unpack_single(tracing.__nbfused_trace__(function, [
            v for n, v in bound.arguments.items() if n not in self.literals]))

    @property
    def called(self) -> Function:
        """The parsed function for a call from a function without source."""
        return recursive_call(self, None) or self.function

    def source(self, kind: str = "primal") -> str:
        """Print the function, its derivative or what is compiled of it, as text.

        Parameters
        ----------
        kind : {"primal", "vjp", "jvp", "numba", "ptx", "hip"}
            ``"primal"`` is the function with everything that it calls, ``"vjp"`` and
            ``"jvp"`` its derivatives in reverse and in forward mode: Python that
            `defvjp` and `defjvp` accept.  The others are what Numba, CUDA and hipcc
            get, for float32.

        Examples
        --------
        >>> import nbfused as nf
        >>> @nf.elementwise
        ... def cube(x):
        ...     return x * x * x
        >>> print(cube.source("jvp"), end="")
        def cube_jvp(x, x_dot_1):
            t_2 = x_dot_1 * x
            return ((t_2 + t_2) * x) + (x_dot_1 * (x * x))
        """
        from .source import source

        return SourceText(source(self.function, kind))

    def __fx_create_arg__(self, tracer: Any) -> Any:
        """Give the node that stands for it in a graph of PyTorch's compiler."""
        return as_argument(self, tracer)

    def made_of(self) -> tuple[Any, ...]:
        """The function and the options, from which a copy can be made."""
        return self.pyfunc, self.gradcheck, self.nondiff, self.prefer or None

    def extras(self) -> dict[str, Any]:
        """The rules, which a copy takes over."""
        keep_sources(self.pyfunc, *self.rule_functions)
        return {"rules": self.rules}

    def __repr__(self) -> str:
        """The signature, as `help` shows it: parameters, then options."""
        kind = type(self).__name__.lower().removesuffix("op").lstrip("_")
        options = ", ".join(
            f"{p.name}={p.default!r}"
            for p in inspect.signature(type(self).__call__).parameters.values()
            if p.kind is p.KEYWORD_ONLY)
        return (f"<nbfused {kind} {self.__name__}{self.signature}"
                f"{'; ' if options else ''}{options}>")


def _constant(function: Function, names: Sequence[str]) -> Function:
    """`function`, with zero derivatives for the given parameters."""
    arrays = raw_params(function)

    def build(b: Builder) -> tuple[Value, ...]:
        return b.call(function, *(b.let("detach", p) if p in names and p not in arrays
                                  else p for p in function.params))

    made = compose(function.name, function.params, build)
    return replace(made, pyfile=function.pyfile, line=function.line)


@overload
def func(pyfunc: Callable[..., Any]) -> Func: ...
@overload
def func(*, gradcheck: bool = ..., nondiff_argnames: str | Sequence[str] = ...,
         prefer: str | None = ...) -> Callable[[Callable[..., Any]], Func]: ...
def func(pyfunc: Callable[..., Any] | None = None, *, gradcheck: bool = False,
         nondiff_argnames: str | Sequence[str] = (), prefer: str | None = None,
         ) -> Func | Callable[[Callable[..., Any]], Func]:
    """Mark a scalar function that other scalar functions may call.

    Parameters
    ----------
    pyfunc : callable
        A function of scalars, and of arrays in kernels, in the scalar language.
    gradcheck : bool
        To find a wrong rule: at its first use as a function of numbers the derivative
        is compared, at random points, with finite differences; `GradcheckError` where
        they differ.
    nondiff_argnames : str or sequence of str
        Parameters that the derivative takes for constants.
    prefer : {"checkpoint", "recompute"}, optional
        As of ``nf.elementwise``; default: that of the function that calls it.

    Raises
    ------
    DefinitionError
        `prefer` is neither.

    Examples
    --------
    >>> import nbfused as nf
    >>> @nf.func
    ... def gate(x, beta):
    ...     return x * nf.sigmoid(beta * x)
    >>> gate(0.0, 1.0)
    0.0
    """
    make = counting_decorator(partial(
        Func, gradcheck=gradcheck, nondiff=nondiff_argnames, prefer=prefer))
    return make if pyfunc is None else make(pyfunc)
