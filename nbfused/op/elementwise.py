"""`elementwise`: users' scalar functions, applied to arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, overload

from ..arrays import check_dtype
from ..autograd import apply
from ..autograd.nodes import is_floating
from ..autograd.numpy_api.integers import fit
from ..autograd.numpy_api.ufuncs import NUMPY_KEYWORDS
from ..autograd.versions import note_write
from ..errors import KernelTypeError, ScalarSyntaxError
from ..scalar.autodiff.custom import Rules
from ..scalar.ir.build import inline
from ..scalar.ir.nodes import Block, Function, Let, walk
from ..scalar.typing.types import Weak
from ..specs import Map
from ..support.forks import cached_property
from .base import (
    Parameters,
    kind_of,
    output_tuple,
    quantity,
    raise_named,
    unpack_single,
)
from .cached_call import fast_calls
from .func import Func, func
from .kernel_counts import counting_decorator
from .keywords import as_numpy
from .ufunc import Ufunc, apply_where, cast_inputs

__all__ = ["Elementwise", "Func", "cast", "elementwise", "func"]

#: What threads do together.
_TOGETHER = frozenset({"barrier", "shuffle"})


#: A spec, its `fast_calls`, other defaults, and where integers stand that have to fit.
_Known = tuple[Map, Any, Any, tuple[Any, ...], tuple[int, ...]]


class Elementwise(Func, Ufunc):
    """A scalar function applied to arrays, with NumPy's broadcasting.

    Arguments that are Python numbers are passed by value and are weak (NEP 50): a new
    value never recompiles.  Usable as an epilogue, a prologue, a reduction's map, and
    inside other scalar functions.

    Attributes
    ----------
    nin, nout, nargs : int
        As of a NumPy ufunc.
    gradcheck : bool
        Whether each call that records compares its derivative with differences.
    """

    renewable = True
    options: tuple[str, ...] = ("out", "dtype", "where", "casting")
    keywords: Mapping[str, Any] = MappingProxyType(
        {"where": True, "casting": "same_kind"})

    def __init__(self, pyfunc: Callable[..., Any], gradcheck: bool = False,
                 nondiff: str | Sequence[str] = (), prefer: str | None = None) -> None:
        super().__init__(pyfunc, gradcheck, nondiff, prefer)
        self._specs: dict[tuple[str, ...], Map] = {}
        self._variants: dict[tuple[Any, ...], Elementwise] = {}
        #: By types of the arguments; the first by the only type where there is one.
        self._known: dict[Any, _Known] = {}
        #: Where an output is given: by its type and theirs.
        self._stored: dict[Any, _Known] = {}

    @cached_property
    def function(self) -> Function:
        """The parsed function, for parameters that are numbers."""
        return self.parsed(self.frozen({}))

    def parsed(self, given: Mapping[str, Any] | None) -> Function:
        """The function parsed for parameters of the given kinds; has results."""
        found = super().parsed(given)
        if not found.results:
            raise ScalarSyntaxError(f"{found.name} returns nothing; end it with the "
                                    "return of a number, or of a tuple of numbers")
        if any(isinstance(s, Let) and s.op in _TOGETHER
               for s in walk(inline(found).body)):
            raise KernelTypeError(f"{found.name}: threads wait for each other and "
                                  "shuffle values in @nf.rawkernel only")
        return found

    @property
    def nin(self) -> int:
        """Number of inputs."""
        return len(self.signature.parameters) - len(self.literals)

    @cached_property
    def nout(self) -> int:
        """Number of outputs."""
        return len(self.function.results)

    @property
    def nargs(self) -> int:
        """Inputs and outputs."""
        return self.nin + self.nout

    def spec(self, kinds: tuple[str, ...]) -> Map:
        """The Map for arguments of these kinds (``"element"``, ``"scalar"``)."""
        found = self._specs.get(kinds)
        if found is None:
            found = self._specs[kinds] = Map(self.function, kinds)
        return found

    def checkpoint_bytes(self, *dtypes: Any) -> dict[str, int]:
        """Bytes for each element that loops save in reverse mode.

        Parameters
        ----------
        *dtypes : dtype, or ``int`` or ``float``
            Of the parameters, in order; the Python types stand for Python numbers.

        Returns
        -------
        dict
            What each preference takes, ``"checkpoint"`` and ``"recompute"``, for the
            derivative with respect to all floating parameters.  It is memory of a
            thread's own, given back when it is through with the element.

        Raises
        ------
        KernelTypeError
            There are more or fewer dtypes than parameters.

        Examples
        --------
        >>> import nbfused as nf
        >>> @nf.elementwise(prefer="recompute")
        ... def power(x, n):
        ...     y = 1.0
        ...     for _ in range(n):
        ...         y *= x
        ...     return y
        >>> power.checkpoint_bytes("float32", int)
        {'checkpoint': 256, 'recompute': 64}
        """
        params = self.function.params
        if len(dtypes) != len(params):
            raise KernelTypeError(
                f"{self.__name__}.checkpoint_bytes: expected a dtype for each of "
                f"{', '.join(params)}, got {len(dtypes)}")
        types = tuple(Weak(d.__name__) if d is int or d is float
                      else check_dtype(d, name)
                      for d, name in zip(dtypes, params, strict=True))
        wrt = tuple(not isinstance(t, Weak) and is_floating(t) for t in types)
        from ..scalar.autodiff.differentiate import checkpoint_bytes

        return checkpoint_bytes(self.function, wrt, types)

    def variant(self, args: list[Any], kwargs: dict[str, Any]) -> Elementwise:
        """The operation with the literal arguments frozen.

        They are taken out of `args` and `kwargs`.
        """
        given = {n: kwargs.pop(n) for n in self.literals if n in kwargs}
        for k, name in reversed([*enumerate(self.parameters.names[:len(args)])]):
            if name in self.literals:
                given[name] = args.pop(k)
        values = self.frozen(given)
        key = tuple(values.values())
        found = self._variants.get(key)
        if found is None:
            found = self._variants[key] = _Variant(self, values)
        return found

    def __call__(self, *args: Any, out: Any = None, dtype: Any = None,
                 **kwargs: Any) -> Any:
        """Apply the function to arrays and numbers.

        Parameters
        ----------
        *args
            Arrays of one library on one device, Variables, or numbers; after all
            inputs, as for a NumPy ufunc, the outputs may follow.
        out : array or tuple of arrays, optional
            Where to store; one for each output.
        dtype : dtype, optional
            Of the outputs, and what they are computed in where it holds more than the
            inputs.
        where : bool array, optional
            Where to compute; elsewhere `out` keeps its elements, and a new output has
            zeros.
        casting : str, optional
            How results may be cast to `out`: ``"same_kind"``, as `numpy.can_cast` says.
        order, signature : optional
            Those of NumPy's ufunc, where this is one of its operations: the layout of
            results in memory, and the dtypes of inputs and outputs.

        Returns
        -------
        array or tuple of arrays
            Of the library of the inputs.
        """
        if dtype is None and not kwargs:
            if out is None:
                known = self._known.get(type(args[0]) if len(args) == 1 else
                                        tuple(map(type, args)))
            else:
                known = self._stored.get(
                    (type(out), type(args[0])) if len(args) == 1 else
                    (type(out), *map(type, args)))
            if known is not None and (not known[4] or fit(args, known[4])):
                spec, direct, taped, defaults, _ = known
                made = None if direct is None else \
                    direct(*args) if out is None else direct(out, *args)
                if made is None and taped is not None:
                    made = taped(*args)
                if made is None:  # it is differentiated, or a closer look is needed
                    whole = args + defaults
                    try:
                        return apply(spec, whole, names=self.parameters.names,
                                     out=None if out is None else (out,))[0]
                    except KernelTypeError as error:
                        raise_named(error, self.parameters.name, self.parameters.names,
                                    whole)
                if out is None:
                    return made[0]
                note_write((out,))
                return out
        if self.literals:
            inputs = list(args)
            chosen = self.variant(inputs, kwargs)
            return chosen(*inputs, out=out, dtype=dtype, **kwargs)
        for a in args:
            if hasattr(a, "__nbfused_trace__"):
                return unpack_single(a.__nbfused_trace__(self.called, args))
        if len(args) > self.nin and out is None:
            self._check_count(len(args))
            args, out = args[:self.nin], args[self.nin:]
        if not NUMPY_KEYWORDS.isdisjoint(kwargs) and self.is_ufunc:
            return as_numpy(self.parameters.name, *args, out=out, dtype=dtype, **kwargs)
        where, casting = self.take_options(kwargs) if kwargs else (True, "same_kind")
        values = self.parameters.bind(args, kwargs)
        outs = output_tuple(out, self.nout, self.parameters.name)
        dtypes = None if dtype is None else (check_dtype(dtype),) * self.nout
        if self.gradcheck:
            self._check_gradient(values)
        names = self.parameters.names
        function = self.function if dtypes is None else \
            cast_inputs(self.function, dtypes[0], values)
        if where is not True:
            return unpack_single(apply_where(function, where, values, outs, names,
                                             dtypes=dtypes, casting=casting))
        kinds = tuple(map(kind_of, values))
        spec = self.spec(kinds) if function is self.function else Map(function, kinds)
        try:
            results = apply(spec, values, out=outs, dtypes=dtypes, names=names,
                            casting=casting)
        except KernelTypeError as error:
            raise_named(error, self.parameters.name, names, values)
        if dtypes is None:
            self._remember(spec, args, values, outs)
        return unpack_single(results)

    def _remember(self, spec: Map, args: tuple[Any, ...], values: list[Any],
                  outs: tuple[Any, ...] | None) -> None:
        """Cache the call for arguments of these types."""
        types = tuple(map(type, args))
        one = self.nout == 1 and (outs is None or outs[0] is not None)
        places = self.parameters.integers(types)
        if one and not self.gradcheck and places is not None:
            defaults = self.parameters.defaults[len(args):]
            calls = fast_calls(spec, values, outs, defaults, self.parameters.names)
            if outs is not None:
                self._stored[type(outs[0]), *types] = spec, *calls, defaults, places
            else:
                self._known[types[0] if len(types) == 1 else types] = (
                    spec, *calls, defaults, places)

    def _check_gradient(self, values: list[Any]) -> None:
        """Check the derivative and its rules at these arguments."""
        from ..autograd.check_backward import check_call

        check_call(self, values)
        if self.rules.vjp is not None and self.rules.jvp is not None:
            made = Elementwise(self.pyfunc, False, self.nondiff)
            made.rules = Rules(jvp=self.rules.jvp)  # else nothing looks at it
            check_call(made, values)

    def _check_count(self, count: int) -> None:
        """Raise `KernelTypeError` for too many positional arguments."""
        if count > self.nargs:
            name = self.parameters.name
            raise KernelTypeError(
                f"{name}{self.signature}: too many positional arguments, got {count}; "
                f"it takes {quantity(self.nin, 'argument')}, then arrays for its "
                f"{quantity(self.nout, 'output')}")


@overload
def elementwise(pyfunc: Callable[..., Any]) -> Elementwise: ...
@overload
def elementwise(
        *, gradcheck: bool = ..., nondiff_argnames: str | Sequence[str] = ...,
        prefer: str | None = ...,
) -> Callable[[Callable[..., Any]], Elementwise]: ...
def elementwise(
        pyfunc: Callable[..., Any] | None = None, *, gradcheck: bool = False,
        nondiff_argnames: str | Sequence[str] = (), prefer: str | None = None,
) -> Elementwise | Callable[[Callable[..., Any]], Elementwise]:
    """Make a scalar function an operation on arrays.

    Parameters
    ----------
    pyfunc : callable
        A function of scalars in the scalar language; several results as a tuple.
    gradcheck : bool
        To find a wrong rule: each call that records compares the derivative, at its
        arguments, with finite differences; `GradcheckError` where they differ.
    nondiff_argnames : str or sequence of str
        Parameters that the derivative takes for constants.
    prefer : {"checkpoint", "recompute"}, optional
        What loops do for reverse mode: record much of what they go through (the
        default), or little and compute it again, which takes longer and less memory;
        see `Elementwise.checkpoint_bytes`.

    Returns
    -------
    Elementwise

    Raises
    ------
    DefinitionError
        `prefer` is neither.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> @nf.elementwise
    ... def squared_diff(x, y):
    ...     return (x - y) * (x - y)
    >>> squared_diff(np.arange(3.0), 1.0)
    array([1., 0., 1.])
    """
    make = counting_decorator(partial(
        Elementwise, gradcheck=gradcheck, nondiff=nondiff_argnames, prefer=prefer))
    return make if pyfunc is None else make(pyfunc)


class _Variant(Elementwise):
    """An operation with its literal parameters replaced by values."""

    def __init__(self, whole: Elementwise, values: dict[str, Any]) -> None:
        super().__init__(whole.pyfunc, whole.gradcheck, whole.nondiff,
                         whole.prefer or None)
        self.whole, self.values = whole, values
        self.literals, self.rules = (), whole.rules
        self.signature = self.signature.replace(parameters=[
            p for n, p in self.signature.parameters.items() if n not in values])
        self.parameters = Parameters(self.__name__, self.signature, self.options)

    @cached_property
    def function(self) -> Function:
        """The parsed function."""
        return self.parsed(self.values)

    def made_of(self) -> tuple[Any, ...]:
        """The operation and its literals, from which a copy can be made."""
        return self.whole, self.values


@lru_cache(maxsize=64)
def cast(dtype: str) -> Elementwise:
    """The operation that converts to a dtype."""

    def astype(x: Any) -> Any:
        return x

    return _Cast(astype, dtype)


class _Cast(Elementwise):
    """An identity whose result has a given dtype."""

    def __init__(self, pyfunc: Callable[..., Any], dtype: str) -> None:
        super().__init__(pyfunc)
        body = Block((Let(("y",), "cast", ("x",), dtype),), ("y",))
        self.__dict__["function"] = Function(f"as_{dtype}", ("x",), body)
        self.dtype = dtype

    def made_of(self) -> tuple[Any, ...]:
        """A function of any name and the dtype, for a copy."""
        return self.pyfunc, self.dtype
