"""What the kernels of Reduce have in common: parameters, elements, results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from ..scalar.print_numba import cast, decode, encode
from .compile import Kernel
from .reduce_text import BLOCK, Plan, ReduceText
from .source import (
    INT64,
    Source,
    decoded,
    encoded,
    evaluate,
    is_wide,
    kernel_name,
    offsets,
    storage,
)
from .states import States

__all__ = ["Writer"]

#: Blocks that should run on a multiprocessor together: the assembler trades loads that
#: are under way for registers unless it is told how many it may use.
AT_LEAST = 4
#: The same where the states of a thread take more than this many registers.
SMALL_STATE, AT_LEAST_LARGE = 8, 2


class Writer:
    """The text of one kernel of a Reduce under construction.

    Parameters
    ----------
    text
        Of the Reduce.
    plan
        Which of its kernels.
    """

    def __init__(self, text: ReduceText, plan: Plan) -> None:
        self.text, self.plan, self.typed = text, plan, text.typed
        self.width = text.plan_width(plan)
        loops = text.kept_loops + text.reduced_loops
        self.kept = [f"n{k}" for k in range(text.kept_loops)]
        self.reduced = [f"n{k}" for k in range(text.kept_loops, loops)]
        self.out = Source(kernel_name(text.name, "reduce", plan.kind, plan.stage))
        self.states = States(self.typed.merge, self.typed.identity, self.typed.state,
                             "z")
        self.stored = [f"w{k}" for k in range(len(self.typed.state))]
        self.steps = ["kept_step", "chunk_step"] if plan.stage == "finish" else []
        self._declare()

    def _declare(self) -> None:
        out, arrays = self.out, self.text.arrays(self.plan)
        for o in arrays:
            out.pointer(o.pointer, storage(o.dtype))
        if self.plan.stage != "whole":
            for name, dtype in zip(self.stored, self.typed.state, strict=True):
                out.pointer(name, storage(dtype))
        if self.plan.stage == "last":
            out.pointer("tickets", "uint32")
        out.integer(*self.kept, *self.reduced, "chunks", "chunk", *self.steps,
                    *(o.stride(k) for o in arrays
                      for k in range(len(self.kept) + len(self.reduced))))
        element, post = self.typed.element, self.typed.post
        names = [p for p, k in zip(element.function.params, self.typed.kinds,
                                   strict=True) if k == "scalar"]
        self.scalars = {p: out.scalar(f"a{k}", element.dtypes[p])
                        for k, p in enumerate(names)}
        self.post_scalars = {
            p: out.scalar(f"b{k}", post.dtypes.get(p, element.dtypes[p]))
            for k, p in enumerate(names)}

    def kernel(self) -> Kernel:
        """The text and parameters."""
        out = self.out
        out("thread = i64(cuda.threadIdx.x)", "block = i64(cuda.blockIdx.x)",
            f"kept = {'*'.join(self.kept)}", f"reduced = {'*'.join(self.reduced)}")
        self._body()
        return out.kernel(self.plan.threads,
                          max(1, self._resident()*BLOCK // self.plan.threads))

    def _resident(self) -> int:
        words = sum(-(-d.itemsize // 4) for d in self.typed.state)
        states = self.width if self.plan.kind == "columns" else 1
        large = words*states > SMALL_STATE or is_wide(self.typed.state)
        return AT_LEAST_LARGE if large else AT_LEAST

    def _body(self) -> None:
        """What follows the declarations, by kind of kernel."""
        raise NotImplementedError

    def _stored(self, point: str, chunk: str, suffix: str) -> list[str]:
        """The state of a chunk, as it was left by the block that had it."""
        names = self.states.names(suffix)
        at = f"{point}*kept_step + ({chunk})*chunk_step"
        self.out(*(f"{n} = {decode(d, f'{w}[{at}]')}" for n, w, d in zip(
            names, self.stored, self.typed.state, strict=True)))
        return names

    def _element(self, loads: dict[int, str], index: str, tag: str) -> list[str]:
        """The state of one element."""
        function = self.typed.element
        inputs, arguments = iter(self.text.inputs), dict[str, object]()
        for param, kind in zip(function.function.params, self.typed.kinds, strict=True):
            if kind == "element":
                o = next(inputs)
                arguments[param] = decoded(o.dtype, loads[o.at])
            elif kind == "scalar":
                arguments[param] = self.scalars[param]
            else:
                arguments[param] = index if kind == "index" else "reduced"
        names = self.states.names(f"_{tag}")
        self.states.assign(self.out, names, function, arguments)
        return names

    def _store_state(self, state: list[str], slot: str) -> None:
        """Leave the state of a chunk for whoever merges them."""
        self.out(*(f"{w}[{slot}] = {encode(d, n)}" for w, n, d in
                   zip(self.stored, state, self.typed.state, strict=True)))

    @contextmanager
    def _last_block(self, group: str) -> Iterator[None]:
        """Lines for the block of `group` that is the last to have stored its states.

        Whichever it is, it merges them in the same order.
        """
        out = self.out
        out("turn = cuda.shared.array(1, i64)", "cuda.syncthreads()")
        with out.block("if thread == 0:"):  # its fence is for the whole block's stores
            out("cuda.threadfence()",
                f"turn[0] = i64(fetch_add(tickets, {group}, u32(1)))")
        out("cuda.syncthreads()")
        with out.block("if turn[0] == chunks - 1:"):
            out("cuda.threadfence()")
            yield
            with out.block("if thread == 0:"):
                out(f"tickets[{group}] = u32(0)")

    def _results(self, state: list[str], point: str, tag: str = "") -> None:
        """Store the outputs of a kept point."""
        out, typed = self.out, self.typed
        post, values = typed.post, iter(zip(state, typed.state, strict=True))
        arguments: dict[str, object] = {}
        for param, kind in zip(post.function.params, typed.post_kinds, strict=True):
            if kind == "state":
                name, dtype = next(values)
                arguments[param] = cast(dtype, post.dtypes[param], name)
            elif kind == "size":
                arguments[param] = cast(INT64, post.dtypes[param], "reduced")
            else:
                arguments[param] = self.post_scalars[param]
        lines, names = evaluate(post, arguments, f"y{tag}")
        out(*lines)
        outputs = [replace(o, code="s") for o in self.text.outputs]
        at = offsets(out, point, self.kept, outputs, 0, f"o{tag}")
        for o, dtype, name in zip(outputs, post.results, names, strict=True):
            out(f"{o.pointer}[{at[o.at]}] = {encoded(dtype, o.dtype, name)}")
