"""`reduction`: an elementwise map, a combine, and a function of the result."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays import check_dtype, dtype_of
from ..arrays.dtypes import warn_of_lost_part
from ..arrays.traced import extents
from ..autograd import apply
from ..errors import KernelTypeError, RangeError, ShapeError
from ..scalar.ir.build import Builder
from ..scalar.ir.nodes import Function, Value
from ..scalar.parse.functions import parse
from ..specs import COMBINES, Combine, Reduce
from ..specs.base import Shape
from ..specs.shapes import Axes, names_only_element, normalize_axes
from ..specs.vjp.functions import compose, identity
from ..support.display import SourceText
from ..support.forks import cached_property
from .base import (
    boolean,
    kind_of,
    output_tuple,
    quantity,
    raise_named,
    real_number,
    unpack_single,
)
from .cached_call import CachedCall
from .elementwise import Func
from .kernel_counts import counting_decorator
from .keywords import as_numpy, other_keywords
from .scalar import scalar_function

__all__ = ["Reduction", "reduction"]


class Reduction(Func):
    """A reduction over axes, with NumPy's keywords."""

    options: tuple[str, ...] = ("axis", "keepdims", "dtype", "out")
    #: Whether it is a reduction of NumPy's.
    is_numpys = False

    def __init__(self, pyfunc: Callable[..., Any], combine: str | Callable[..., Any],
                 post: Callable[..., Any] | None, identity: float) -> None:
        super().__init__(pyfunc)
        self._combine, self._post, self._identity = combine, post, identity
        #: Of calls without options, by types.
        self._known: dict[tuple[Any, ...], CachedCall] = {}

    def take_keywords(self, function: Callable[..., Any]) -> None:
        """Take the keywords of the function of NumPy that this is, as NumPy has it."""
        self.is_numpys = True
        self.keywords = other_keywords(function, self.options)
        self.options = self.parameters.options = (*self.options, *self.keywords)

    def made_of(self) -> tuple[Any, ...]:
        """The map and the combine, from which a copy can be made."""
        return self.pyfunc, self._combine, self._post, self._identity

    @cached_property
    def function(self) -> Function:
        """Refuse: a reduction has no scalar function."""
        raise KernelTypeError(f"{self.__name__} reduces whole arrays; it cannot be "
                              "called inside a scalar function, nor be an epilogue")

    @cached_property
    def map(self) -> Function:
        """The function applied to each element before combining."""
        return parse(self.pyfunc)

    def source(self, kind: str = "primal") -> str:
        """Generated text of the map: primal, vjp, jvp or numba."""
        from .source import source

        return SourceText(source(self.map, kind))

    @cached_property
    def combine(self) -> Combine:
        """The combine: how two states become one."""
        if isinstance(self._combine, str):
            return COMBINES[self._combine]
        return user_combine(scalar_function(self._combine, "combine"), self._identity)

    @cached_property
    def post(self) -> Function:
        """The function from the final state, ``size`` and numbers to the results."""
        finish = self.combine.finish
        if self._post is None:
            return finish
        post = scalar_function(self._post, "post")
        values = len(finish.results)
        check_post(post, self.combine, self.parameters.name)
        rest = post.params[values:]

        def build(b: Builder) -> tuple[Value, ...]:
            return b.call(post, *b.call(finish, *finish.params), *rest)

        return compose(post.name, (*finish.params, *rest), build)

    @lru_cache(maxsize=256)  # noqa: B019 - ops live as long as the program
    def spec(self, kinds: tuple[str, ...], axes: Shape | None, keepdims: bool,
             dtype: str | None) -> Reduce:
        """The Reduce for arguments of these kinds."""
        map_, combine = self.map, self.combine
        if dtype is not None:
            map_, combine = cast_results(map_, dtype), narrow(combine)
        check_arity(map_, self.combine, self.__name__)
        self._check_post(kinds)
        return Reduce(map_, kinds, combine, self.post, axes, keepdims)

    def _check_post(self, kinds: tuple[str, ...]) -> None:
        """Raise `KernelTypeError` for a parameter of `post` left unbound."""
        given = dict(zip(self.map.params, kinds, strict=True))
        values = len(self.combine.finish.params)
        for name in self.post.params[values:]:
            if name != "size" and given.get(name) != "scalar":
                raise KernelTypeError(
                    f"{self.parameters.name}: 'post' has a parameter '{name}' after "
                    f"{values} combined; expected 'size' or an argument of "
                    f"{self.parameters.name} that is a number, got "
                    f"{'an array' if name in given else 'none of that name'}; rename "
                    "it or pass a number")

    def __call__(self, *args: Any, axis: Axes = None, keepdims: bool = False,
                 dtype: Any = None, out: Any = None, **kwargs: Any) -> Any:
        """Reduce arrays.

        Parameters
        ----------
        *args
            Arrays that broadcast together, or numbers.
        axis : int, tuple of int, optional
            Default: all axes.
        keepdims : bool
            Keep the reduced axes with extent 1.
        dtype : dtype, optional
            Of the elements before they are combined, and so of the accumulator.
        out : array, optional
            Where to store.
        **kwargs
            Numbers and arrays by name; of functions that are NumPy's, its keywords
            `where` and `initial`.

        Raises
        ------
        numpy.exceptions.AxisError
            `axis` is out of range.
        ShapeError
            An axis is repeated, or nothing to reduce and no identity (max, min).
        """
        plain = keepdims is False and dtype is None and not kwargs and (
            axis is None or type(axis) is int or (
                type(axis) is tuple and all(type(a) is int for a in axis)))
        key = _cache_key(args, axis, out) if plain else ()
        known = self._known.get(key) if plain else None
        if known is not None and (self._takes_nothing or all(
                0 not in extents(x) for x in args)):
            return known(args, out)
        if kwargs and not self.keywords.keys().isdisjoint(kwargs):
            return as_numpy(self.__name__, *args, axis=axis, keepdims=keepdims,
                            dtype=dtype, out=out, **kwargs)
        values = self.parameters.bind(args, kwargs)
        shapes = [extents(v) for v in values]
        kinds = tuple(map(kind_of, values))
        ndim = max((len(s) for s, k in zip(shapes, kinds, strict=True)
                    if k == "element"), default=0)
        if ndim == 0 and self.is_numpys and names_only_element(axis):
            axis = None  # as NumPy's have it
        axes = None if axis is None else tuple(sorted(normalize_axes(axis, ndim)))
        name = None if dtype is None else check_dtype(dtype).name
        if dtype is not None:
            for v, k in zip(values, kinds, strict=True):
                if k == "element":
                    warn_of_lost_part(self.__name__, dtype_of(v), check_dtype(dtype))
        keep = boolean(keepdims, self.parameters.name, "keepdims")
        spec = self.spec(kinds, axes, keep, name)
        outs = output_tuple(out, len(self.post.results), self.parameters.name)
        if not self._takes_nothing:
            self._check_extent(spec, shapes, axes)
        try:
            results = apply(spec, values, out=outs, names=self.parameters.names)
        except KernelTypeError as error:
            raise_named(error, self.parameters.name, self.parameters.names, values)
        if plain and self.parameters.accepts(tuple(map(type, args))):
            self._known[key] = CachedCall(
                spec, values, outs, self.parameters.name, self.parameters.names,
                self.parameters.defaults[len(args):])
        return unpack_single(results)

    @cached_property
    def _takes_nothing(self) -> bool:
        """Whether the combine is defined for no elements."""
        return self.combine.name == "logsumexp" or \
            not {"lowest", "highest"} & set(self.combine.identity)

    def _check_extent(self, spec: Reduce, shapes: list[Shape],
                      axes: Shape | None) -> None:
        full = spec.extent(tuple(shapes))
        reduced = range(len(full)) if axes is None else axes
        if any(full[a] == 0 for a in reduced) and 0 not in [
                n for a, n in enumerate(full) if a not in reduced]:
            raise ShapeError(
                f"{self.parameters.name}: nothing to reduce along axis {axes} of shape "
                f"{full}, and no identity; reduce over an axis that has elements")


def check_post(post: Function, combine: Combine, what: str) -> None:
    """Raise `KernelTypeError` unless `post` takes what is combined."""
    values = len(combine.finish.results)
    if len(post.params) < values:
        raise KernelTypeError(
            f"{what}: 'post' must take the {quantity(values, 'value')} of combine "
            f"{combine.name!r}, then others, got {post.name}({', '.join(post.params)})")


def check_arity(function: Function, combine: Combine, what: str) -> None:
    """Raise `KernelTypeError` unless a map gives as many values as are combined."""
    if combine.arity != len(function.results):
        raise KernelTypeError(
            f"{what}: combine {combine.name!r} takes "
            f"{quantity(combine.arity, 'value')} of an element, the map gives "
            f"{len(function.results)}; make a reduction, or a stage, of each")


#: What a function given as `combine` may leave unchanged.
_NEUTRAL = {0: "0", 1: "1", float("-inf"): "lowest", float("inf"): "highest"}


def user_combine(merge: Function, identity_: float) -> Combine:
    """Make a combine of ``merge(a, b)`` and its neutral element."""
    if len(merge.params) != 2 or len(merge.results) != 1:
        raise KernelTypeError("'combine' must take two values and return one, got "
                              f"{merge.name}({', '.join(merge.params)})")
    _check_neutral(merge, identity_)
    return Combine(merge.name, identity(), merge, (_NEUTRAL[identity_],), identity())


def _check_neutral(merge: Function, neutral: float) -> None:
    """Raise `RangeError` if `neutral` is neutral for no kind of numbers."""
    from ..scalar.ir.interpret import evaluate  # few programs have such functions

    found = []
    for probes in (np.array([1.75, -0.75, 3.0]), np.array([5, -3, 1]),
                   np.array([True, False])):
        with (suppress(TypeError, OverflowError, KernelTypeError),
              np.errstate(all="ignore")):
            known = probes.dtype.type(neutral)
            sides = [evaluate(merge, *pair)[0] for pair in
                     ((known, probes), (probes, known))]
            whole = probes.dtype.kind == "b"  # a constant equals one of two values
            if all((np.all if whole else np.any)(np.isclose(side, probes))
                   for side in sides):
                return
            found.append((probes[0], *(side.flat[0] for side in sides)))
    for probe, *sides in found[:1]:
        raise RangeError(
            f"nf.reduction: 'identity' {neutral} is not neutral: {merge.name} of it "
            f"and {probe}, in either order, is {sides[0]} and {sides[1]}; pass the one "
            "of 0, 1, -inf and inf that changes nothing")


@lru_cache(maxsize=64)
def narrow(combine: Combine) -> Combine:
    """Keep the state of a combine in the dtype of the elements."""
    saving = None if combine.saving is None else narrow(combine.saving)
    return replace(combine, widen=False, saving=saving)


@lru_cache(maxsize=1024)
def cast_results(function: Function, dtype: str) -> Function:
    """Cast the results of a function."""

    def build(b: Builder) -> tuple[Value, ...]:
        return tuple(b.let("cast", r, attr=dtype)
                     for r in b.call(function, *function.params))

    return compose(function.name, function.params, build)


def reduction(pyfunc: None = None, /, *, combine: str | Callable[..., Any] = "sum",
              post: Callable[..., Any] | None = None,
              identity: float = 0) -> Callable[[Callable[..., Any]], Reduction]:
    """Make a scalar function the map of a reduction.

    Parameters
    ----------
    combine : str or callable
        ``"sum"``, ``"prod"``, ``"max"``, ``"min"``, ``"argmax"``, ``"argmin"``,
        ``"logsumexp"``, ``"welford"`` (mean, then variance), ``"all"``, ``"any"``,
        ``"nanmax"``, ``"nanmin"``, ``"nanmean"``; or
        an associative and commutative function of two values, which is differentiated
        by folding the elements of each output from the left, in C order.
    post : callable, optional
        A scalar function of the combined value, or values; a further parameter ``size``
        is the number of elements reduced.
    identity : number
        The neutral element of a function given as `combine`: 0, 1, -inf or inf.

    Raises
    ------
    KernelTypeError
        There is no such `combine`.
    RangeError
        `identity` is another number, or not neutral for `combine`.

    Examples
    --------
    >>> import math, numpy as np, nbfused as nf
    >>> @nf.reduction(combine="sum", post=math.sqrt)
    ... def l2norm(x):
    ...     return x * x
    >>> float(l2norm(np.array([3.0, 4.0])))
    5.0
    """
    if pyfunc is not None:
        raise KernelTypeError("nf.reduction takes options by name before it decorates; "
                              f"got {pyfunc!r}; write @nf.reduction(combine='sum')")
    if not callable(combine):
        check_combine(combine, "a function or ")
    if real_number(identity, "nf.reduction", "identity") not in _NEUTRAL:
        raise RangeError("nf.reduction: 'identity' must be 0, 1, -inf or inf, got "
                         f"{identity!r}; map the elements so that one of them is "
                         "neutral")
    return counting_decorator(lambda pyfunc: Reduction(pyfunc, combine, post, identity))


def check_combine(given: Any, other: str = "") -> None:
    """Raise `KernelTypeError` unless `given` names a combine."""
    if not isinstance(given, str) or given not in COMBINES:
        raise KernelTypeError(f"'combine' must be {other}one of {sorted(COMBINES)}, "
                              f"got {given!r}")


def _cache_key(args: tuple[Any, ...], axis: Any, out: Any) -> tuple[Any, ...]:
    """The cache key of a reduction's arguments, apart from their elements."""
    if len(args) == 1:  # most have one
        x = args[0]
        return axis, type(out), type(x), None if axis is None else getattr(x, "ndim", 0)
    types = axis, type(out), *map(type, args)
    return types if axis is None else (*types, *[getattr(x, "ndim", 0) for x in args])
