"""Arrays of one number that is known while tracing: the cotangent of a mean, say.

They are handed to kernels as numbers, so that no launch makes them and none waits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...scalar.ir.clean import has_effects
from ...scalar.ir.interpret import evaluate
from ...scalar.ir.nodes import used_params
from ...scalar.typing.python_numbers import number_type
from ...specs import Map, Row, View
from ...specs.fusion.graph import Node, Value

__all__ = ["Constants"]


class Constants:
    """The values of a trace that are the same number everywhere, whatever is given."""

    def __init__(self) -> None:
        self._known: dict[Value, Any] = {}

    def inputs(self, spec: Any, values: Sequence[Any]) -> tuple[Any, tuple[Any, ...]]:
        """A spec and its inputs, with numbers in place of arrays where that can be.

        What is left has the elements that say where it runs.
        """
        kinds = [kind for kind, _ in spec.parameters[:len(values)]]
        swaps = [k for k, (x, kind) in enumerate(zip(values, kinds, strict=False))
                 if isinstance(x, Value) and x in self._known
                 and _may_swap(spec, kind, k, values, self._known)]
        if not swaps:
            return spec, tuple(values)
        given = tuple([self._known[x] if k in swaps else x
                       for k, x in enumerate(values)])
        if isinstance(spec, Row):
            return replace(spec, kinds=tuple([
                "scalar" if k in swaps else kind
                for k, kind in enumerate(spec.kinds)])), given
        numbers = [not isinstance(x, Value) or x.by_value for x in given]
        return spec.with_numbers(numbers), given

    def note(self, node: Node) -> None:
        """Keep the numbers that the results of a node are."""
        spec = node.spec
        if isinstance(spec, View):
            if spec.rearranges and node.inputs[0] in self._known:
                self._known[node.outputs[0]] = self._known[node.inputs[0]]
        elif isinstance(spec, Map) and not spec.scatter_shapes:
            self._evaluate(node)

    def _evaluate(self, node: Node) -> None:
        function, spec = node.spec.function, node.spec
        used = dict(zip(function.params, used_params(function), strict=True))
        if has_effects(function.body):
            return
        given: dict[str, Any] = {}
        for x, (_, name) in zip(node.inputs, spec.parameters, strict=True):
            if not isinstance(x, Value):
                given[name] = x
            elif x in self._known:
                given[name] = self._known[x]
        if any(u and p not in given for p, u in used.items()):
            return
        types = tuple(x.type if isinstance(x, Value) else number_type(x)
                      for x in node.inputs)
        results = evaluate(spec.typed(types).function,
                           *(given.get(p, 0) for p in function.params))
        for value, result in zip(node.outputs, results, strict=True):
            dtype = value.type
            if isinstance(dtype, np.dtype) and dtype.kind in "fV" and result.size == 1:
                self._known[value] = result.astype(dtype).ravel()[0]


def _may_swap(spec: Any, kind: str, position: int, values: Sequence[Any],
              known: Collection[Value]) -> bool:
    """Whether a number may stand for this input."""
    if isinstance(spec, Row):
        return kind in ("row", "column")
    if not isinstance(spec, Map) or kind != "element":
        return False
    kept = tuple(x.shape if isinstance(x, Value) else () for k, x in enumerate(values)
                 if spec.parameters[k][0] == "element" and not (
                     isinstance(x, Value) and x in known))
    whole = tuple(x.shape if isinstance(x, Value) else () for k, x in enumerate(values)
                  if spec.parameters[k][0] == "element")
    return bool(kept) and position < len(values) and \
        np.broadcast_shapes(*kept) == np.broadcast_shapes(*whole)
