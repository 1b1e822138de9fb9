"""The kernels of Reduce, as skeletons: see `text.skeletons`.

Names of the kernel: ``n0`` … are the extents, ``chunks`` and ``chunk`` the number and
size of the chunks of a kept point's elements, ``w0`` … their states' parts in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...scalar.printing.numba import decode, encode
from ..runtime.compile import Kernel
from ..text.skeletons import Code, skeleton
from ..text.source import is_wide
from ..text.states import WARP, storage_name
from .parts import JoinedReduce
from .slots import ReduceSource, State
from .text import BLOCK, Plan, ReduceText, counts

__all__ = ["kernel"]

#: Blocks that should run on a multiprocessor together: the assembler trades loads that
#: are under way for registers unless it is told how many it may use (axis 0 85.8 to
#: 78.5 us, benchmarks/notes/memory.md#reductions).
AT_LEAST = 4
#: The same where the states of a thread take more than this many registers.
SMALL_STATE, AT_LEAST_LARGE = 8, 2


def kernel(text: ReduceText, plan: Plan) -> Kernel:
    """One kernel of a Reduce."""
    out = ReduceSource(text, plan)
    {"rows": write_rows, "columns": write_columns}[plan.kind](out)
    words = sum(-(-d.itemsize // 4) for d in out.states.dtypes)
    states = out.width if plan.kind == "columns" else 1
    most = SMALL_STATE
    if isinstance(text.typed, JoinedReduce):  # of which the loads take registers too
        most //= max(1, len(out.inputs))
    large = words*states > most or is_wide(out.states.dtypes)
    blocks = (AT_LEAST_LARGE if large else AT_LEAST)*BLOCK // plan.threads
    return out.kernel(plan.threads, max(1, blocks))


@skeleton
def start(out: ReduceSource) -> None:
    """Names that every kernel has."""
    thread = i64(cuda.threadIdx.x)
    block = i64(cuda.blockIdx.x)
    kept = "*".join(out.kept)
    reduced = "*".join(out.reduced)


@skeleton
def write_rows(out: ReduceSource) -> None:
    """A group of lanes for each kept point: neighbours take neighbouring elements."""
    PLAN, LANES, STATES = out.plan, out.plan.lanes, out.states
    STEP, GROUPS = LANES*out.width, PLAN.threads // LANES
    start(out)
    lane = thread & LANES - 1
    group = block*GROUPS + divide(thread, i64(LANES))
    if PLAN.in_chunks:
        point = divide(group, chunks)
        begin = (group - point*chunks)*chunk
        end = min(begin + chunk, reduced)
    else:
        point = group
        begin = i64(0)
        end = chunk if PLAN.stage == "finish" else reduced
    inside = point < kept
    STATE = STATES.start(out)
    if inside:
        out.bases(point, out.kept)
        if PLAN.once:
            take_all(out, STATE, [K*STEP + lane*out.width for K in range(PLAN.ahead)])
        else:
            walk_along(out, STATE, STEP)
    if LANES <= WARP:
        STATES.across_lanes(out, STATE, LANES)
    else:
        STATES.across_block(out, STATE, PLAN.threads, again=False)
    if inside and lane == 0:
        if PLAN.stage in ("whole", "finish"):
            out.results(STATE, point)
        else:
            store(out, out.stored, group, STATE)
    if PLAN.stage == "last":
        with last_block(out, point):
            merge_row(out, STATE)


@skeleton
def walk_along(out: ReduceSource, STATE: State, STEP: int) -> None:
    """The elements of a lane from `begin` to `end`, several accesses at once."""
    PLAN, LANES = out.plan, out.plan.lanes
    if PLAN.ragged:
        take_ends(out, STATE)
    first = begin
    for COUNT in counts(PLAN.ahead):
        while first + COUNT*STEP <= end:
            take(out, STATE, [first + K*STEP + lane*out.width
                              for K in range(COUNT)], PLAN.codes != ())
            first += COUNT*STEP
    if out.width > 1:
        j = first + lane*out.width
        if j + out.width <= end:
            take(out, STATE, [j], True)
        first = end - ((end - begin) & out.width - 1)
    if not PLAN.ragged:
        j = first + lane
        while j < end:
            take(out, STATE, [j], False)
            j += LANES


@skeleton
def take_ends(out: ReduceSource, STATE: State) -> None:
    """Elements before a row's first whole access, and after the last, by one warp.

    All chunks but the first begin as much later as that begins with whole accesses.
    """
    shift = min(out.until_whole(), reduced)
    head = i64(0) if begin > 0 else shift  # type: ignore[used-before-def]
    begin = min(begin + shift, reduced)
    end = min(end + shift, reduced)
    rest = (end - begin) & out.width - 1
    end = end - rest
    if lane < head + rest:
        j = lane if lane < head else end + lane - head
        take(out, STATE, [j], False)


@skeleton
def take_all(out: ReduceSource, STATE: State, PLACES: list[str]) -> None:
    """All elements of a lane; those of its last access, if that is in the row."""
    WIDTH, STATES = out.width, out.states
    there = i64(PLACES[-1]) + WIDTH <= end
    last = min(i64(PLACES[-1]), end - WIDTH)
    AT = [*PLACES[:-1], "last"]
    LOADS = [out.load(PLACE, f"{K}", out.plan.codes != ())
             for K, PLACE in enumerate(AT)]
    PARTS = [PART for K, NEAR in enumerate(LOADS)
             for PART in out.elements(STATE, NEAR, AT[K], f"{K}")]
    for PART in PARTS[-WIDTH:]:
        STATES.unless(out, PART, "there")
    STATES.tree(out, STATE, PARTS)


@skeleton
def take(out: ReduceSource, STATE: State, PLACES: list[str], WIDE: bool) -> None:
    """The elements at several places, or the neighbours from there on, to the state.

    All is loaded before anything is stored, which may be in its place.
    """
    if out.plan.stage == "finish":
        PARTS = [stored_state(out, point, PLACE, f"_{K}")
                 for K, PLACE in enumerate(PLACES)]
    else:
        LOADS = [out.load(PLACE, f"{K}", WIDE) for K, PLACE in enumerate(PLACES)]
        PARTS = [PART for K, NEAR in enumerate(LOADS)
                 for PART in out.elements(STATE, NEAR, PLACES[K], f"{K}")]
    if PARTS:
        out.states.tree(out, STATE, PARTS)


@skeleton
def merge_row(out: ReduceSource, STATE: State) -> None:
    """The states of a kept point by all of a block, which it has to itself."""
    STATES, THREADS = out.states, out.plan.threads
    STATES.start(out)
    kept_step = chunks
    chunk_step = i64(1)
    j = thread
    for PLACES in in_steps(out, out.text.finish_ahead, THREADS, chunks):
        STATES.tree(out, STATE, [stored_state(out, point, PLACE, f"_{K}")
                                 for K, PLACE in enumerate(PLACES)])
    STATES.across_block(out, STATE, THREADS, again=False)
    if thread == 0:
        out.results(STATE, point, "last")


@skeleton
def write_columns(out: ReduceSource) -> None:
    """Lanes side by side, rows of them below one another: each walks down."""
    PLAN, WIDTH, STATES = out.plan, out.width, out.states
    LANES = PLAN.lanes
    start(out)
    lane = thread & LANES - 1
    row = divide(thread, i64(LANES))
    points = divide(kept, i64(WIDTH))
    across = divide(points + (LANES - 1), i64(LANES))
    part = divide(block, across) if PLAN.in_chunks else i64(0)
    point = (block - part*across)*LANES + lane
    begin = part*chunk
    end = chunk if PLAN.stage == "finish" else min(begin + chunk, reduced)
    inside = point < points
    EACH = [STATES.start(out, f"_v{V}") for V in range(WIDTH)]
    if WIDTH > 1:
        accesses = divide(out.kept[-1], i64(WIDTH))
    if inside:
        out.bases(point, out.points)
        j = begin + row
        if PLAN.stage == "finish":
            merge_down(out, EACH, PLAN.ahead)
        else:
            walk_down(out, EACH)
    SHARED = [f"shared{K}" for K in range(len(STATES.dtypes))]
    if PLAN.depth > 1:
        for K, DTYPE in enumerate(STATES.dtypes):
            SHARED[K] = cuda.shared.array(PLAN.threads*WIDTH, storage_name(DTYPE))
        across_rows(out, EACH, SHARED)
    if inside and row == 0:
        for V, STATE in enumerate(EACH):
            if PLAN.stage in ("whole", "finish"):
                out.results(STATE, point, f"{V}_", V)
            else:
                store(out, out.stored, part*kept + point*WIDTH + V, STATE)
    if PLAN.stage == "last":
        with last_block(out, block - part*across):
            merge_columns(out, EACH, SHARED)


@skeleton
def in_steps(out: ReduceSource, AHEAD: int, STEP: int,
             end: Code) -> Iterator[list[str]]:
    """Loops over a thread's places from `j` on, `STEP` apart, several at once."""
    for COUNT in counts(AHEAD):
        while j + (COUNT - 1)*STEP < end:
            yield [f"j + {K*STEP}" for K in range(COUNT)]
            j += COUNT*STEP


@skeleton
def walk_down(out: ReduceSource, EACH: list[State]) -> None:
    """Each lane's rows from `j` to the end, several at once."""
    DEPTH = out.plan.depth
    STEPS = [f"step{X.at}" for X in out.inputs]
    for K, X in enumerate(out.inputs):
        STEPS[K] = f"{X.stride(out.text.kept_loops)}*{DEPTH}"
    for ROWS in in_steps(out, out.plan.ahead, DEPTH, end):
        LOADS = [out.load_row(ROW, K) for K, ROW in enumerate(ROWS)]
        for V, STATE in enumerate(EACH):
            with out.repeated(STATE):
                out.states.tree(out, STATE, [
                    out.element(LOADS[K][V], ROW, f"{K}_{V}", V)
                    for K, ROW in enumerate(ROWS)])


@skeleton
def merge_down(out: ReduceSource, EACH: list[State], AHEAD: int) -> None:
    """Each lane merges the states of chunks from `j` to the end."""
    for ROWS in in_steps(out, AHEAD, out.plan.depth, end):
        FOUND = [[stored_state(out, point*out.width + V, ROW, f"_{K}_{V}")
                  for K, ROW in enumerate(ROWS)] for V in range(out.width)]
        for STATE, PARTS in zip(EACH, FOUND, strict=True):
            out.states.tree(out, STATE, PARTS)


@skeleton
def merge_columns(out: ReduceSource, EACH: list[State], SHARED: list[str]) -> None:
    """The states of the columns of this block and of those below it."""
    WIDTH = out.width
    for V in range(WIDTH):
        out.states.start(out, f"_v{V}")
    kept_step = i64(1)
    chunk_step = kept
    if inside:
        j = row
        end = chunks
        merge_down(out, EACH, max(1, out.text.finish_ahead // WIDTH))
    if out.plan.depth > 1:
        across_rows(out, EACH, SHARED)
    if inside and row == 0:
        for V, STATE in enumerate(EACH):
            out.results(STATE, point, f"last{V}_", V)


@skeleton
def across_rows(out: ReduceSource, EACH: list[State], SHARED: list[str]) -> None:
    """The states of a block's rows of threads to those of its first row."""
    THREADS = out.plan.threads
    for V, STATE in enumerate(EACH):
        store(out, SHARED, V*THREADS + thread, STATE)
    cuda.syncthreads()
    half = out.plan.depth // 2
    while half > 0:
        if row < half:
            for V, STATE in enumerate(EACH):
                OTHER = [f"{PART}_o" for PART in STATE]
                for K, DTYPE in enumerate(out.states.dtypes):
                    OTHER[K] = decode(
                        DTYPE, SHARED[K][V*THREADS + thread + half*out.plan.lanes])
                out.states.merge(out, STATE, STATE, OTHER)
                store(out, SHARED, V*THREADS + thread, STATE)
        cuda.syncthreads()
        half = half >> 1


@contextmanager
@skeleton
def last_block(out: ReduceSource, group: Code) -> Iterator[None]:
    """Lines for the block of a group that is the last to have stored its states.

    Whichever it is, it merges them in the same order.
    """
    turn = cuda.shared.array(1, i64)
    cuda.syncthreads()
    if thread == 0:  # its fence is for the whole block's stores
        cuda.threadfence()
        turn[0] = i64(fetch_add(tickets, group, u32(1)))
    cuda.syncthreads()
    if turn[0] == chunks - 1:
        cuda.threadfence()
        yield
        if thread == 0:
            tickets[group] = u32(0)


@skeleton
def stored_state(out: ReduceSource, point: Code, place: Code, SUFFIX: str) -> State:
    """The state of a chunk, as it was left by the block that had it."""
    STATE = out.states.names(SUFFIX)
    for K, DTYPE in enumerate(out.states.dtypes):
        STATE[K] = decode(DTYPE, out.stored[K][point*kept_step + (place)*chunk_step])
    return STATE


@skeleton
def store(out: ReduceSource, memory: list[Any], place: Code, STATE: State) -> None:
    """Leave a state for whoever merges them."""
    for K, DTYPE in enumerate(out.states.dtypes):
        memory[K][place] = encode(DTYPE, STATE[K])
