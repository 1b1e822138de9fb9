"""Row's stages: the reductions of a row, one level after the other."""

from __future__ import annotations

from collections.abc import Sequence

from ...gpu.row_layout import read_names
from ...scalar.printing.numba import cast
from ...scalar.typing.types import Typed
from ...scalar.typing.values import INT64
from ..text.source import evaluate
from ..text.states import Reduced, across_threads
from .cluster import ClusterSlots
from .elements import Elements
from .reductions import Pair, Single, reductions
from .scope import RowScope
from .text import Pass

__all__ = ["Stages"]


class Stages:
    """Writes the stages of a row.

    Parameters
    ----------
    scope
        The kernel under construction.
    elements
        How its lanes get at the elements.

    Attributes
    ----------
    levels
        Stages that go over the elements together.
    linked
        Blocks that wait for one another.
    """

    def __init__(self, scope: RowScope, elements: Elements) -> None:
        self.scope, self.out, self.elements = scope, scope.out, elements
        self.plan, self.typed = scope.plan, scope.typed
        # Sums relative to a maximum go with it, where a pass costs a reading.
        self.passes = scope.text.passes(together=not self.plan.kept)
        self.levels = [p.stages for p in self.passes if p.stages]
        self.linked = self.plan.cluster if self.levels else 1
        self.cluster = ClusterSlots(self.plan.threads, self.plan.cluster,
                                    len(self.levels), self.plan.turns)

    def write(self, stages: Pass) -> None:
        """The values that the stages of a pass give the row."""
        for at in stages.points:
            self._point(at)
        if stages.stages:
            found = self.sum_level(stages.stages)
            self._across([(r.states, r.state) for r in found])
            self.posts(stages.stages, found)

    def _point(self, at: int) -> None:
        """A stage that needs one column; every lane has its value."""
        out, column = self.out, self.scope.text.points[at]
        stage = Single(self.scope, at)
        lines, (place,) = evaluate(column, self.scope.arguments(column, {}), f"c{at}_",
                                   self.scope.calls)
        out(*lines)
        with out.block(f"if {place} >= 0 and {place} < columns:"):
            names = self.elements.names([self.typed.stages[at].element])
            stage.add([place], self.elements.at(names, [place]))
        self._post(at, stage.state)

    def sum_level(self, level: list[int]) -> list[Single | Pair]:
        """A lane's part of stages that do not need one another's values."""
        found = reductions(self.scope, self.elements, level)

        def body(access: int, columns: list[str], loads: list[dict[str, str]]) -> None:
            for each in found:
                each.add(columns, loads)

        self.elements.each([self.typed.stages[at].element for at in level], body)
        for each in found:
            each.close()
        return found

    def _across(self, reduced: Reduced) -> None:
        """Every lane of a row gets the row's states."""
        if self.plan.cluster > 1:
            self.cluster.across(self.out, reduced)
        elif self.plan.threads > self.plan.lanes:
            for states, state in reduced:
                states.across_lanes(self.out, state, self.plan.lanes)
        else:  # another reduction's barrier comes before the memory is used again
            again = self.plan.looped and len(self.levels) == 1
            across_threads(self.out, reduced, self.plan.threads, again=again)

    def posts(self, level: list[int], found: list[Single | Pair]) -> None:
        """The values that a level's stages give each row."""
        states: dict[int, list[str]] = {}
        for each in found:
            states |= each.finish()
        for at in level:
            self._post(at, states[at])

    def _post(self, at: int, state: Sequence[str]) -> None:
        """The values that a stage gives each row."""
        stage = self.typed.stages[at]
        post, count = stage.post, len(state)
        arguments = {**self._wired(post, count), **{
            p: cast(d, post.dtypes.get(p, d), n) for p, d, n in zip(
                post.function.params[:count], stage.state, state, strict=True)}}
        lines, results = evaluate(post, arguments, f"v{at}_", self.scope.calls)
        self.out(*lines)
        self.scope.values |= dict(zip(stage.names, results, strict=True))

    def _wired(self, post: Typed, count: int) -> dict[str, object]:
        """Arguments of a post function after the state."""
        rest = set(post.function.params[count:])
        inner = [p for p in read_names(post) if p in rest]
        return {p: cast(self.typed.dtypes.get(p, INT64), post.dtypes[p],
                        self.scope.values[p]) for p in inner}
