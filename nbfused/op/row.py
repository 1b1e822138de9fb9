"""`row`: reductions along one axis and a final map, as one nested function."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, overload

from ..arrays.traced import extents
from ..autograd import apply
from ..errors import KernelTypeError, ScalarSyntaxError
from ..scalar.ir.build import Builder
from ..scalar.ir.nodes import Function, Value, read
from ..scalar.parse.functions import parse
from ..scalar.source.definitions import definition, namespace
from ..specs import COMBINES, Out, Row, Stage
from ..specs.shapes import normalize_axis
from ..specs.vjp.functions import compose, pick, trim
from ..support.forks import cached_property
from ..support.records import record
from .base import (
    check_pyfunc,
    is_number,
    output_tuple,
    raise_named,
    unpack_single,
)
from .cached_call import CachedCall
from .elementwise import Func
from .kernel_counts import counting_decorator
from .reduction import check_arity, check_combine, check_post
from .scalar import scalar_function

__all__ = ["RowOp", "index", "row", "size", "stage"]

#: Names that every function of a row may use.
IMPLICIT = ("index", "size")


class Implicit:
    """`index` or `size`: a number that the functions of a row read by name."""

    def __init__(self, name: str, meaning: str) -> None:
        self.__nbfused_implicit__ = name
        self.__name__: str = name
        self.__doc__ = meaning

    def __call__(self, *args: Any) -> NoReturn:
        """Refuse: outside of a row there is no value."""
        raise KernelTypeError(f"nf.{self.__name__} is a number inside the functions of "
                              f"a row; write {self.__name__} there, without brackets")

    def __repr__(self) -> str:
        return f"<nbfused {self.__name__}>"


index: Any = Implicit("index", """The column: a number inside the functions of a `row`.

It is written as it is, ``x * index``, or as a parameter of a `stage`.
""")
size: Any = Implicit("size", """The number of columns, inside the functions of a `row`.

It is written as it is, ``total / size``, or as a parameter of a `stage`.
""")


@record(frozen=True)
class StageMark:
    """An inner function marked by `stage`."""

    pyfunc: Callable[..., Any]
    combine: str
    post: Callable[..., Any] | None
    detach: bool


def stage(combine: str, *, post: Callable[..., Any] | None = None,
          detach: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Mark an inner function of a `row` as the map of a reduction along the row.

    The function's name stands for the reduced value in the later functions.  Its
    parameters are names: of inputs, of earlier stages, ``index`` (the column) or
    ``size`` (the number of columns).

    Parameters
    ----------
    combine : str
        As in `reduction`.  ``"welford"`` gives two values: ``mean, variance = name``.
    post : callable, optional
        A function of the combined value, or values, then of names as above.
    detach : bool
        Let no derivative through (softmax's maximum).

    Raises
    ------
    KernelTypeError
        There is no such `combine`, or it is a function.
    """
    if callable(combine):
        raise KernelTypeError(f"nf.stage takes 'combine' before it decorates; got "
                              f"{combine!r}; write @nf.stage('sum')")
    check_combine(combine)

    def mark(pyfunc: Callable[..., Any]) -> StageMark:
        check_pyfunc(pyfunc, "stage")
        return StageMark(pyfunc, combine, post, detach)

    return mark


class RowOp(Func):
    """A function along one axis of its arguments, run in one launch.

    `kinds` names the parameters that are not elements: ``"row"`` for an array with one
    value for each row, ``"column"`` for one value for each column.
    """

    options: tuple[str, ...] = ("axis", "out")

    def __init__(self, pyfunc: Callable[..., Any], kinds: Mapping[str, str]) -> None:
        super().__init__(pyfunc)
        unknown = set(kinds) - set(self.signature.parameters)
        if unknown or set(kinds.values()) - {"row", "column", "element"}:
            raise KernelTypeError(
                f"{self.parameters.name}: kinds {dict(kinds)} must give 'row', "
                f"'column' or 'element' to parameters of {self.signature}")
        if not self.signature.parameters:
            raise KernelTypeError(
                f"nf.row: {self.__name__}() takes nothing; expected a function of an "
                "array whose rows it works on, and of more")
        self.kinds: dict[str, str] = dict(kinds)
        #: Refuses the first argument, by the op's name and its own.
        self.check: Callable[[Any, str, str], None] | None = None
        self._specs: dict[tuple[tuple[str, ...], int], Row] = {}
        #: Of calls along the last axis.
        self._known: dict[tuple[Any, ...], CachedCall] = {}

    def made_of(self) -> tuple[Any, ...]:
        """The function and the kinds, from which a copy can be made."""
        return self.pyfunc, self.kinds

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The marked inner functions, in order."""
        return self._read[0]

    @cached_property
    def outs(self) -> tuple[Function, ...]:
        """The returned values, each as a function of names."""
        return self._read[1]

    @cached_property
    def function(self) -> Function:
        """Refuse: a row has no scalar function."""
        raise KernelTypeError(f"{self.__name__} works on whole rows; it cannot be "
                              "called inside a scalar function")

    def source(self, kind: str = "primal") -> str:
        """Refuse: a row has no single text."""
        raise KernelTypeError(f"{self.parameters.name}.source(): a row is made of "
                              "several functions; expected an elementwise op or a "
                              "reduction; NBFUSED_DUMP_SOURCE=folder shows its kernel")

    @cached_property
    def _read(self) -> tuple[tuple[Stage, ...], tuple[Function, ...]]:
        marked = _marked_functions(self.pyfunc)
        for name in {*self.signature.parameters, *marked}.intersection(IMPLICIT):
            raise ScalarSyntaxError(
                f"row {self.parameters.name}: {name!r} is a parameter or a stage, and "
                "means the column or the number of columns; give it another name")
        scope: dict[str, Any] = {n: n for n in (*self.signature.parameters, *IMPLICIT)}
        stages: list[Stage] = []
        for name, mark in marked.items():
            stages.append(_stage(name, mark, scope))
            values = stages[-1].names
            scope[name] = values[0] if len(values) == 1 else values
        parsed = parse(self.pyfunc, environment=_free(scope, self.signature))
        whole = _with_scope(parsed, scope)
        if not whole.results:
            raise ScalarSyntaxError(
                f"row {whole.name} returns nothing; end it with the return of a "
                "number, or of a tuple of numbers")
        outs = tuple(trim(pick(whole, [k]))[0] for k in range(len(whole.results)))
        return tuple(stages), outs

    def spec(self, kinds: tuple[str, ...], axis: int) -> Row:
        """The Row for arguments of these kinds along `axis`."""
        found = self._specs.get((kinds, axis))
        if found is None:
            given = dict(zip(self.signature.parameters, kinds, strict=True))
            rows = {n for n, k in given.items() if k in ("row", "scalar")}
            rows |= {n for s in self.stages for n in s.names} | {"size"}
            outs = tuple(Out("row" if rows.issuperset(f.params) else "element", f)
                         for f in self.outs)
            found = Row(self.parameters.name, tuple(given), kinds, self.stages, outs,
                        axis)
            self._specs[kinds, axis] = found
        return found

    def __call__(self, *args: Any, axis: int = -1, out: Any = None,
                 **kwargs: Any) -> Any:
        """Apply the row function along `axis`; the other axes are rows.

        Returns
        -------
        array or tuple of arrays
            Of the shape of the elements, or without `axis` for a result that is one
            for each row.
        """
        plain = type(axis) is int and len(args) > 0 and not kwargs
        key = _cache_key(args, axis, out) if plain else ()
        known = self._known.get(key) if plain else None
        if known is not None:
            return known(args, out)
        values = self.parameters.bind(args, kwargs)
        names = self.parameters.names
        if self.check is not None:
            self.check(values[0], self.parameters.name, names[0])
        kinds = tuple("scalar" if is_number(v) else self.kinds.get(n, "element")
                      for v, n in zip(values, names, strict=True))
        ndim = max((len(extents(v)) for v, k in zip(values, kinds, strict=True)
                    if k == "element"), default=0)
        if not ndim:
            raise KernelTypeError(
                f"{self.parameters.name}: '{names[0]}' must be an array of at least "
                f"one dimension, got {values[0]!r}; reshape it to (1,)")
        outs = output_tuple(out, len(self.outs), self.parameters.name)
        spec = self.spec(kinds, normalize_axis(axis, ndim) - ndim)
        try:
            results = apply(spec, values, out=outs, names=names)
        except KernelTypeError as error:
            raise_named(error, self.parameters.name, names, values)
        if plain and kinds[0] == "element" and \
                self.parameters.accepts(tuple(map(type, args))):
            self._known[key] = CachedCall(
                spec, values, outs, self.parameters.name, self.parameters.names,
                self.parameters.defaults[len(args):])
        return unpack_single(results)


def _cache_key(args: tuple[Any, ...], axis: int, out: Any) -> tuple[Any, ...]:
    """The cache key of a row's arguments: their types, the first one's dtype."""
    x = args[0]
    return (axis, getattr(x, "dtype", None), getattr(x, "ndim", 0), type(out),
            *map(type, args))


def _marked_functions(pyfunc: Callable[..., Any]) -> dict[str, StageMark]:
    """Find the marked inner functions, executed where they are defined."""
    try:
        found = definition(pyfunc)
    except OSError as error:
        raise ScalarSyntaxError(
            f"the source of row '{pyfunc.__name__}' is not available, and its stages "
            "are read from it; define it in a file or a notebook") from error
    marks: dict[str, StageMark] = {}
    scope = dict(namespace(pyfunc))
    for node in found.node.body if isinstance(found.node, ast.FunctionDef) else ():
        if isinstance(node, ast.FunctionDef):
            code = compile(ast.Module([node], []), found.source.file, "exec")
            exec(code, scope)  # the user's own decorators, in the user's namespace
            mark = scope[node.name]
            if not isinstance(mark, StageMark):
                raise found.source.error(node, f"inner function {node.name} of a row "
                                               "must be marked with @nf.stage(...)")
            marks[node.name] = mark
    return marks


def _stage(name: str, mark: StageMark, scope: Mapping[str, Any]) -> Stage:
    combine = COMBINES[mark.combine]
    for param in inspect.signature(mark.pyfunc).parameters:
        if isinstance(scope.get(param), tuple):
            raise ScalarSyntaxError(
                f"stage '{name}' has a parameter '{param}', an earlier stage of "
                f"{len(scope[param])} values; expected one of one: leave it out of the "
                f"parameters and write a, b = {param} in the stage")
    map_ = _with_scope(parse(mark.pyfunc, environment=dict(scope)), scope)
    _check_names(name, map_, scope)
    check_arity(map_, combine, f"stage '{name}'")
    finish = combine.finish
    post = finish
    if mark.post is not None:
        given = scalar_function(mark.post, "post")
        check_post(given, combine, f"stage '{name}'")
        count = len(finish.results)
        rest = given.params[count:]

        def build(b: Builder) -> tuple[Value, ...]:
            return b.call(given, *b.call(finish, *finish.params), *rest)

        post = compose(given.name, (*finish.params, *rest), build)
    values = len(post.results)
    names = (name,) if values == 1 else tuple(f"{name}_{k}" for k in range(values))
    return Stage(names, map_, combine, post, mark.detach)


def _free(scope: Mapping[str, Any], signature: inspect.Signature) -> dict[str, Any]:
    """The names of the scope, without the parameters of the row itself."""
    return {n: v for n, v in scope.items() if n not in signature.parameters}


def _with_scope(function: Function, scope: Mapping[str, Any]) -> Function:
    """Make parameters of the scope's names that `function` reads."""
    known = [v for names in scope.values()
             for v in (names if isinstance(names, tuple) else (names,))]
    used = read(function.body)
    free = [n for n in dict.fromkeys(known) if n in used and n not in function.params]
    whole = Function(function.name, (*function.params, *free), function.body,
                     function.pyfile, function.line)
    return trim(whole)[0]


def _check_names(name: str, function: Function, scope: Mapping[str, Any]) -> None:
    unknown = [p for p in function.params if p not in scope and not any(
        isinstance(v, tuple) and p in v for v in scope.values())]
    if unknown:
        raise ScalarSyntaxError(
            f"stage '{name}' has a parameter '{unknown[0]}' that is neither an input "
            f"nor an earlier stage; known: {', '.join(scope)}")


@overload
def row(pyfunc: Callable[..., Any], /, **kinds: str) -> RowOp: ...
@overload
def row(**kinds: str) -> Callable[[Callable[..., Any]], RowOp]: ...
def row(
        pyfunc: Callable[..., Any] | None = None, /, **kinds: str,
) -> RowOp | Callable[[Callable[..., Any]], RowOp]:
    """Make a nested function an operation along one axis.

    Parameters
    ----------
    pyfunc : callable
        Its inner functions, marked with `stage`, are reductions along the row; what it
        returns is computed for each element.
    **kinds : str
        ``name="column"`` for an argument with one value for each column (a weight),
        ``name="row"`` for one value for each row (a label).

    Returns
    -------
    RowOp

    Examples
    --------
    >>> import math, numpy as np, nbfused as nf
    >>> @nf.row
    ... def softmax(x):
    ...     @nf.stage("max", detach=True)
    ...     def top(x):
    ...         return x
    ...     @nf.stage("sum")
    ...     def total(x, top):
    ...         return math.exp(x - top)
    ...     return math.exp(x - top) / total
    >>> softmax(np.zeros((1, 4)))
    array([[0.25, 0.25, 0.25, 0.25]])
    """
    make = counting_decorator(lambda pyfunc: RowOp(pyfunc, kinds))
    return make if pyfunc is None else make(pyfunc)
