"""Generated text of the kernels of `Reduce`."""

from __future__ import annotations

from collections.abc import Sequence

from ..backend import Signature
from ..scalar.printing.numba import encode
from ..specs import TypedReduce
from ..support.dtypes import short
from .text.elements import Computed, elementwise
from .text.fold import Fold
from .text.lines import indented, inlined, invoke, local, loop, unravel
from .text.operands import INT64, SECOND, Frame, Operand, offset
from .text.reuse import is_cheap, vector_bytes, vectors

__all__ = ["BLOCK", "ReduceText", "across", "along", "finish", "gather", "spans"]

#: Results that the kernel across them keeps in the first-level cache; not measured.
BLOCK = 1024


#: Reduced elements that the kernel across results adds to a lane at once:
#: benchmarks/notes/cpu.md#rows-and-reductions-on-the-cpu.
_TOGETHER = 4

#: Elements of a strided input that are copied at once: a group of lanes.
#: benchmarks/notes/cpu.md#strided-elements
_COPIED = 1 << 11


class ReduceText:
    """A typed Reduce with the operands, scalars and frame of its kernels.

    Parameters
    ----------
    typed, signature
        The reduction.
    codes
        For each array, the code of its stride in the inner loop.
    inner
        Which dimension the inner loop runs along.
    more
        Names of further integers that the launcher adds.
    """

    def __init__(self, typed: TypedReduce, signature: Signature, codes: Sequence[str],
                 inner: int, more: Sequence[str] = ()) -> None:
        self.typed = typed
        kept, reduced = signature.ranks
        rank = kept + reduced
        self.kept = [f"n{d}" for d in range(kept)]
        self.reduced = [f"n{d}" for d in range(kept, rank)]
        inputs = len(codes) - len(signature.outputs)
        near = ["1" if code == SECOND else code for code in codes[:inputs]]
        self.elements, operands, scalars = elementwise(
            typed.element, typed.kinds, signature, near, rank, inner=inner)
        self.copied = [o for o, code in zip(operands, codes, strict=False)
                       if code == SECOND]
        if inner >= 0:  # an inner loop stays at one reduced element
            self.elements.index = "first"
        stored = len(typed.stored)
        outputs = [
            Operand(f"y{k}", dtype, "0" if inner < 0 and k >= stored else code, rank,
                    True, inner)
            for k, (dtype, code) in enumerate(
                zip(signature.outputs, codes[inputs:], strict=True))]
        self.stored, self.outputs = outputs[:stored], outputs[stored:]
        self.fold = Fold("f", typed.state, typed.identity, typed.merge, typed.element,
                         vector_bytes(typed.element))
        self.partial = [f"p{k}" for k in range(len(typed.state))]
        extras = ["chunks", "chunk", "group", *more, *(f"{p}_at" for p in self.partial)]
        self.inputs, self.scalars = operands, scalars
        self.frame = Frame([*operands, *outputs], rank, scalars, extras)
        self.names = list(dict.fromkeys((
            *self.elements.names(typed.element),
            *(n for y in self.stored for n in y.names))))

    def title(self, which: str) -> str:
        """The comment line at the head of a kernel."""
        return f"# Reduce {self.typed.element.function.name}: {which}"

    def functions(self, j: str = "j0 + l") -> list[str]:
        """The functions of the fold, for elements at ``j``, and ``post``."""
        element, count = self.typed.element, len(self.typed.state)
        results = [f"e{k}" for k in range(len(element.results))]
        lines = self.elements.evaluate(element, results)
        lines += [y.store("j", dtype, e) for y, dtype, e in zip(
            self.stored, self.typed.stored, results[count:], strict=True)]
        return [*self.fold.functions(lines, results[:count], self.names,
                                     element.results[:count], j), *self.post()]

    def post(self) -> list[str]:
        """``post(j, state..., outputs...)``, which stores results at element ``j``."""
        post = self.typed.post
        state = iter(Computed(p, d) for p, d
                     in zip(self.partial, self.typed.state, strict=True))
        known = {"size": Computed("size", INT64)}
        for p, kind in zip(post.function.params, self.typed.post_kinds, strict=True):
            if kind == "state":
                known[p] = next(state)
        results = [f"r{k}" for k in range(len(self.outputs))]
        lines = self.elements.evaluate(post, results, known=known)
        lines += [y.store("j", dtype, r) for y, dtype, r
                  in zip(self.outputs, post.results, results, strict=True)]
        return inlined("post", self.post_names("j", self.partial), lines)

    def post_names(self, j: str, state: Sequence[str]) -> list[str]:
        """Names of the arguments of ``post``."""
        return [j, *state, *(n for y in self.outputs for n in y.names), "size",
                *(s.name for s in self.scalars)]

    def start(self) -> list[str]:
        """The first lines of a kernel."""
        pointers = [f"{p} = {short(d)}_pointer({p}_at)"
                    for p, d in zip(self.partial, self.typed.state, strict=True)]
        raw = [line for o in self.inputs if o.code == "r" for line in o.bind()]
        return [*self.frame.unpack(), *pointers, *raw,
                f"kept = {' * '.join(self.kept) or '1'}",
                f"size = {' * '.join(self.reduced) or '1'}"]

    def bind_elements(self, indices: Sequence[str]) -> list[str]:
        """Lines that point the inputs, and what is stored, to an element."""
        return [line for o in (*self.inputs, *self.stored) if o.code != "r"
                for line in o.bind(offset(o, indices))]

    def bind_outputs(self, indices: Sequence[str]) -> list[str]:
        """Lines that point the outputs to a result."""
        return [line for o in self.outputs for line in o.bind(offset(o, indices))]

    def keep(self, at: str, state: Sequence[str]) -> list[str]:
        """Lines that store values as the state of a chunk."""
        return [f"{p}[{at}] = {encode(d, v)}" for p, d, v
                in zip(self.partial, self.typed.state, state, strict=True)]


def along(problem: ReduceText) -> list[str]:
    """Text of the kernel whose inner loop runs over reduced elements."""
    p, fold = problem, problem.fold
    k = [f"k{d}" for d in range(len(p.kept))]
    state = fold.values(fold.top, "0")
    inside = ["k = u", "if chunks > 1:", "    k = u // chunks",  # 4 ns a row
              "c = u - k*chunks", "lo = c*chunk",
              "hi = min(size, lo + chunk)", *unravel("k", p.kept, k),
              *(_one_run(p, k) if len(p.reduced) == 1 else _many_runs(p, k)),
              "if chunks == 1:", *indented(p.bind_outputs(k)),
              f"    {invoke('post', p.post_names('0', state))}", "else:",
              *(indented(p.keep("c*kept + k", state)) or ["    pass"])]
    width = vectors(p.typed.element)
    return [p.title("along"), *p.functions(), "def kernel(a, begin, end):", *indented([
        width, *p.start(), *fold.locals(),
        *(local(f"{o.name}_room", o.dtype, _COPIED) for o in p.copied),
        "for u in range(begin, end):", *indented(inside)])]


def _one_run(p: ReduceText, k: Sequence[str]) -> list[str]:
    if p.copied:
        return _copied_runs(p, k)
    return ["n = hi - lo", "first = lo", *p.bind_elements([*k, "lo"]),
            *p.fold.whole("n", p.names)]


def _copied_runs(p: ReduceText, k: Sequence[str]) -> list[str]:
    """Lines that reduce every second element, some of which are copied at once."""
    run = [f"n = min({_COPIED}, hi - first)", *p.bind_elements([*k, "first"]),
           *(line for o in p.copied for line in (
               *o.copied(f"{o.name}_room", "n"), f"{o.name} = {o.name}_room")),
           *p.fold.segment("n", p.names), "first += n"]
    return [p.fold.fill(p.fold.top), "first = lo", "while first < hi:", *indented(run),
            p.fold.total()]


def _many_runs(p: ReduceText, k: Sequence[str]) -> list[str]:
    r = [f"r{d}" for d in range(len(p.reduced) - 1)]
    inner = p.reduced[-1]
    run = [f"q = first // {inner}", f"j0 = first - q*{inner}",
           f"n = min({inner} - j0, hi - first)", *unravel("q", p.reduced[:-1], r),
           *p.bind_elements([*k, *r, "j0"]), *p.fold.segment("n", p.names),
           "first += n"]
    return [p.fold.fill(p.fold.top), "first = lo", "while first < hi:", *indented(run),
            p.fold.total()]


def across(problem: ReduceText) -> list[str]:
    """Text of the kernel whose inner loop runs over results."""
    p, fold = problem, problem.fold
    k = [f"k{d}" for d in range(len(p.kept) - 1)]
    states = fold.values(fold.top, "l")
    storing = [*fold.top, *p.post_names("l", ())[1:]]
    keep, kept = _keeping(p)
    return _across(p, "across", [
        *inlined("store", ["l", *storing],
                 [invoke("post", p.post_names("l", states))]), *keep],
        ["if chunks == 1:", *indented(p.bind_outputs([*k, "j0"])),
         f"    {loop('store', '0', 'm', storing)}", "else:", f"    {kept}"], "m")


def spans(problem: ReduceText) -> list[str]:
    """Text of the kernel whose lanes are neighbours in memory, and that keeps states.

    At its last step along the last loop there may be fewer lanes: `limit` of all steps.
    """
    keep, kept = _keeping(problem)
    last = f"r{len(problem.reduced) - 1}"
    return _across(problem, "spans", keep, [kept], "w", [
        f"w = min(m, limit - {last}*{problem.kept[-1]} - j0)"])


def _keeping(p: ReduceText) -> tuple[list[str], str]:
    """The function that keeps the state of a lane, and its loop."""
    names = [*p.partial, *p.fold.top]
    at = f"c*kept + o*{p.kept[-1]} + j0"
    return (inlined("keep", ["l", *names, "at"],
                    p.keep("at + l", p.fold.values(p.fold.top, "l"))),
            loop("keep", "0", "m", [*names, at]))


def _across(p: ReduceText, title: str, functions: Sequence[str], end: Sequence[str],
            lanes: str, before: Sequence[str] = ()) -> list[str]:
    fold = p.fold
    k = [f"k{d}" for d in range(len(p.kept) - 1)]
    r = [f"r{d}" for d in range(len(p.reduced))]
    inner = p.kept[-1]
    bound = [*unravel("first", p.reduced, r), *p.bind_elements([*k, "j0", *r])]
    together, more = _together(p, bound) if lanes == "m" else ([], [])
    group = [fold.fill(fold.low, "m"), "stop = min(hi, first + group)", *together,
             "while first < stop:", *indented([
                 *bound, *before, fold.lane(fold.low, lanes, "0", p.names),
                 "first += 1"]), fold.join("m")]
    inside = [
        "c = u % chunks", "q = u // chunks",
        f"blocks = ({inner} + {BLOCK - 1}) // {BLOCK}", f"j0 = (q % blocks)*{BLOCK}",
        "o = q // blocks", f"m = min({BLOCK}, {inner} - j0)",
        *unravel("o", p.kept[:-1], k), "first = c*chunk",
        "hi = min(size, first + chunk)", fold.fill(fold.top, "m"),
        "while first < hi:", *indented(group), *end]
    return [p.title(title), *p.functions("l"), *more, *functions,
            "def kernel(a, begin, end):", *indented([
                *p.start(), *fold.locals(BLOCK), "for u in range(begin, end):",
                *indented(inside)])]


def _together(p: ReduceText, bound: Sequence[str]) -> tuple[list[str], list[str]]:
    """Lines that add several reduced elements to each lane, and their function.

    In their order, so that bits are the same: but a lane is loaded and stored once.
    """
    if not (is_cheap(p.typed.element) and is_cheap(p.typed.merge)):
        return [], []
    sets = [[f"{name}_{q}" for name in p.names] for q in range(_TOGETHER)]
    names = [name for own in sets for name in own]
    add = [invoke("f_lane", ["l", *p.fold.low, "j0", *own]) for own in sets]
    lines = [line for own in sets for line in (
        *bound, *(f"{a} = {b}" for a, b in zip(own, p.names, strict=True)),
        "first += 1")]
    return [f"while first + {_TOGETHER} <= stop:", *indented([*lines, loop(
        "together", "0", "m", [*p.fold.low, "0", *names])])], [
            *inlined("together", ["l", *p.fold.low, "j0", *names], add)]


def gather(problem: ReduceText) -> list[str]:
    """Text of the kernel that combines the states of neighbours and stores results.

    Its reduced loops are over chunks and what lanes were reduced; ``step0``, … say how
    far apart states are along each loop, and ``chunk`` how many elements there were.
    """
    p, fold = problem, problem.fold
    k = [f"k{d}" for d in range(len(p.kept))]
    r = [f"r{d}" for d in range(len(p.reduced))]
    at = " + ".join(f"{i}*step{d}" for d, i in enumerate([*k, *r]))
    merge = invoke("f_join", ["0", *fold.low, "0", *p.partial, "at"])
    inside = [
        *unravel("u", p.kept, k), *p.bind_outputs(k), fold.fill(fold.top, "1"),
        "first = 0", "while first < count:", *indented([
            fold.fill(fold.low, "1"), "stop = min(count, first + group)",
            "while first < stop:", *indented([
                *unravel("first", p.reduced, r), f"at = {at}", merge, "first += 1"]),
            fold.join("1")]),
        invoke("post", p.post_names("0", fold.values(fold.top, "0")))]
    return [p.title("gather"), *p.functions(), "def kernel(a, begin, end):", *indented([
        *p.start(), *fold.locals(), "count = size", "size = chunk",
        "for u in range(begin, end):", *indented(inside)])]


def finish(problem: ReduceText) -> list[str]:
    """Text of the kernel that combines chunks pairwise and stores the results."""
    p, fold = problem, problem.fold
    k = [f"k{d}" for d in range(len(p.kept))]
    state = fold.values(p.partial, "u")
    join = loop("f_join", "begin", "end",
                [*p.partial, "c*kept", *p.partial, "(c + w)*kept"])
    return [p.title("finish"), *p.functions(), "def kernel(a, begin, end):", *indented([
        *p.start(), "w = 1", "while w < chunks:", "    c = 0",
        "    while c + w < chunks:", f"        {join}", "        c += 2*w",
        "    w *= 2", "for u in range(begin, end):", *indented([
            *unravel("u", p.kept, k), *p.bind_outputs(k),
            invoke("post", p.post_names("0", state))])])]
