"""Text of the kernels for the places of extreme elements in long rows.

The first finds the extreme element of each chunk, in vectors; the second one the first
chunk that has the row's, and its place there.  A search for value and place at once is
no loop of vectors, and two over all elements read them twice:
benchmarks/notes/cpu.md#rows-across.
"""

from __future__ import annotations

from ..scalar.printing.numba import encode
from ..specs.row import TypedStage
from .reduce_as_row import TOP, in_two_stages, two_stages
from .reduce_text import ReduceText
from .text.elements import Computed
from .text.fold import FIRST, FIRST_LANE, Fold
from .text.lines import indented, invoke, unravel
from .text.operands import INT64
from .text.reuse import vector_bytes, vectors

__all__ = ["extremes", "places"]

#: How an element is compared with the extreme one so far.
_BEATS = {"argmax": ">", "argmin": "<"}


def extremes(problem: ReduceText) -> list[str]:
    """Text of the kernel that keeps the extreme element of each chunk."""
    p = problem
    value, _ = two_stages(p.typed, _combine(p))
    k = [f"k{d}" for d in range(len(p.kept))]
    functions, reserved, fold = _fold(p, "top", value)
    inside = ["k = u // chunks", "c = u - k*chunks", "lo = c*chunk",
              *unravel("k", p.kept, k), *_in_chunk(p, k), *fold,
              f"{p.partial[0]}[c*kept + k] = {encode(p.typed.state[0], 'top')}"]
    return [p.title("extremes"), *functions, "def kernel(a, begin, end):", *indented([
        vectors(p.typed.element), *p.start(), *reserved,
        "for u in range(begin, end):", *indented(inside)])]


def places(problem: ReduceText) -> list[str]:
    """Text of the kernel that finds the places of extreme elements, with NaN first."""
    p, combine = problem, _combine(problem)
    _, place = two_stages(p.typed, combine)
    k = [f"k{d}" for d in range(len(p.kept))]
    functions, reserved, fold = _fold(p, "place", place)
    (first, *_), (other, *_) = (p.fold.values(p.partial, at) for at in (
        "u", "i*kept + u"))
    inside = [*unravel("u", p.kept, k), f"top = {first}", "c = 0",
              "for i in range(1, chunks):", *indented([
                  f"other = {other}",
                  f"if top == top and (other {_BEATS[combine]} top or other != other):",
                  "    top = other", "    c = i"]),
              "lo = c*chunk", *_in_chunk(p, k), *fold, *p.bind_outputs(k),
              invoke("post", p.post_names("0", ["top", "lo + place"]))]
    return [p.title("places"), *functions, *p.post(), "def kernel(a, begin, end):",
            *indented([vectors(p.typed.element), *p.start(), *reserved,
                       "for u in range(begin, end):", *indented(inside)])]


def _combine(p: ReduceText) -> str:
    combine = in_two_stages(p.typed)
    assert combine is not None
    return combine


def _in_chunk(p: ReduceText, k: list[str]) -> list[str]:
    """Lines that point to the chunk from ``lo`` on, which has ``n`` elements."""
    return ["n = min(size, lo + chunk) - lo", *p.bind_elements([*k, "lo"])]


def _fold(p: ReduceText, name: str, stage: TypedStage,
          ) -> tuple[list[str], list[str], list[str]]:
    """Functions, what they reserve, and lines that fold ``n`` elements to `name`."""
    p.elements.index, p.elements.given = "j", ()  # from where the chunk begins
    p.elements.table |= {TOP: Computed("top", p.typed.state[0]),
                         FIRST: Computed(FIRST_LANE, INT64, given=True)}
    fold = Fold(name, stage.state, stage.identity, stage.merge, stage.element,
                vector_bytes(p.typed.element))
    names = p.elements.names(stage.element)
    functions = fold.functions(p.elements.evaluate(stage.element, ["e"]), ["e"], names,
                               stage.element.results)
    (value,) = fold.values(fold.top, "0")
    return functions, fold.locals(), [*fold.whole("n", names), f"{name} = {value}"]
