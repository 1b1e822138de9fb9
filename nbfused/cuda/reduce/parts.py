"""Several reductions in one: states whose parts are merged apart from one another.

A maximum and a sum of powers relative to it (`specs.fusion.row_forms.Online`) are such
parts.  Of many states at once their maxima come first, and then each sum is scaled once
for the largest of all: one power for a state, where pairs of states take two.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...scalar.typing.types import Typed
from ...specs import TypedReduce
from ...support.records import record
from ..text.source import Source, evaluate
from ..text.states import States

__all__ = ["JoinedReduce", "Part", "states_of"]


@record(frozen=True)
class Part:
    """A reduction of its own.

    Attributes
    ----------
    begin, end
        Its place in the state.
    merge
        Two of its states to one; of a maximum and its sum, two maxima to one.
    scaled
        For these: two sums to one, and what multiplies a sum relative to the first
        parameter for one relative to the second.
    """

    begin: int
    end: int
    merge: Typed
    scaled: tuple[Typed, Typed] | None = None


@record(frozen=True)
class JoinedReduce(TypedReduce):
    """A Reduce whose state has `parts`, which together are all of it."""

    parts: tuple[Part, ...] = ()


def states_of(typed: TypedReduce, tag: str) -> States:
    """Make the writer of a Reduce's states."""
    if isinstance(typed, JoinedReduce):
        return PartStates(typed, tag)
    return States(typed.merge, typed.identity, typed.state, tag)


class PartStates(States):
    """Merges many states part by part.

    Parameters
    ----------
    typed
        Says which parts there are.
    tag
        As for `States`.
    """

    def __init__(self, typed: JoinedReduce, tag: str) -> None:
        super().__init__(typed.merge, typed.identity, typed.state, tag)
        self._parts = [(p, [self._of(m, p, f"{tag}p{p.begin}m{k}") for k, m in
                            enumerate((p.merge, *(p.scaled or ())[:1]))])
                       for p in typed.parts]

    def _of(self, merge: Typed, part: Part, tag: str) -> States:
        """The writer of a part's states, or of one of its two numbers."""
        end = part.begin + 1 if part.scaled else part.end
        return States(merge, self.identity[part.begin:end],
                      self.dtypes[part.begin:end], tag)

    def tree(self, out: Source, into: Sequence[str],
             states: Sequence[Sequence[str]]) -> None:
        """Merge many states into `into`."""
        for part, merges in self._parts:
            own = [s[part.begin:part.end] for s in states]
            if part.scaled:
                self._scaled(out, into[part.begin:part.end], own, merges,
                             part.scaled[1])
            else:
                merges[0].tree(out, into[part.begin:part.end], own)

    def _scaled(self, out: Source, into: Sequence[str],
                states: Sequence[Sequence[str]], merges: Sequence[States],
                shift: Typed) -> None:
        """A maximum and its sum."""
        tops, totals = merges
        (top, total), new = into, f"{into[0]}_new"
        copies = [[f"{s[0]}_t"] for s in states]
        out(f"{new} = {top}", *(f"{c} = {s[0]}" for (c,), s in
                                zip(copies, states, strict=True)))
        tops.tree(out, [new], copies)
        for one, sum_of_one in ((top, total), *states):
            self._uses += 1
            params = shift.function.params
            lines, (scale,) = evaluate(
                shift, dict(zip(params, (one, new), strict=True)),
                f"{self.tag}h{self._uses}_", self.calls)
            out(*lines, f"{sum_of_one} = {sum_of_one}*{scale}")
        totals.tree(out, [total], [[s[1]] for s in states])
        out(f"{top} = {new}")
