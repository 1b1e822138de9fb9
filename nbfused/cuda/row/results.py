"""Row's outputs: elements, sums over rows, and what a row has one of."""

from __future__ import annotations

from ..text.source import encoded, evaluate
from .elements import Elements
from .scope import RowScope
from .sums import RowSums

__all__ = ["Results"]


class Results:
    """Writes the outputs of a row.

    Parameters
    ----------
    scope
        The kernel under construction.
    elements, sums
        Its elements, and its sums over rows.
    """

    def __init__(self, scope: RowScope, elements: Elements, sums: RowSums) -> None:
        self.scope, self.elements, self.sums = scope, elements, sums
        self.out, self.plan, self.text = scope.out, scope.plan, scope.text
        self.typed = scope.typed.outs

    def store(self) -> None:
        """All outputs of a row."""
        self._outs()
        self._row_outs()

    def _outs(self) -> None:
        """Everything that needs the elements once more."""
        typed = self.typed
        wanted = [k for k, t in enumerate(typed) if t.kind != "row"]
        if not wanted:
            return
        self.count = 0

        def body(access: int, columns: list[str], loads: list[dict[str, str]]) -> None:
            self.count += 1
            for k in wanted:
                with self.out.repeated(names := []):
                    names += self._values(k, columns, loads)
                self._put(k, access, columns, names)

        with self.out.block("if inside:"):
            self.elements.each([typed[k].function for k in wanted], body)

    def _values(self, k: int, columns: list[str], loads: list[dict[str, str]],
                ) -> list[str]:
        """The names of an output's values at some columns."""
        function, found = self.typed[k].function, []
        for e, (column, values) in enumerate(zip(columns, loads, strict=True)):
            arguments = self.scope.arguments(function, {**values, "index": column})
            lines, names = evaluate(function, arguments, f"y{self.count}_{k}_{e}_",
                                    self.scope.calls)
            self.out(*lines)
            found += names
        return found

    def _put(self, k: int, access: int, columns: list[str], names: list[str]) -> None:
        """Store elements, or add them to the sums over rows."""
        out, typed, o = self.out, self.typed[k], self.text.outputs[k]
        result = typed.function.results[0]
        if typed.kind == "element":
            parts = [encoded(result, o.dtype, n) for n in names]
            if self.plan.vector:
                place = self.elements.place(o, columns[0])
                out(f"store{len(parts)}({o.pointer}, {place}, ({', '.join(parts)},))")
            else:
                pointer = self.elements.pointer(o)
                out(*(f"{pointer}[{self.elements.place(o, c)}] = {p}"
                      for c, p in zip(columns, parts, strict=True)))
            return
        self.sums.add(k, access, columns, [(result, n) for n in names])

    def _row_outs(self) -> None:
        out, wanted = self.out, [k for k, t in enumerate(self.typed)
                                 if t.kind == "row"]
        if not wanted:
            return
        first = " and rank == 0" if self.plan.cluster > 1 else ""
        with out.block(f"if inside and lane == 0{first}:"):
            for k in wanted:
                function, o = self.typed[k].function, self.text.outputs[k]
                lines, (name,) = evaluate(function, self.scope.arguments(function, {}),
                                          f"q{k}_", self.scope.calls)
                stored = encoded(function.results[0], o.dtype, name)
                out(*lines, f"{o.pointer}[{self.scope.base[o.at]}] = {stored}")
