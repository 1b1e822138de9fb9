"""A Row as reductions and maps, each a launch: what they compute, and of which arrays.

Stages that do not need one another's values are one reduction with all their states.
Values that a row has one of are arrays between the launches, in the dtypes in which
they are computed, so that nothing is rounded that one kernel would not round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ....gpu.row_layout import read_names, sum_of
from ....scalar.ir.nodes import Value
from ....scalar.parse.functions import parse_definition
from ....scalar.typing.types import Typed, compute_dtype
from ....scalar.typing.values import INT64
from ....specs import TypedMap, TypedReduce, TypedRow, TypedStage
from ....specs.fusion.row_forms import Online, online
from ....specs.pointwise import pointwise
from ....support.records import record
from ...reduce.parts import JoinedReduce, Part
from .joined import Joined

__all__ = ["AFTER", "COLUMN", "PLACES", "SIZE", "Step", "Steps", "split_steps"]

#: The number of columns and of the column, as functions of rows call them.
SIZE, COLUMN = "size", "index"
#: A point's number in C order of a map's loops, and that of points in the loops over
#: rows that are inside of the one over columns.
_FLAT, AFTER = "flat_", "after_"
#: How the column's number follows from a point's, by which loops over rows there are
#: outside of the one over columns, and inside: by the remainder, by the quotient.
PLACES = {(False, False): (), (True, False): (SIZE,), (False, True): (AFTER,),
          (True, True): (AFTER, SIZE)}


#: The sum of powers relative to the largest element, of one element alone: NaN and inf
#: give NaN, as their power would.
_ALONE = parse_definition("""
def alone(largest):
    return 0.0 if largest == -inf else 1.0 + (largest - largest)
""")
_LARGEST = "largest_"


@record(frozen=True)
class Step:
    """One launch.

    Attributes
    ----------
    name
        For the kernel.
    kept, reduced
        Loops, ``"rows"`` and ``"columns"``; a map has none that are reduced.
    typed
        A `TypedMap`, or a `TypedReduce`.
    arrays
        The arrays that are read, by the names of the row's inputs and values.
    numbers
        The numbers that are read: the row's own, `SIZE` and `AFTER`.
    outputs
        Names of values, or numbers of the row's outputs.
    """

    name: str
    kept: tuple[str, ...]
    reduced: tuple[str, ...]
    typed: TypedMap | TypedReduce
    arrays: tuple[str, ...]
    numbers: tuple[str, ...]
    outputs: tuple[str | int, ...]


@record(frozen=True)
class Steps:
    """The launches of a row.

    Attributes
    ----------
    steps
        In order.
    values
        The dtypes of the values between them, by name.
    saved
        Numbers of the row's outputs in which some of these have their place.
    """

    steps: tuple[Step, ...]
    values: dict[str, np.dtype]
    saved: dict[str, int]


def split_steps(row: TypedRow, place: tuple[str, ...] = (),
                ) -> Steps | None:
    """Find the launches for a row.

    `place` is one of `PLACES`.  None for a row that cannot be had so: sums over rows
    that read the column's number, and stages that read no array.
    """
    sums = [o for o in row.outs if o.kind in ("column", "scalar")]
    if any(COLUMN in read_names(o.function) for o in sums):
        return None
    levels, pairs = _levels(row)
    parts = _Parts(row, place, pairs)
    steps = [s for level in levels for s in parts.level(level)]
    for kind in ("column", "scalar"):
        steps += parts.totals(kind)
    for kind in ("row", "element"):
        steps += parts.outputs(kind)
    if not all(s.arrays for s in steps):
        return None
    return Steps(tuple(steps), parts.values, parts.saved)


def _levels(row: TypedRow) -> tuple[list[list[int]], dict[int, Online]]:
    """Stages that do not need one another's values, level by level.

    A sum that goes with a maximum, `Online`, comes right after that; the second result
    has these, by the sum's number.  Not of float64, whose kernels spilled.
    """
    made: dict[str, int] = {}
    found: list[list[int]] = []
    pairs = {o.total: o for o in online(row) if row.stages[o.top].state[0].itemsize < 8}
    for k, s in enumerate(row.stages):
        own = max((0, *(made[n] + 1 for n in read_names(s.element) if n in made),
                   *(made[n] for n in read_names(s.post) if n in made)))
        if k in pairs:
            top = pairs[k].top
            (at,) = (made[n] for n in row.stages[top].names)
            if any(made.get(n, 0) > at for n in read_names(s.post)):
                del pairs[k]
            else:
                own = at
        found += [[] for _ in range(own + 1 - len(found))]
        place = found[own].index(pairs[k].top) + 1 if k in pairs else len(found[own])
        found[own].insert(place, k)
        made |= dict.fromkeys(s.names, own)
    return found, pairs


class _Parts:
    """Writes the steps of a row."""

    def __init__(self, row: TypedRow, place: tuple[str, ...],
                 pairs: Mapping[int, Online]) -> None:
        self.row, self.place, self.pairs = row, place, pairs
        self.kinds = dict(zip(row.inputs, row.kinds, strict=True))
        self.numbers = [n for n, k in self.kinds.items() if k == "scalar"]
        #: What the row's values between the launches are kept as, by name.
        self.values: dict[str, np.dtype] = {}
        #: The outputs that are some of these as they are: for a derivative, so that no
        #: input shares their memory.
        self.saved: dict[str, int] = {}

    def level(self, level: Sequence[int]) -> list[Step]:
        """A reduction, and a map where it cannot give the stages' values itself."""
        stages = [self.row.stages[k] for k in level]
        free = {*self.numbers, SIZE}
        alone = all(set(_wired(s)) <= free for s in stages)
        states = {f"state{k}_{n}": d for k, s in zip(level, stages, strict=True)
                  for n, d in enumerate(s.state)}
        numbers = self._numbers([
            *(p for k in level if k not in self.pairs
              for p in read_names(self.row.stages[k].element)),
            *(p for p in self._wired(level) if alone)])
        outputs = {n: self._dtype(n) for s in stages for n in s.names} if alone \
            else {f"kept_{n}": d for n, d in states.items()}
        self.values |= outputs
        if alone:
            post = Joined(states | {n: self._dtype(n) for n in numbers})
            results = self._posts(post, level, {})
            typed_post = post.typed("post", results)
        else:
            typed_post = _identity(states)
        params, element = self._element(
            [self.pairs.get(k, self.row.stages[k].element) for k in level], numbers,
            [d for s in stages for d in s.state])
        reduction = JoinedReduce(
            element, self._kinds(params), self._merge(level), typed_post,
            ("state",)*len(states) + ("scalar",)*(len(numbers) if alone else 0),
            tuple(i for s in stages for i in s.identity), tuple(states.values()),
            self._merged_apart(level))
        found = [Step(f"stage{level[0]}", ("rows",), ("columns",), reduction,
                      self._arrays(params), numbers, tuple(outputs))]
        return found if alone else [*found, self._values(level, states)]

    def _values(self, level: Sequence[int], states: Mapping[str, np.dtype]) -> Step:
        """The stages' values from the states that a reduction has left."""
        stages = [self.row.stages[k] for k in level]
        names = dict.fromkeys(n for s in stages for n in s.names)
        wired = dict.fromkeys(self._wired(level))
        numbers = self._numbers(wired)
        arrays = [p for p in wired if p not in (*numbers, *names)]
        params = {f"kept_{n}": d for n, d in states.items()} | {
            p: self._dtype(p) for p in (*arrays, *numbers)}
        joined = Joined(params)
        results = self._posts(joined, level, {n: f"kept_{n}" for n in states})
        self.values |= {n: self._dtype(n) for n in names}
        kinds = tuple("scalar" if p in numbers else "element" for p in params)
        return Step(f"values{level[0]}", ("rows",), (), TypedMap(
            joined.typed("values", results), kinds),
            (*(f"kept_{n}" for n in states), *arrays), numbers, tuple(names))

    def _posts(self, joined: Joined, level: Sequence[int],
               states: Mapping[str, str]) -> list[tuple[Value, np.dtype]]:
        """Values of stages from their states, which `states` may give other names."""
        found = []
        for k in level:
            s, pair = self.row.stages[k], self.pairs.get(k)
            if pair:
                both = [f"state{at}_0" for at in (pair.top, k)]
                total = states.get(both[1], both[1])
                joined.values[total], = joined.call(pair.finish, dict(zip(
                    pair.finish.function.params,
                    (states.get(both[0], both[0]), total, SIZE), strict=True)))
            own = [f"state{k}_{n}" for n in range(len(s.state))]
            wired = {p: states.get(n, n) for p, n in zip(
                s.post.function.params, own, strict=False)}
            values = joined.call(s.post, wired)
            joined.values |= dict(zip(s.names, values, strict=True))
            found += values
        return found

    def totals(self, kind: str) -> list[Step]:
        """All sums over rows of one kind in one reduction, if there are any."""
        outs = [k for k, o in enumerate(self.row.outs) if o.kind == kind]
        if not outs:
            return []
        functions = [self.row.outs[k].function for k in outs]
        sums = [sum_of(self.row.outs[k].accumulator) for k in outs]
        numbers = self._numbers(p for f in functions for p in read_names(f))
        states = {f"state{k}": s.state[0] for k, s in zip(outs, sums, strict=True)}
        params, element = self._element(functions, numbers, tuple(states.values()))
        post, merge = Joined(states), Joined({
            f"{side}{n}": d for side in "ab" for n, d in states.items()})
        results, merged = [], []
        for n, s in zip(states, sums, strict=True):
            results += post.call(s.post, {s.post.function.params[0]: n})
            merged += merge.call(s.merge, dict(zip(
                s.merge.function.params, (f"a{n}", f"b{n}"), strict=True)))
        typed = JoinedReduce(
            element, self._kinds(params), merge.typed("merge", merged),
            post.typed("post", results), ("state",)*len(outs),
            tuple(s.identity[0] for s in sums), tuple(states.values()),
            tuple(Part(k, k + 1, s.merge) for k, s in enumerate(sums)))
        every = kind == "scalar"
        return [Step(f"sums_{kind}", () if every else ("columns",),
                     ("rows", "columns") if every else ("rows",), typed,
                     self._arrays(params), numbers, tuple(outs))]

    def outputs(self, kind: str) -> list[Step]:
        """All outputs of one kind in one map, if there are any."""
        outs = [k for k, o in enumerate(self.row.outs) if o.kind == kind
                and not self._is_value(k)]
        if not outs:
            return []
        functions = [self.row.outs[k].function for k in outs]
        read = dict.fromkeys(p for f in functions for p in read_names(f))
        numbers = self._numbers(read)
        arrays = [p for p in read if p not in (*numbers, COLUMN)]
        flat = (_FLAT,) if COLUMN in read else ()
        if flat:
            numbers = tuple(dict.fromkeys((*numbers, *self.place)))
        params = {p: self._dtype(p) for p in (*arrays, *numbers, *flat)}
        joined = Joined(params)
        if flat:
            column = _FLAT
            for number in self.place:
                op = "mod" if number == SIZE else "floordiv"
                column = joined.let(op, (column, number), INT64)
            joined.values[COLUMN] = column, INT64
        results = [(joined.call(f)[0][0], f.results[0]) for f in functions]
        kinds = tuple("index" if p == _FLAT else "scalar" if p in numbers else "element"
                      for p in params)
        loops = ("rows",) if kind == "row" else ("rows", "columns")
        return [Step(kind, loops, (), TypedMap(joined.typed(kind, results), kinds),
                     tuple(arrays), numbers, tuple(outs))]

    def _is_value(self, number: int) -> bool:
        """Give a value its place in an output that is the same; whether it has it."""
        out = self.row.outs[number]
        (name,) = out.function.function.results
        if out.kind != "row" or not out.saved or out.function.function.body.statements \
                or name not in self.values \
                or self.values[name] != compute_dtype(out.function.results[0]):
            return False
        return self.saved.setdefault(str(name), number) == number

    def _wired(self, level: Sequence[int]) -> list[str]:
        """The names that the stages' last functions read besides their states."""
        return [p for k in level for p in (
            *_wired(self.row.stages[k]), *((SIZE,) if k in self.pairs else ()))]

    def _merge(self, level: Sequence[int]) -> Typed:
        """The states of some elements and of others to those of all."""
        joined = Joined({n: d for side in "ab" for k in level for n, d in zip(
            _sides(self.row.stages[k], k, side), self.row.stages[k].state,
            strict=True)})
        results: list[tuple[Value, np.dtype]] = []
        led = {pair.top: k for k, pair in self.pairs.items()}
        for k in level:
            if k in self.pairs:
                continue
            both = [k, led[k]] if k in led else [k]
            stages = [self.row.stages[at] for at in both]
            merge = self.pairs[led[k]].merge if k in led else stages[0].merge
            given = [n for side in "ab" for at, s in zip(both, stages, strict=True)
                     for n in _sides(s, at, side)]
            values = joined.call(merge, dict(zip(merge.function.params, given,
                                                 strict=True)))
            results += [(joined.cast(v, have, want), want) for (v, have), want in zip(
                values, (d for s in stages for d in s.state), strict=True)]
        return joined.typed("merge", results)

    def _merged_apart(self, level: Sequence[int]) -> tuple[Part, ...]:
        """The place of each reduction's state, and its function to merge two."""
        found: list[Part] = []
        for k in level:
            s, begin = self.row.stages[k], found[-1].end if found else 0
            pair = self.pairs.get(k)
            if pair:
                top = found.pop()
                found.append(Part(top.begin, begin + 1, top.merge,
                                  (s.merge, pair.shift)))
            else:
                found.append(Part(begin, begin + len(s.state), s.merge))
        return tuple(found)

    def _element(self, functions: Sequence[Typed | Online], numbers: Sequence[str],
                 states: Sequence[np.dtype]) -> tuple[tuple[str, ...], Typed]:
        """Functions of elements as one, whose results are parts of a state.

        In a sum's place stands the `Online` that it is part of, right after its
        maximum.
        """
        read = dict.fromkeys(p for f in functions if isinstance(f, Typed)
                             for p in read_names(f))
        arrays = (p for p in read if p not in numbers)
        params = {p: self._dtype(p) for p in (*arrays, *numbers)}
        joined = Joined(params)
        parts: list[tuple[Value, np.dtype]] = []
        for f in functions:
            if isinstance(f, Typed):
                parts += joined.call(f)
                continue
            want = states[len(parts) - 1]
            joined.values[_LARGEST] = joined.cast(*parts[-1], want), want
            parts += joined.call(pointwise(_ALONE, (want,)), {"largest": _LARGEST})
        results = [(joined.cast(v, have, want), want)
                   for (v, have), want in zip(parts, states, strict=True)]
        return tuple(params), joined.typed("element", results)

    def _kinds(self, params: Iterable[str]) -> tuple[str, ...]:
        return tuple("index" if p == COLUMN else "scalar" if p in (
            *self.numbers, SIZE) else "element" for p in params)

    def _arrays(self, params: Iterable[str]) -> tuple[str, ...]:
        return tuple(p for p in params if p not in (*self.numbers, SIZE, COLUMN))

    def _numbers(self, read: Iterable[str]) -> tuple[str, ...]:
        return tuple(p for p in dict.fromkeys(read) if p in (*self.numbers, SIZE))

    def _dtype(self, name: str) -> np.dtype:
        """The dtype in which a name is computed."""
        if name in (SIZE, COLUMN, _FLAT, AFTER):
            return INT64
        if name in self.values:
            return self.values[name]
        return compute_dtype(self.row.dtypes.get(name, INT64))


def _wired(stage: TypedStage) -> list[str]:
    """The names that a stage's last function reads besides the state."""
    rest = stage.post.function.params[len(stage.state):]
    return [p for p in read_names(stage.post) if p in rest]


def _identity(states: Mapping[str, np.dtype]) -> Typed:
    return Joined(states).typed("identity", [(n, d) for n, d in states.items()])


def _sides(stage: TypedStage, at: int, side: str) -> list[str]:
    """Names of one of two states of a stage that are merged."""
    return [f"{side}{at}_{n}" for n in range(len(stage.state))]
