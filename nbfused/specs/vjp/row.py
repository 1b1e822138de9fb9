"""The derivative of a Row, which is a Row.

What the forward stages give each row is saved as further outputs of the forward row.
The backward row has one stage for each forward stage, last first, that sums the stage's
cotangent over the row.  What a name receives from the elements of a row is kept in
`element`, what it receives once for each row in `row`.  A forward stage that was not
saved, in the derivative of a row that saves others, is run again.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import lru_cache

from ...errors import NotDifferentiableError
from ...scalar.autodiff.differentiate import vjp
from ...scalar.ir.build import Builder
from ...scalar.ir.nodes import Block, Function, Value
from ..base import KEPT, Program, Pullback, Ref, Shape, Step
from ..combine import sum_combine
from ..fusion.factors import factored
from ..row import Out, Row, Stage
from ..shapes import normalize_axis
from ..view import View, unbroadcast
from .functions import compose, is_zero, total
from .row_stages import Term, exposed, inlined, post_vjp, saved, states_of, trim_after

__all__ = ["row_vjp", "spread"]

#: An input of the backward row: its name, its kind, the array behind it.
Wire = tuple[str, str, Ref]


@dataclass
class _Backward:
    spec: Row
    active: set[str]
    stages: list[Stage]
    element: dict[str, list[Term]] = field(
        default_factory=lambda: defaultdict(list))
    row: dict[str, list[Term]] = field(default_factory=lambda: defaultdict(list))
    taken: set[str] = field(default_factory=set)
    given: dict[str, str] = field(default_factory=dict)  # cotangents and their kinds

    def __post_init__(self) -> None:
        self.taken.update(self.spec.inputs, *(s.names for s in self.spec.stages))

    def fresh(self, name: str) -> str:
        """`name`, altered until it differs from every other name of the row."""
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def collect(self, function: Function, wired: tuple[str, ...],
                into: dict[str, list[Term]]) -> None:
        """`function`'s results are the cotangents of the names `wired`."""
        for k, name in enumerate(wired):
            if not is_zero(function.results[k]):
                into[name].append((function, k))

    def through(self, function: Function, cotangent: str,
                into: dict[str, list[Term]]) -> None:
        """The cotangents of the names that an output's `function` reads."""
        wired = tuple(p for p in function.params if p in self.active)
        d = vjp(function, tuple(p in self.active for p in function.params), (True,))
        params = (*function.params, cotangent)
        self.collect(compose("d" + function.name, params,
                             lambda b: b.call(d, *params)), wired, into)

    def reverse_stage(self, position: int) -> None:
        """Sum the cotangents of a stage's values, pass them on to what it reads."""
        s = self.spec.stages[position]
        touched = [n for n in s.names if self.element[n] or self.row[n]]
        if s.detach or not touched or not self._reads_active(s):
            return
        first, parts = s.names[0], range(len(saved(s)))
        states = states_of(s) or tuple(self.fresh(f"{first}_state{k}") for k in parts)
        bars = {n: self.fresh(f"{n}_bar") for n in touched}
        gs = tuple(self.fresh(f"{first}_gstate{k}") for k in parts)
        self.stages[position] = exposed(s, states)
        self._sum_stage(s, touched, bars, states, gs)
        self._through_post(s, bars, states)
        self._through_map(s, states, gs)

    def _reads_active(self, s: Stage) -> bool:
        return any(p in self.active for p in (*s.map.params, *s.wired))

    def _sum_stage(self, s: Stage, touched: list[str], bars: dict[str, str],
                   states: tuple[str, ...], gs: tuple[str, ...]) -> None:
        """A stage for the cotangents of `touched` and of the state."""
        stage = self.summed(touched, tuple(bars.values()))
        post = post_vjp(s, bars, states, states)
        count = len(stage.combine.identity)
        sums = stage.post.params[:count]
        rest = tuple(dict.fromkeys((*stage.post.params[count:],
                                    *post.params[:-len(touched)])))

        def build(b: Builder) -> tuple[Value, ...]:
            totals = b.call(stage.post, *stage.post.params)
            names = dict(zip(bars.values(), totals, strict=True))
            return (*totals, *b.call(post, *(names.get(p, p) for p in post.params)))

        full = compose("bar", (*sums, *rest), build)
        trimmed = trim_after(full, count)
        self.stages.append(replace(stage, names=(*bars.values(), *gs), post=trimmed))

    def summed(self, touched: list[str], names: tuple[str, ...]) -> Stage:
        """A stage whose values are the cotangents of `touched`."""
        parts = [self._parts(n) for n in touched]
        rows = [total(f"d{n}", self.row[n]) for n in touched]
        maps = [f for found in parts for _, f in found]
        params = tuple(dict.fromkeys(p for f in maps for p in f.params))
        map_ = compose("_".join(names), params, lambda b: tuple(
            b.call(f, *f.params)[0] for f in maps))
        sums = tuple(self.fresh(f"sum{k}") for k in range(len(maps)))
        factors = [f for found in parts for f, _ in found if f is not None]
        wired = tuple(dict.fromkeys(p for f in (*factors, *rows) for p in f.params))

        def build(b: Builder) -> tuple[Value, ...]:
            given, results = iter(sums), []
            for found, row in zip(parts, rows, strict=True):
                result: Value = b.call(row, *row.params)[0]
                for factor, _ in found:
                    value: Value = next(given)
                    if factor is not None:
                        value = b.let("mul", value, b.call(factor, *factor.params)[0])
                    result = b.add(value, result)
                results.append(result)
            return tuple(results)

        post = compose("bar", (*sums, *wired), build)
        return Stage(names, map_, sum_combine(len(maps)), post)

    def _parts(self, name: str) -> list[tuple[Function | None, Function]]:
        """The sums for a name's cotangent, and the factor of each."""
        kinds = dict(zip(self.spec.inputs, self.spec.kinds, strict=True)) | self.given
        alike = {n for n in (*self.taken, "size")
                 if kinds.get(n) not in ("element", "column")}
        plain: list[Term] = []
        found: list[tuple[Function | None, Function]] = []
        for function, k in self.element[name]:
            split = factored(function, k, alike)
            if split is None:
                plain.append((function, k))
            else:
                found.append(split)
        if plain or not found:
            found.insert(0, (None, total(f"d{name}", plain)))
        return found

    def _through_post(self, s: Stage, bars: dict[str, str],
                      states: tuple[str, ...]) -> None:
        """The names that the stage's post reads get their share once per row."""
        wired = tuple(p for p in s.wired if p in self.active)
        if wired:
            self.collect(post_vjp(s, bars, states, wired), wired, self.row)

    def _through_map(self, s: Stage, states: tuple[str, ...],
                     gs: tuple[str, ...]) -> None:
        wired = tuple(p for p in s.map.params if p in self.active)
        combine = s.combine.saving or s.combine
        if not wired:
            return
        if combine.cotangent is None:
            raise NotDifferentiableError(
                f"stage '{s.names[0]}' of '{self.spec.title}' combines by "
                f"'{combine.name}', which has no derivative; mark it detach=True")
        d = vjp(s.map, tuple(p in self.active for p in s.map.params),
                (True,) * len(s.map.results))
        cotangent = combine.cotangent

        def build(b: Builder) -> tuple[Value, ...]:
            mapped = b.call(s.map, *s.map.params)
            gm = b.call(cotangent, *mapped, *states, *gs)
            return b.call(d, *s.map.params, *gm)

        params = tuple(dict.fromkeys((*s.map.params, *states, *gs)))
        self.collect(compose("d" + s.map.name, params, build), wired, self.element)


@lru_cache(maxsize=KEPT)
def row_vjp(spec: Row, needs: tuple[bool, ...], present: tuple[bool, ...],
            alone: bool = False) -> Pullback:
    """The derivative of a Row: `Row.vjp`; `alone`: nothing is saved for it."""
    work = _Backward(spec, _active(spec, needs), list(spec.stages))
    cotangents: list[Wire] = []
    for k, (out, here) in enumerate(zip(spec.outs, present, strict=True)):
        if here:
            name = work.fresh(f"out{k}_bar")
            kind = "row" if out.kind == "scalar" else out.kind  # see `spread`
            cotangents.append((name, kind, Ref("cotangent", k)))
            work.given[name] = kind
            work.through(out.function, name,
                         work.row if out.kind == "row" else work.element)
    for position in reversed(range(len(spec.stages))):
        work.reverse_stage(position)
    outs: list[Out] = []
    results: list[Ref | None] = []
    like: list[Ref] = []
    for k, (name, kind) in enumerate(zip(spec.inputs, spec.kinds, strict=True)):
        bar = _input_out(work, name, kind) if needs[k] else None
        results.append(Ref("step", 0, len(outs)) if bar else None)
        if bar:
            outs.append(bar)
            like.append(Ref("input", k))
    forward, kept = (spec, []) if alone else _saving(work, _wanted(work, outs))
    row, refs = _pruned(work, outs, [*cotangents, *kept])
    steps = (Step(row, refs, tuple(like)),) if outs else ()
    return Pullback(forward, steps, tuple(results))


def spread(spec: Row, found: Pullback, shapes: tuple[Shape, ...], whole: Shape,
           present: tuple[bool, ...]) -> Pullback:
    """The pullback with views of what is broadcast, and sums after it.

    These are elements, and the one number that the cotangent of a sum over all elements
    is, which each row has.
    """
    small = [k for k, (kind, shape) in enumerate(zip(spec.kinds, shapes, strict=True))
             if kind == "element" and shape != whole]
    single = [Ref("cotangent", k) for k, (out, here) in enumerate(
        zip(spec.outs, present, strict=False)) if here and out.kind == "scalar"]
    if not (small or single) or not found.steps:
        return found
    program, views = Program(), {}
    axis = normalize_axis(spec.axis, len(whole))
    for ref in single:
        (views[ref],) = program.run(
            View("broadcast", (*whole[:axis], *whole[axis + 1:])), ref, like=(ref,))
    for ref in (Ref("input", k) for k in small):
        (views[ref],) = program.run(View("broadcast", whole), ref, like=(ref,))
    table = program.extend(found.steps, views)
    results = [r and table[r] for r in found.results]
    for k in small:
        if (r := results[k]) is not None:
            results[k] = unbroadcast(program, r, whole, shapes[k], Ref("input", k))
    return Pullback(found.forward, tuple(program.steps), tuple(results))


def _wanted(work: _Backward, outs: list[Out]) -> set[str]:
    """All names that the outputs depend on through the backward stages."""
    wanted = {p for o in outs for p in o.function.params}
    for s in reversed(work.stages[len(work.spec.stages):]):
        if wanted & set(s.names):
            wanted |= {*s.map.params, *s.wired}
    return wanted


def _saving(work: _Backward, wanted: set[str]) -> tuple[Row, list[Wire]]:
    """The row to run forward, and what the backward row reads of its outputs.

    A row that saves already is its own; what it does not save has to be run again.
    """
    spec = work.spec
    if not any(o.saved for o in spec.outs):
        stages, outs = list(spec.stages), list(spec.outs)
        for k, s in enumerate(work.stages[:len(stages)]):
            names = [n for n in s.names if n in wanted]
            if names:
                stages[k] = s if set(names) & set(states_of(s)) else stages[k]
                outs += [Out("row", Function(n, (n,), Block((), (n,))), saved=True)
                         for n in names]
        spec = replace(spec, stages=tuple(stages), outs=tuple(outs))
    places = {o.function.params[0]: k for k, o in enumerate(spec.outs) if o.saved}
    return spec, [(n, "row", Ref("output", k)) for n, k in places.items()
                  if n in wanted]


def _active(spec: Row, needs: tuple[bool, ...]) -> set[str]:
    active = {n for n, need in zip(spec.inputs, needs, strict=True) if need}
    for s in spec.stages:
        if not s.detach and active & {*s.map.params, *s.wired}:
            active |= set(s.names)
    return active


def _input_out(work: _Backward, name: str, kind: str) -> Out | None:
    """The output that holds the cotangent of an input."""
    if not work.element[name] and not work.row[name]:
        return None
    if kind == "row":
        bar = work.fresh(f"{name}_bar")
        work.stages.append(work.summed([name], (bar,)))
        return Out("row", Function(bar, (bar,), Block((), (bar,))))
    return Out(kind, total(f"{name}_bar", work.element[name]))


def _pruned(work: _Backward, outs: list[Out],
            wires: list[Wire]) -> tuple[Row, tuple[Ref, ...]]:
    """The backward row with the stages and inputs that its outputs need."""
    wanted = {p for o in outs for p in o.function.params}
    given = {n for n, _, ref in wires if ref.source == "output"}
    stages: list[Stage] = []
    for k, s in reversed(list(enumerate(work.stages))):
        here = wanted & set(s.names) - given
        if k < len(work.spec.stages):  # its state only if somebody reads it
            plain = work.spec.stages[k]
            s = s if here & set(s.names) - set(plain.names) else plain
        if here:
            wanted |= {*s.map.params, *s.wired}
            stages.insert(0, s)
    inputs = [(n, k, Ref("input", i)) for i, (n, k) in enumerate(
        zip(work.spec.inputs, work.spec.kinds, strict=True))]
    kept = [item for item in (*inputs, *wires)
            if item[0] in wanted or item[1] == "element"]
    kept = _one_element(kept, wanted)
    row = Row(f"{work.spec.title}_vjp", tuple(n for n, _, _ in kept),
              tuple(k for _, k, _ in kept), *inlined(stages, outs), work.spec.axis)
    return row, tuple(r for _, _, r in kept)


def _one_element(kept: list[Wire], wanted: set[str]) -> list[Wire]:
    """Without the unused elements, unless none is left to give the shape."""
    used = [item for item in kept if item[0] in wanted]
    if any(kind == "element" for _, kind, _ in used):
        return used
    spare = next(item for item in kept if item[1] == "element")
    return [*used, spare]
