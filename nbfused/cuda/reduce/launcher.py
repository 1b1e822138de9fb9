"""Reduce on CUDA: how the work is cut up, and what is launched.

Two kinds of kernels: *rows* gives each kept point to a group of lanes that walk the
reduced elements together; *columns* gives neighbouring kept points to neighbouring
lanes.  Where the kept points alone do not fill the device, the reduced elements are cut
into chunks; the last block of a kept point, or a second kernel, merges the chunks'
states in a fixed order, so the same input gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import accumulate
from math import prod

from ...backend import Call, Launcher, Signature
from ...gpu.programs import Programs
from ...gpu.reduce_layout import WIDE, Cut, cut_for
from ...specs import Reduce, TypedReduce
from ...support.records import record
from ..graphs.beside import MOST_BLOCKS
from ..map.repeats import Repeats
from ..runtime.binding import Bindable
from ..runtime.driver import Device, device
from ..runtime.launch import Program
from ..runtime.scratch import TICKETS, scratch_of
from ..text.hints import bytes_read, map_hint, reduce_hint
from ..text.source import inverses, is_near
from ..text.states import WARP
from ..tuning.tuner import Tuner, kernel_text
from .folded import Folded, folded
from .skeleton import kernel
from .text import BLOCK, COLUMN_LANES, Plan, ReduceText, counts, power_below

__all__ = ["ReduceLauncher", "build_reduce"]

#: Blocks for each multiprocessor: several times as many as run at once, so that none
#: waits for the last.  From 8 to 64 times are within 1 %:
#: benchmarks/notes/memory.md#reductions.
RESIDENT = {"rows": 32, "columns": 8}
#: Reduced elements of a lane from which a kept point gets a block instead of a warp:
#: 71.5 against 77.8 us, benchmarks/notes/memory.md#reductions.
LONG = 16
#: Reduced elements that a thread takes alone.
FEW = 4
#: Kept points from which threads fill the device that have a few accesses each, not
#: one: in a row `EACH` of 16 bytes or of an element, down a column `Plan.ahead`.  With
#: one most of a block's threads have none (benchmarks/notes/memory.md#reductions).
POINTS, EACH = 1 << 15, (3, 8)
#: Kept points from which a few neighbours are read side by side, with other rows',
#: unless a thread takes a point alone.
BESIDE = 512
#: Times the accesses that a thread may have under way, up to which its rows are few.
SHORT = 3
#: Reduced elements below which a block's chunk is not worth another block.
CHUNK = 4096
#: Elements, and kept points that are the same, from which one of these is computed and
#: copied: benchmarks/notes/memory.md#inputs-that-repeat.
REPEATS = 1 << 23, 8


@record(frozen=True)
class Step:
    """One launch but for addresses and numbers: `arrays` says which operands."""

    program: Program
    blocks: int
    arrays: tuple[int, ...]
    integers: tuple[int, ...]

    def launch(self, call: Call, where: Device, states: tuple[int, ...] = ()) -> None:
        """Start it on the call's stream; `states` are the addresses of a workspace."""
        pointers = call.pointers
        self.program.launch(where, call.stream, self.blocks, (
            *[pointers[at] for at in self.arrays], *states, *self.integers,
            *call.scalars, *call.scalars))


@record(frozen=True, eq=False)
class Work:
    """A way to do calls of one shape and alignment.

    Attributes
    ----------
    plan, cut
        The kernel that reads the inputs, and how their elements are cut up.
    kept
        Number of kept points.
    starts, total
        Where each part of the chunks' states begins in a workspace; its bytes.
    steps
        Launches by stage, those that were needed so far.
    """

    plan: Plan
    cut: Cut
    kept: int
    starts: tuple[int, ...]
    total: int
    steps: dict[str, Step]

    def __str__(self) -> str:
        return f"{self.plan} {self.cut}"


class ReduceLauncher:
    """Chooses kernels by the call's extents, strides and alignment.

    Parameters
    ----------
    name
        Of the function.
    typed, signature
        What to compute, on which dtypes and loops.
    """

    def __init__(self, name: str, typed: TypedReduce, signature: Signature) -> None:
        self.name, self.typed, self.signature = name, typed, signature
        self.text = ReduceText(name, typed, signature)
        self._programs: Programs[Plan, Program] = Programs(
            Program, partial(kernel, self.text))
        self._tuner = Tuner(kernel_text("reduce", name, signature), self._works,
                            self._load, self._run)
        self._kept_loops, self._reduced_loops = signature.ranks
        #: Arrays whose alignment says how wide accesses are.
        self._elements = len(self.text.inputs) + len(self.text.stored)

    def __call__(self, call: Call) -> None:
        """Launch on the call's stream."""
        where = device(call.device)
        found = folded(self.text, call)
        if found is not None:
            self._fold(found, call, where)
            return
        ends = tuple([p & 15 for p in call.pointers[:self._elements]])
        work = self._tuner((call.shape, call.strides, ends), call, where,
                           len(self.signature.outputs))
        self._run(work, call, where)

    def _run(self, work: Work, call: Call, where: Device) -> None:
        if work.cut.count == 1:
            self._step(work, "whole", call).launch(call, where)
        else:
            self._in_chunks(work, call, where)

    def _load(self, work: Work, where: Device) -> None:
        """Compile; what merges chunks by itself is the same for every candidate."""
        stage = "whole" if work.cut.count == 1 else \
            "last" if _whole_blocks(work.plan) else "partial"
        self._programs[replace(work.plan, stage=stage)].function(where)

    def _works(self, call: Call, where: Device) -> list[Work]:
        """Ways to do a call, the rule's first.

        The others have fewer accesses under way, another number of lanes for a kept
        point, or fewer and longer chunks.
        """
        kept = prod(call.shape[:self._kept_loops])
        reduced = prod(call.shape[self._kept_loops:])
        # What is stored leaves the cache first, as of a Map: 163 against 147 us,
        # benchmarks/notes/memory.md#sums-beside-elements.
        hint_of = map_hint if self.text.stored else reduce_hint
        hint = hint_of(bytes_read(call, self.text.inputs), where)
        rule = self.plan(call, kept, reduced)
        near = bool(self.text.divided) and is_near(call, self.text.operands)
        rule = replace(rule, hint=hint if rule.codes else "", near=near)
        plans = [rule, replace(rule, ahead=max(1, rule.ahead//2))]
        if rule.kind == "rows" and rule.lanes >= WARP:
            plans.append(replace(rule, lanes=BLOCK if rule.lanes == WARP else WARP))
        ways = dict.fromkeys(self._at_once(plan, kept, reduced, where, self.cut(
            plan, kept, reduced, where, fewer)) for fewer in (1, 4) for plan in plans)
        return [self._work(plan, cut, kept) for plan, cut in ways]

    def _at_once(self, plan: Plan, kept: int, reduced: int, where: Device,
                 cut: Cut) -> tuple[Plan, Cut]:
        """A plan by which lanes start all accesses at once, where these are so few.

        Not of few blocks: their text is that of all lengths, which graphs merge.
        """
        width = self.text.plan_width(plan)
        accesses = -(-reduced // (plan.lanes*width))
        if plan.kind != "rows" or cut.count > 1 or plan.ragged or self.text.stored \
                or reduced % width or not 0 < accesses <= plan.ahead \
                or kept*plan.lanes <= MOST_BLOCKS*where.processors*BLOCK:
            return plan, cut
        return replace(plan, ahead=accesses, once=True), cut

    def _work(self, plan: Plan, cut: Cut, kept: int) -> Work:
        sizes = [-(-kept*cut.count*d.itemsize // 256)*256 for d in self.typed.state]
        return Work(plan, cut, kept, tuple(accumulate(sizes[:-1], initial=0)),
                    sum(sizes), {})

    def plan(self, call: Call, kept: int, reduced: int) -> Plan:
        """The kernel, chosen by where neighbouring elements lie."""
        beside = kept >= BESIDE and _lanes(kept, reduced, 1) > 1
        codes = self.text.codes_across(call, 2 if beside else WIDE) if kept > 1 \
            else None
        if codes is not None:
            codes = codes if self._columns_aligned(call, codes) else ()
            ahead = self.text.ahead(codes)
            depth = _depth(kept, reduced // ahead)
            if kept >= POINTS:
                ahead = _in_few_steps(-(-reduced // depth), ahead)
            return Plan("columns", codes, BLOCK, BLOCK // depth, ahead=ahead)
        codes = tuple(o.code for o in self.text.inputs)
        rows = Plan("rows", codes, BLOCK, _lanes(kept, reduced, self.text.width(codes)),
                    ahead=self.text.ahead_in_row(codes))
        if self._rows_aligned(call, codes):
            return rows
        if self._are_ragged(rows, reduced):
            return replace(rows, ragged=True)
        return Plan("rows", (), BLOCK, _lanes(kept, reduced, 1),
                    ahead=self.text.ahead_in_row(()))

    def _are_ragged(self, plan: Plan, reduced: int) -> bool:
        """Whether rows are whole accesses but for their ends, and more than those.

        A warp takes both ends at once.  It has to wait for them, so that there must be
        as many accesses as a lane may have under way: 2 % slower to 10 % faster,
        benchmarks/notes/memory.md#reductions.
        """
        return self._reduced_loops == 1 and not self.text.stored and \
            plan.codes.count("1") == 1 and "s" not in plan.codes and \
            plan.lanes >= WARP and reduced >= plan.lanes*self.text.step(plan)

    def _rows_aligned(self, call: Call, codes: tuple[str, ...]) -> bool:
        """Whether whole accesses of neighbouring reduced elements are possible.

        Of several reduced loops the last one must be whole accesses.
        """
        if "s" in codes or "1" not in codes or not self.text.stores_vector:
            return False
        several = self._reduced_loops > 1
        return not (several and call.shape[-1] % self.text.width(codes)) and \
            self._aligned(call, range(len(call.shape) - 1), codes)

    def _columns_aligned(self, call: Call, codes: tuple[str, ...]) -> bool:
        """Whether whole accesses of neighbouring kept points are possible."""
        if "s" in codes or "1" not in codes:
            return False
        width = self.text.width(codes)
        last = self._kept_loops - 1
        loops = [k for k in range(len(call.shape)) if k != last]
        return call.shape[last] % width == 0 and self._aligned(call, loops, codes)

    def _aligned(self, call: Call, loops: Iterable[int],
                 codes: tuple[str, ...]) -> bool:
        return self.text.is_aligned(call, codes, self.text.width(codes),
                                    [k for k in loops if call.shape[k] > 1])

    def cut(self, plan: Plan, kept: int, reduced: int, where: Device,
            fewer: int = 1) -> Cut:
        """Chunks so that the device is full, if there is that much to do.

        Of as many as the rule says or, by a factor, `fewer`.
        """
        if plan.kind == "columns":
            blocks = self._across(plan, kept)
            least = 4*plan.depth*plan.ahead
        else:
            blocks = -(-kept*plan.lanes // plan.threads)
            least = CHUNK
        most = RESIDENT[plan.kind]*where.processors*BLOCK // plan.threads // fewer
        count = min(most // max(blocks, 1), reduced // least)
        unit = plan.lanes*self.text.step(plan) if plan.kind == "rows" \
            else plan.depth*plan.ahead
        return cut_for(reduced, count, unit)

    def _in_chunks(self, work: Work, call: Call, where: Device) -> None:
        """By one kernel whose last blocks merge the states, or by two."""
        plan = work.plan
        groups = work.kept if plan.kind == "rows" else self._across(plan, work.kept)
        if _whole_blocks(plan) and groups <= TICKETS:
            scratch = scratch_of(where)
            with scratch.lock:
                found = scratch.find(work.total, call.stream)
                if found is not None:
                    tickets, base = found
                    self._step(work, "last", call).launch(
                        call, where, (*[base + s for s in work.starts], tickets))
                    return
        with where.current(), where.workspace(work.total, call.stream) as base:
            states = tuple([base + s for s in work.starts])
            self._step(work, "partial", call).launch(call, where, states)
            self._step(work, "finish", call).launch(call, where, states)

    def _fold(self, found: Folded, call: Call, where: Device) -> None:
        """States of wide rows and of those that are left, merged as chunks."""
        kept, reduced = found.wide.shape
        hint = reduce_hint(bytes_read(call, self.text.inputs), where)
        index = "index" in self.typed.kinds
        plan = replace(self.plan(found.wide, kept, reduced), hint=hint, numbered=index)
        work = self._work(plan, self.cut(plan, kept, reduced, where), kept)
        parts, points = work.cut.count*found.rows, found.points
        sizes = [-(-(parts + 1)*points*d.itemsize // 256)*256 for d in self.typed.state]
        with where.current(), where.workspace(sum(sizes), call.stream) as base:
            states = [base + s for s in accumulate(sizes[:-1], initial=0)]
            self._step(work, "partial", found.wide, (found.rows, 0)*index).launch(
                found.wide, where, tuple(states))
            if found.rest is not None:
                rest = Plan("rows", (), BLOCK, WARP, ahead=1, numbered=index)
                after = [s + parts*points*d.itemsize
                         for s, d in zip(states, self.typed.state, strict=True)]
                left = self._work(rest, Cut(1, found.rest.shape[1]), points)
                self._step(left, "partial", found.rest, (1, found.before)*index).launch(
                    found.rest, where, tuple(after))
                parts += 1
            self._merged(call, points, parts).launch(call, where, tuple(states))

    def _merged(self, call: Call, points: int, parts: int) -> Step:
        """The launch that merges the states of a few points, a block for each."""
        ahead = max(1, self.text.finish_ahead // 2)  # with all, Welford's spill
        plan = Plan("rows", (), BLOCK, BLOCK, "finish", ahead)
        arrays = tuple([o.at for o in self.text.outputs])
        strides = [s for at in arrays for s in call.strides[at]]
        return Step(self._programs[plan], points, arrays,
                    (*call.shape, 1, parts, 1, points, *strides))

    def _across(self, plan: Plan, kept: int) -> int:
        """Blocks of *columns* side by side."""
        return -(-kept // (plan.lanes*self.text.plan_width(plan)))

    def _step(self, work: Work, stage: str, call: Call,
              numbers: tuple[int, ...] = ()) -> Step:
        """The launch of one stage, made when it is first needed.

        With the `numbers` of a numbered plan: rows in one of the kernel's, and before.
        """
        if stage in work.steps:
            return work.steps[stage]
        kept, cut, steps = work.kept, work.cut, numbers
        plan = replace(work.plan, stage=stage)
        if stage == "finish":
            lanes, steps = (COLUMN_LANES, (1, kept)) if plan.kind == "columns" else \
                (WARP if kept > 64 else BLOCK, (cut.count, 1))
            plan = Plan(plan.kind, (), BLOCK, lanes, stage, self.text.finish_ahead)
            cut = Cut(1, cut.count)
        blocks = self._across(plan, kept)*cut.count if plan.kind == "columns" \
            else -(-kept*cut.count*plan.lanes // plan.threads)
        arrays = tuple([o.at for o in self.text.arrays(plan)])
        strides = [s for at in arrays for s in call.strides[at]]
        work.steps[stage] = Step(
            self._programs[plan], blocks, arrays,
            (*call.shape, cut.count, cut.size, *steps, *strides,
             *self._inverses(plan, call)))
        return work.steps[stage]

    def _inverses(self, plan: Plan, call: Call) -> list[int]:
        """The inverses of extents that a kernel's places are divided by."""
        if not plan.near:
            return []
        extents, last = [*call.shape], self._kept_loops - 1
        if plan.kind == "columns":
            extents[last] //= self.text.plan_width(plan)
        return inverses([1, *(extents[k] for k in self.text.divided)])


def _lanes(kept: int, reduced: int, width: int) -> int:
    """*rows*: the threads of a kept point, whose accesses have `width` elements."""
    most = 1 if reduced <= FEW else 8 if reduced < 64 else \
        WARP if reduced < LONG*BLOCK else BLOCK
    if kept < POINTS:
        return most
    return min(most, power_below(reduced // (width*EACH[width == 1])))


def _depth(kept: int, steps: int) -> int:
    """*columns*: the rows of threads, where one alone would take so many `steps`."""
    most = BLOCK // COLUMN_LANES
    return min(most, power_below(steps)) if kept >= POINTS else most


def _in_few_steps(rows: int, most: int) -> int:
    """*columns*: accesses at once by which a thread waits the fewest times.

    See benchmarks/notes/memory.md#narrow-reductions.
    """
    if rows > SHORT*most:
        return most
    steps = dict.fromkeys(range(most, 0, -1), 0)
    for ahead in steps:
        left = rows
        for count in counts(ahead):
            steps[ahead] += left // count
            left %= count
    return min(steps, key=steps.__getitem__)


def _whole_blocks(plan: Plan) -> bool:
    """Whether all threads of a block work for the same kept points."""
    return plan.kind == "columns" or plan.lanes == plan.threads


def build_reduce(spec: Reduce, signature: Signature) -> Launcher:
    """A launcher for `spec`; kernels are compiled when first needed."""
    typed = spec.typed(signature.inputs, signature.outputs)
    return Repeats(Bindable(ReduceLauncher(spec.name, typed, signature)), signature,
                   signature.ranks[0], *REPEATS)
