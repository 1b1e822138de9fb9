"""Scalar functions without a source: run once on symbols that record what happens."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, FunctionType
from typing import Any, NoReturn

from ...errors import NbFusedError, ScalarSyntaxError
from ..ir.clean import clean
from ..ir.emit import Emitter
from ..ir.nodes import Block, Function, Value
from .resolve import Operation, apply, freeze, operation

__all__ = ["Symbol", "trace"]

_NO_BRANCH = ("the source of this function is not available, so it was run once on "
              "symbols, and a symbol is neither true nor false: control flow that "
              "depends on a value needs the source. Define the function in a file, or "
              "use np.where instead of if, np.maximum instead of max, & instead of and")


def _frame() -> FrameType | None:
    """The frame of the traced function that is running."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return frame


def _line() -> int:
    frame = _frame()
    return frame.f_lineno if frame is not None else 0


def _error(message: str) -> ScalarSyntaxError:
    error, frame = ScalarSyntaxError(message), _frame()
    if frame is not None:
        error.filename, error.lineno = frame.f_code.co_filename, frame.f_lineno
    return error


class Symbol:
    """A number that is not known yet; operations on it are recorded."""

    __slots__ = ("emitter", "value")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, emitter: Emitter, value: Value) -> None:
        self.emitter, self.value = emitter, value

    def __nbfused_op__(self, name: str, args: Sequence[Any]) -> Any:
        """Record the operation `name`; how the vocabulary defers to symbols."""
        return self.record(Operation(name), args)

    def record(self, target: Operation, args: Sequence[Any]) -> Any:
        """``target(*args)`` as a symbol, or None where it has no result."""
        self.emitter.line = _line()
        values = tuple(_value(self.emitter, a) for a in args)
        result = apply(self.emitter, target, values)
        return None if isinstance(result, tuple) else Symbol(self.emitter, result)

    def __nbfused_trace__(self, function: Function, args: Sequence[Any]) -> Any:
        """Record a call of a scalar function; a tuple of its results."""
        if len(args) != len(function.params):
            raise TypeError(f"{function.name} takes {len(function.params)} arguments, "
                            f"got {len(args)}")
        values = [_value(self.emitter, a) for a in args]
        return tuple(Symbol(self.emitter, v) if isinstance(v, str) else v.value
                     for v in self.emitter.call(function, *values))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any,
                        **keywords: Any) -> Any:
        target = operation(ufunc)
        if target is None or method != "__call__" or keywords:
            raise _error(f"np.{ufunc.__name__} is not part of the scalar language")
        return self.record(target, inputs)

    def __array_function__(self, func: Any, types: Any, args: Any,
                           keywords: Any) -> Any:
        target = operation(func)
        if target is None or keywords:
            raise _error(f"np.{func.__name__} is not part of the scalar language")
        return self.record(target, args)

    def __getitem__(self, index: Any) -> Any:
        where = index if isinstance(index, tuple) else (index,)
        return self.record(Operation("load"), (self, *where))

    def __setitem__(self, index: Any, value: Any) -> None:
        where = index if isinstance(index, tuple) else (index,)
        self.record(Operation("store"), (self, *where, value))

    def __bool__(self) -> NoReturn:
        raise _error(_NO_BRANCH)

    def __iter__(self) -> NoReturn:
        raise _error("a number cannot be unpacked or looped over")

    def __index__(self) -> NoReturn:
        raise _error("range() and indices that depend on a value need the source: "
                     "define the function in a file")

    def __float__(self) -> NoReturn:
        raise _error("float() and the functions of math need the source of the "
                     "function: define it in a file, or use nf.exp or np.exp instead "
                     "of math.exp, and so on")

    __int__ = __complex__ = __float__

    def __round__(self, digits: int | None = None) -> Any:
        return self.record(Operation("round"), (self,) if digits is None else
                           (self, digits))

    @property
    def real(self) -> Any:
        """The real part."""
        return self.record(Operation("real"), (self,))

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return self.record(Operation("imag"), (self,))

    def conjugate(self) -> Any:
        """The complex conjugate."""
        return self.record(Operation("conj"), (self,))

    conj = conjugate


def _binary(op: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forward(self: Symbol, other: Any) -> Any:
        return self.record(Operation(op), (self, other))

    def reflected(self: Symbol, other: Any) -> Any:
        return self.record(Operation(op), (other, self))

    return forward, reflected


def _unary(op: str) -> Callable[[Symbol], Any]:
    return lambda self: self.record(Operation(op), (self,))


def _define_operators() -> None:
    for name, op in {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div",
                     "floordiv": "floordiv", "mod": "mod", "pow": "pow", "and": "and",
                     "or": "or", "xor": "xor", "lshift": "lshift",
                     "rshift": "rshift"}.items():
        forward, reflected = _binary(op)
        setattr(Symbol, f"__{name}__", forward)
        setattr(Symbol, f"__r{name}__", reflected)
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(Symbol, f"__{name}__", _binary(name)[0])
    for name in ("neg", "pos", "abs", "invert"):
        setattr(Symbol, f"__{name}__", _unary(name))
    for name in ("floor", "ceil", "trunc"):
        setattr(Symbol, f"__{name}__", _unary(name))


_define_operators()


def _value(emitter: Emitter, target: Any) -> Value:
    """The value of what the traced function computed with."""
    if isinstance(target, Symbol):
        if target.emitter is not emitter:
            raise _error("a value of another function is used here; pass it as an "
                         "argument")
        return target.value
    number = freeze(target)
    if number is None or isinstance(number, tuple):
        raise _error(f"expected numbers, got a {type(target).__name__}")
    return number


def trace(pyfunc: Callable[..., Any], parameters: Sequence[str],
          known: Mapping[str, Any] | None = None) -> Function:
    """The scalar function that `pyfunc` computes, found by running it once.

    Parameters
    ----------
    pyfunc : callable
        Called with a `Symbol` for each parameter.
    parameters : sequence of str
        The names of its parameters.
    known : mapping, optional
        Numbers for parameters that are no parameters of the result.

    Returns
    -------
    Function
        Without control flow: that needs the source.

    Raises
    ------
    ScalarSyntaxError
        It branches on a value, or calls what cannot take a symbol.
    """
    known = known or {}
    parameters = [p for p in parameters if p not in known]
    emitter = Emitter(parameters)
    result = _run(pyfunc, {**known, **{p: Symbol(emitter, p) for p in parameters}})
    results = result if isinstance(result, tuple) else (result,)
    yields = tuple(_value(emitter, r) for r in results if result is not None)
    name = getattr(pyfunc, "__name__", "function").replace("<lambda>", "lambda_")
    code = getattr(pyfunc, "__code__", None)
    return clean(Function(name, tuple(parameters),
                          Block(tuple(emitter.statements), yields),
                          getattr(code, "co_filename", ""),
                          getattr(code, "co_firstlineno", 0)))


def _run(pyfunc: Callable[..., Any], arguments: Mapping[str, Symbol]) -> Any:
    """Call `pyfunc` with its keyword-only parameters as such."""
    kinds = inspect.signature(pyfunc).parameters
    keywords = {n: v for n, v in arguments.items()
                if n in kinds and kinds[n].kind is inspect.Parameter.KEYWORD_ONLY}
    try:
        return pyfunc(*(arguments[n] for n in kinds if n not in keywords), **keywords)
    except (TypeError, ValueError) as error:
        if isinstance(pyfunc, FunctionType) or isinstance(error, NbFusedError):
            raise
        raise _error(f"{pyfunc!r} takes no symbols: {error}; pass a function of "
                     "numbers whose source can be read") from error
