"""Rows over the same elements, Maps beside them and sums of what they give as one Row.

A loss and its derivative read the same logits, so they are one launch; what a bias
receives from them is a column's sum in it, and the mean loss a sum over all rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from ...scalar.ir.build import Builder
from ...scalar.ir.clean import has_effects
from ...scalar.ir.nodes import Function, Let, literal
from ...scalar.ir.nodes import Value as Scalar
from ...scalar.typing.types import Type, compute_dtype
from ...support.records import record
from ..base import Shape
from ..combine import sum_combine
from ..map import Map
from ..reduce import Reduce
from ..row import Out, Row, Stage
from ..shapes import broadcast_shapes, normalize_axes
from ..vjp.functions import compose, pick, trim
from .graph import Launch, Node, Value, type_of
from .order import in_order, lies_between
from .row_algebra import row_kind

__all__ = ["join_rows", "joins_row"]

#: The most columns of a row that is joined, and of one that makes sums too: in a long
#: one these are lines for each of a lane's elements, and a kernel of 1,300 lines takes
#: longer to compile than anything else of a step.
COLUMNS, SUMMED = 1 << 15, 1 << 8
#: What may be joined after each.
_AFTER: dict[type, tuple[type, ...]] = {Row: (Row, Map, Reduce), Map: (Row,)}
#: Arrays of elements that a joined row reads and stores.
_ELEMENTS = 8


def join_rows(launches: Sequence[Launch], wanted: Sequence[Value],
              stores: Mapping[Value, Value]) -> list[Launch]:
    """Launches with Rows joined to the Rows, Maps and sums that read from them.

    Parameters
    ----------
    launches
        Each after what it reads.
    wanted
        The values that are read after all of them.
    stores
        For each argument that is changed in place its new value: a Map may read and
        store it, a Row not.

    Returns
    -------
    list of Launch
        Each after what it reads.
    """
    found = list(launches)
    joined = any(isinstance(one.spec, Row) for one in found)
    while joined:
        joined = False
        for first, second in _pairs(found):
            made = _joined(first, second)
            if made is not None and not any(
                    own in made.inputs and new in made.outputs
                    for own, new in stores.items()):
                rest = [one for one in found if one is not first and one is not second]
                found = in_order([*rest, _trimmed(made, rest, wanted)])
                joined = True
                break
    return found


def joins_row(node: Node) -> bool:
    """Whether a reduction is a sum that the Row before it can make."""
    maker = next(iter(node.sources), None)
    if not isinstance(node.spec, Reduce) or maker is None or not isinstance(
            maker.spec, Row):
        return False
    first, second = (Launch(n.spec, n.inputs, n.outputs) for n in (maker, node))
    return _joined(first, second) is not None


def _pairs(launches: Sequence[Launch]) -> list[tuple[Launch, Launch]]:
    """Rows, each with what reads from it and may run as a part of it."""
    return [(first, second) for first in launches if type(first.spec) in _AFTER
            for second in launches if isinstance(second.spec, _AFTER[type(first.spec)])
            and not set(first.outputs).isdisjoint(second.inputs)
            and not lies_between(launches, first, second)]


def _joined(first: Launch, second: Launch) -> Launch | None:
    extent = _extent(first if isinstance(first.spec, Row) else second)
    if extent is None or extent[-1] > COLUMNS:
        return None
    if isinstance(second.spec, Reduce):
        return _with_sums(first, second, extent)
    rows = [one if isinstance(one.spec, Row) else _as_row(one, extent)
            for one in (first, second)]
    if rows[0] is None or rows[1] is None or _extent(rows[0]) != _extent(rows[1]):
        return None
    return _both(rows[0], rows[1])


def _as_row(launch: Launch, extent: Shape) -> Launch | None:
    """A Map of rows as a Row without stages."""
    function = launch.spec.function
    kinds = tuple([row_kind(x, extent) if isinstance(x, Value) else "scalar"
                   for x in launch.inputs])
    if None in kinds or "element" not in kinds or has_effects(function.body) \
            or set(launch.spec.kinds) - {"element", "scalar"}:
        return None
    outs = tuple([Out("element", trim(pick(function, (k,)))[0])
                  for k in range(len(launch.outputs))])
    return replace(launch, spec=Row(launch.spec.name, function.params,
                                    tuple(map(str, kinds)), (), outs))


def _extent(launch: Launch) -> Shape | None:
    """The shape of all elements, which an input has; None if it is not along rows."""
    spec = launch.spec
    shapes = {x.shape for x, k in zip(launch.inputs, spec.kinds, strict=True)
              if k == "element"}
    extent = broadcast_shapes([*shapes])
    along = spec.axis % max(1, len(extent)) == len(extent) - 1
    return extent if extent in shapes and along and len(extent) > 1 else None


def _trimmed(launch: Launch, others: Sequence[Launch],
             wanted: Sequence[Value]) -> Launch:
    """The launch without outputs that nobody reads."""
    read = {x for one in others for x in one.inputs if isinstance(x, Value)}
    kept = [k for k, v in enumerate(launch.outputs) if v in read or v in wanted]
    spec = replace(launch.spec, outs=tuple([launch.spec.outs[k] for k in kept]))
    outputs = tuple([launch.outputs[k] for k in kept])
    types = tuple([type_of(x) for x in launch.inputs])
    natural = tuple(v.type for v in outputs) == spec.result_types(types)
    return replace(launch, spec=spec, outputs=outputs,
                   asked=None if natural else tuple([v.type for v in outputs]))


# --- a row and one that reads from it


@record
class _Wires:
    """Names of the second row in the joined one.

    Attributes
    ----------
    names
        The names of inputs and stages.
    made
        The functions of outputs of the first row, and the dtypes they are rounded to.
    """

    names: dict[str, str]
    made: dict[str, tuple[Function, np.dtype]]

    def __call__(self, function: Function, first: int = 0) -> Function:
        """The function with its parameters, but the `first` ones, as they are now."""
        own, wired = function.params[:first], function.params[first:]
        params = tuple(dict.fromkeys((*own, *(
            n for p in wired for n in (self.made[p][0].params if p in self.made else
                                       (self.names.get(p, p),))))))

        def build(b: Builder) -> tuple[Scalar, ...]:
            values = [self._value(b, p) for p in wired]
            return b.call(function, *own, *values)

        return compose(function.name, params, build)

    def _value(self, b: Builder, name: str) -> Scalar:
        if name not in self.made:
            return self.names.get(name, name)
        function, dtype = self.made[name]
        (value,) = b.call(function, *function.params)
        value = b.let("cast", value, attr=dtype.name)
        wide = compute_dtype(dtype)
        if wide == dtype:
            return value
        # Rounded as in an array: a 16-bit number is kept in 32 bits otherwise.
        return b.let("cast", b.let("cast", value, attr=wide.name), attr=dtype.name)


def _both(first: Launch, second: Launch) -> Launch | None:
    """Two Rows, the second of which reads from the first."""
    spec, own = first.spec, second.spec
    taken = {*spec.inputs, *(n for s in spec.stages for n in s.names)}
    wires, inputs = _Wires({}, {}), []
    for name, kind, x in zip(own.inputs, own.kinds, second.inputs, strict=True):
        if x in first.outputs:
            out = spec.outs[first.outputs.index(x)]
            if out.kind != kind or kind not in ("element", "row"):
                return None  # a sum over rows is known after the last of them
            wires.made[name] = out.function, x.type
            continue
        known = next((n for n, k, y in zip(spec.inputs, spec.kinds, first.inputs,
                                           strict=True)
                      if k == kind and _same(x, y)), None)
        wires.names[name] = known or _fresh(name, taken)
        if known is None:
            inputs.append((wires.names[name], kind, x))
    for stage in own.stages:
        wires.names.update((n, _fresh(n, taken)) for n in stage.names)
    made = replace(
        spec, inputs=(*spec.inputs, *(n for n, _, _ in inputs)),
        kinds=(*spec.kinds, *(k for _, k, _ in inputs)),
        stages=(*spec.stages, *(_moved(s, wires) for s in own.stages)),
        outs=(*spec.outs, *(replace(o, function=wires(o.function)) for o in own.outs)))
    elements = made.kinds.count("element") + sum(o.kind == "element" for o in made.outs)
    return None if elements > _ELEMENTS else replace(
        first, spec=made, inputs=(*first.inputs, *(x for _, _, x in inputs)),
        outputs=(*first.outputs, *second.outputs),
        nodes=(*first.nodes, *second.nodes), exact=first.exact or second.exact)


def _moved(stage: Stage, wires: _Wires) -> Stage:
    return replace(
        stage, names=tuple([wires.names[n] for n in stage.names]),
        map=wires(stage.map), post=wires(stage.post, len(stage.combine.identity)))


def _same(x: Any, y: Any) -> bool:
    if isinstance(x, Value) or isinstance(y, Value):
        return x is y
    return type(x) is type(y) and repr(x) == repr(y)


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


# --- a row and sums of what it gives


def _with_sums(first: Launch, second: Launch, extent: Shape) -> Launch | None:
    """A Row and a plain sum, or the mean, of one of its outputs."""
    spec, own = first.spec, second.spec
    (x, *others), (result, *further) = second.inputs, second.outputs
    if others or further or own.keepdims or own.kinds != ("element",) or \
            x not in first.outputs or own.combine != sum_combine(1) or \
            own.map.results != own.map.params or extent[-1] > SUMMED:
        return None
    out = spec.outs[first.outputs.index(x)]
    count = prod(x.shape)
    post = _post(own.post, result.type)
    mean = post == "mean"
    if result.type != x.type or result.type.kind not in "fV" or not (count and post):
        return None
    axes = tuple(sorted(normalize_axes(own.axes, len(x.shape))))
    rows = tuple(range(len(extent) - 1))
    if (out.kind, axes) == ("element", rows):
        made = Out("column", _shared(out.function, count // extent[-1], mean))
    elif (out.kind, axes) in (("row", rows), ("element", (*rows, len(rows)))):
        made = Out("scalar", _shared(out.function, count, mean, out.kind == "row"))
    else:
        return None
    return replace(first, spec=replace(spec, outs=(*spec.outs, made)),
                   outputs=(*first.outputs, result),
                   nodes=(*first.nodes, *second.nodes),
                   exact=first.exact or second.exact or mean)


def _post(post: Function, dtype: Type) -> str | None:
    """Say whether a post gives the one part of the state, or divides it by `size`."""
    (value,), total = post.results, post.params[0]
    statements = list(post.body.statements)
    match statements:
        case [*_, Let(op="cast", attr=attr, args=(before,), results=(last,))] \
                if last == value and isinstance(dtype, np.dtype) and attr == dtype.name:
            value = before
            statements.pop()
    match statements:
        case []:
            return "sum" if value == total else None
        case [Let(op="div", args=args, results=(last,))]:
            return "mean" if (last, args) == (value, (total, "size")) else None
    return None


def _shared(function: Function, count: int, mean: bool, once: bool = False) -> Function:
    """Make the function of a sum's term; a row has it at its first column."""
    params = tuple(dict.fromkeys((*function.params, *(["index"] if once else []))))

    def build(b: Builder) -> tuple[Scalar, ...]:
        (value,) = b.call(function, *function.params)
        if mean:
            value = b.let("div", value, literal(count))
        if once:
            value = b.let("select", b.let("eq", "index", literal(0)), value,
                          literal(0.0))
        return (value,)

    return trim(compose(function.name, params, build))[0]

