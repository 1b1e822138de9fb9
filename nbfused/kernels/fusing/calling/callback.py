"""`callback`: functions in Python inside of a fused function, called at each call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....arrays import byte_range, check_dtype, describe, dtype_of, is_array, library_of
from ....arrays.traced import extents, find_traced
from ....autograd import Variable, custom_vjp
from ....autograd.graph import COPY, FULL, ZERO
from ....autograd.recording import recording
from ....dispatch import execute
from ....errors import KernelTypeError, NotDifferentiableError, ShapeError
from ....scalar.typing.python_numbers import plain_number
from ....specs.base import Shape

__all__ = ["Callback", "callback"]


class Callback:
    """A function in Python with results of known shapes and dtypes; see `callback`."""

    def __init__(self, function: Callable[..., Any], shapes: Any, dtypes: Any,
                 vjp: Callable[..., Any] | None) -> None:
        self.function, self.vjp = function, vjp
        self.__name__: str = getattr(function, "__name__", type(function).__name__)
        self.single = not isinstance(dtypes, (tuple, list))
        listed = [dtypes] if self.single else dtypes
        self.dtypes: tuple[np.dtype, ...] = tuple([
            check_dtype(d, "dtypes") for d in listed])
        self._shapes = shapes
        if not callable(shapes):
            self._checked(shapes)
        self._rule: custom_vjp = custom_vjp(self._called)
        if vjp is not None:
            self._rule.defvjp(self._forward, self._backward)

    def __call__(self, *args: Any) -> Any:
        """Call it on arrays and numbers; Variables give Variables."""
        if self.vjp is not None:
            return self._rule(*args)
        if recording() and any(isinstance(x, Variable) and x.requires_grad
                               for x in args):
            raise NotDifferentiableError(
                f"callback: {self.__name__} is differentiated and has no derivative; "
                "give vjp=, or pass x.detach()")
        return self._called(*args)

    def _called(self, *args: Any) -> Any:
        unknown = find_traced(args)
        if unknown is not None:
            return self._result(unknown.record_callback(self, args))
        plain = tuple([x.data if isinstance(x, Variable) else x for x in args])
        made = self.run(*plain)
        if any(isinstance(x, Variable) for x in args):
            made = tuple([Variable(x) for x in made])
        return self._result(made)

    def _result(self, made: tuple[Any, ...]) -> Any:
        return made[0] if self.single else made if made else None

    def _forward(self, *args: Any) -> tuple[Any, Any]:
        made = self._called(*args)
        return made, (args, made)

    def _backward(self, residuals: Any, cotangents: Any) -> tuple[Any, ...]:
        vjp = self.vjp
        assert vjp is not None
        args, made = residuals
        results = (made,) if self.single else made
        given = cotangents if isinstance(cotangents, tuple) else (cotangents,)
        wanted = [k for k, x in enumerate(args)
                  if isinstance(x, Variable) and dtype_of(x).kind in "fV"]

        def gradients(*values: Any) -> Any:
            first, second = len(args), len(args) + len(results)
            found = vjp(values[:first], values[first:second], values[second:])
            if not isinstance(found, (tuple, list)) or len(found) != len(args):
                raise ShapeError(
                    f"callback: vjp of {self.__name__} returned "
                    f"{_count(found)}; expected a tuple of {len(args)} gradients, one "
                    "for each argument, or None")
            return tuple([execute(ZERO, (values[k],), dtypes=(dtype_of(values[k]),))[0]
                          if found[k] is None else found[k] for k in wanted])

        gradients.__name__ = f"{self.__name__}'s vjp"
        call = Callback(gradients, [extents(args[k]) for k in wanted],
                        [dtype_of(args[k]) for k in wanted], None)
        pulled = iter(call(*args, *results, *given))
        return tuple([next(pulled) if k in wanted else None
                      for k in range(len(args))])

    def shapes(self, args: Sequence[Any]) -> tuple[Shape, ...]:
        """The shapes of the results for these arguments."""
        if not callable(self._shapes):
            return self._checked(self._shapes)
        return self._checked(self._shapes(*[extents(x) for x in args]))

    def _checked(self, shapes: Any) -> tuple[Shape, ...]:
        listed = [shapes] if self.single else shapes
        try:
            found = tuple([tuple([n.__index__() for n in shape]) for shape in listed])
        except (TypeError, AttributeError):
            found = None
        if found is None or len(found) != len(self.dtypes):
            raise ShapeError(
                f"callback: shapes of {self.__name__} are {shapes!r}; expected "
                + ("a tuple of integers, as 'dtypes' is one dtype" if self.single else
                   f"a list of {len(self.dtypes)} tuples of integers, one for each of "
                   "'dtypes'"))
        return found

    def run(self, *args: Any) -> tuple[Any, ...]:
        """Call the function on arrays, and check what it returns.

        Raises
        ------
        ShapeError, KernelTypeError
            It is not what was promised.
        """
        made = self.function(*map(_read_only, args))
        listed = () if made is None and not self.dtypes else (made,) if self.single \
            else made
        if not isinstance(listed, (tuple, list)) or len(listed) != len(self.dtypes):
            raise ShapeError(f"callback: {self.__name__} returned {_count(made)}; "
                             f"expected {len(self.dtypes)}, as 'dtypes' says")
        like = next((x for x in args if is_array(x)
                     and not isinstance(x, np.generic)), None)
        return tuple([self._fit(k, x, shape, dtype, like, args) for k, (
            x, shape, dtype) in enumerate(zip(listed, self.shapes(args), self.dtypes,
                                              strict=True))])

    def _fit(self, k: int, x: Any, shape: Shape, dtype: np.dtype, like: Any,
             args: Sequence[Any]) -> Any:
        """A result as what was promised; in memory of its own."""
        what = f"callback: result {k} of {self.__name__}"
        if isinstance(x, Variable):
            x = x.data
        if isinstance(x, (bool, int, float, complex, np.generic)):
            x = _as_array(x, dtype, like)
        if not is_array(x):
            raise KernelTypeError(f"{what} is a {type(x).__name__}; expected an array")
        if tuple(x.shape) != shape:
            raise ShapeError(f"{what} has shape {tuple(x.shape)}; {shape} was promised")
        if dtype_of(x) != dtype:
            raise KernelTypeError(f"{what} has dtype {dtype_of(x)}; {dtype} was "
                                  "promised: convert it")
        return x if like is None else _separate(x, like, what, args)


def _separate(x: Any, like: Any, what: str, args: Sequence[Any]) -> Any:
    """`x`, which has to be where the arguments are, in memory of its own."""
    found, wanted = describe(x, what), describe(like)
    if found.library is not wanted.library or found.device != wanted.device:
        raise KernelTypeError(
            f"{what} is an array of {found.library.name} on {found.device}; expected "
            f"one of {wanted.library.name} on {wanted.device}, as the arguments are: "
            "convert it")
    place = byte_range(found)
    repeats = any(n > 1 and not s for n, s in zip(found.shape, found.strides,
                                                  strict=True))
    if repeats or any(byte_range(describe(a)).overlaps(place) for a in args
                      if is_array(a) and not isinstance(a, np.generic)):
        (x,) = execute(COPY, (x,), dtypes=(found.dtype,))
    return x


def _as_array(x: Any, dtype: np.dtype, like: Any) -> Any:
    """A number as an array without dimensions in the library of `like`."""
    kind = np.dtype(x.dtype) if isinstance(x, np.generic) else dtype
    if like is None or type(like) is np.ndarray:
        return np.asarray(x, kind)
    library = library_of(like)
    space = library.finish(library.empty((), kind, describe(like).device))
    return execute(FULL, (space, plain_number(x)), dtypes=(kind,))[0]


def _read_only(x: Any) -> Any:
    """A NumPy array that cannot be written to: others may read the same memory."""
    if type(x) is not np.ndarray:
        return x
    made = x.view()
    made.flags.writeable = False
    return made


def _count(x: Any) -> str:
    return f"{len(x)} results" if isinstance(x, (tuple, list)) else \
        f"a {type(x).__name__}"


def callback(function: Callable[..., Any], shapes: Any, dtypes: Any, *,
             vjp: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Make a function in Python one that `nf.fuse` calls between its launches.

    Parameters
    ----------
    function : callable
        Of arrays and numbers: it is given the caller's own arrays, on their device and
        its current stream, and returns arrays like them; for results without
        dimensions numbers will do.  It is called at each call, once, and never while a
        function is traced.  It must not change its arguments: NumPy's are read-only.
    shapes : tuple of int, list of tuples, or callable
        The shapes of the results; a callable is given the shapes of the arguments.
    dtypes : dtype or list of dtypes
        The dtypes of the results: one dtype for one result, a list for several.  An
        empty list for none: the function is then called for its effect, in the order of
        the program.
    vjp : callable, optional
        ``vjp(args, results, cotangents)``, all of them tuples of arrays, returns a
        tuple of gradients, one for each argument or None.

    Returns
    -------
    callable
        Inside and outside of fused functions the same.

    Raises
    ------
    ShapeError, KernelTypeError
        `shapes` and `dtypes` do not fit together; when it is called, the results are
        not what was promised.
    NotDifferentiableError
        It is differentiated, and has no `vjp`, or twice.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> ranks = nf.callback(lambda x: x.argsort().argsort(), lambda shape: shape, "i8")
    >>> nf.fuse(lambda x: ranks(x * -1.0) * 2)(np.array([3.0, 1.0, 2.0]))
    array([0, 4, 2])
    """
    if not callable(function):
        raise KernelTypeError(f"callback: expected a function, got {function!r}; pass "
                              "it with the shapes and dtypes of its results")
    if vjp is not None and not callable(vjp):
        raise KernelTypeError(f"callback: 'vjp' is {vjp!r}; expected a function of "
                              "(args, results, cotangents)")
    return Callback(function, shapes, dtypes, vjp)
