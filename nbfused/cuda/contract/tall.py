"""Products of a tall factor whose rows are short and follow one another in memory.

Bytes are the time.  A block's rows are brought to shared memory as they lie, wherever
they begin; each thread multiplies a few of them by the other factor, whose elements it
reads once for all of its rows.
"""

from __future__ import annotations

from math import prod

from ...backend import Call
from ...gpu.operands import Operand, kernel_name
from ...gpu.programs import Programs
from ...scalar.printing.numba import cast
from ...scalar.typing.promotion import compute_dtype
from ...support.dtypes import storage
from ...support.records import record
from ..runtime.compile import Kernel
from ..runtime.driver import Device
from ..runtime.launch import Program
from ..text.source import Source, calls_for, decoded, encoded
from ..text.states import storage_name
from .calls import ACCESS, is_plain
from .text import GROUPS, ContractText

__all__ = ["TallLauncher"]

#: Rows at least, columns at most, and bytes of a row at most:
#: benchmarks/notes/products.md#tall, as the numbers below.
TALL, COLUMNS, ROW = 1 << 13, 32, 384
#: Columns up to which any row is multiplied so, and one may have so many bytes.
FEW, ROW_OF_FEW = 3, 512
#: Multiply-adds of a row up to which each thread is fast enough for its own, unless
#: 16-bit elements would have to be packed first; and if tensor cores take the factors
#: as they are.
WORK, WORK_OF_TENSORS = 1280, 320
#: Extent along k up to which narrow tiles of float32 are as fast for several columns.
SHALLOW = 8
#: Bytes of a block's rows at most; the threads of a block and the rows of a thread, by
#: preference; and those of rows that are so few that a multiprocessor has fewer blocks.
BYTES, BLOCKS, SMALL, RESIDENT = 3 << 15, ((128, 2), (32, 2)), (64, 1), 2
#: Elements along k of a turn, and a unit of columns.
TURN, QUAD = 4, 4


@record(frozen=True)
class Plan:
    """The kernel of a call.

    Attributes
    ----------
    tall
        The number of the tall factor.
    threads, each
        Of a block, and the rows of a thread.
    columns
        Of the other factor.
    whole
        Whether a row is whole accesses: they lie apart by an odd number of them, so
        that threads side by side find them in different banks.
    """

    tall: int
    threads: int
    each: int
    columns: int
    whole: bool

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return self.threads*self.each

    def shared(self, row: int, k: int, item: int) -> int:
        """Bytes of shared memory: of both factors, then of the sums."""
        own = self.rows*(row + ACCESS*self.whole) + 2*ACCESS
        return max(k*_quads(self.columns)*item + own,
                   self.rows*(self.columns | 1)*item)


class TallLauncher:
    """Products of floats without prologues, one m, n and k loop each.

    Parameters
    ----------
    text
        Operands, loops and functions.
    """

    def __init__(self, text: ContractText) -> None:
        self._text, self._possible = text, is_plain(text)
        self._programs: Programs[Plan, Program] = Programs(
            Program, lambda plan: TallText(text, plan).kernel())

    def takes(self, call: Call, tensor: bool) -> bool:
        """Whether one factor is tall, its rows are short, and the other is narrow.

        Parameters
        ----------
        tensor
            Whether tensor cores take the factors as they are.
        """
        *_, m, n, k = call.shape
        few = min(m, n)
        if not self._possible or not 1 < few <= COLUMNS or max(m, n) < TALL or not k:
            return False
        o = self._text.factors[int(m < n)]
        own, along = call.strides[o.at][len(call.shape) - 3 + o.at], \
            call.strides[o.at][-1]
        row = k*o.dtype.itemsize
        if along != 1 or own != k or row > (ROW_OF_FEW if few <= FEW else ROW):
            return False
        if o.dtype.itemsize > 2:
            return few <= FEW or SHALLOW < k <= WORK // few
        return k*few <= (WORK_OF_TENSORS if tensor else WORK) or row % ACCESS > 0

    def __call__(self, call: Call, where: Device) -> None:
        """Launch on the call's stream."""
        *batch, m, n, k = call.shape
        plan = self._plan(call, where)
        row = k*self._text.factors[plan.tall].dtype.itemsize
        self._programs[plan].launch(
            where, call.stream, prod(batch)*-(-max(m, n) // plan.rows),
            self._text.arguments(call, self._text.operands),
            plan.shared(row, k, self._text.kept.itemsize))

    def _plan(self, call: Call, where: Device) -> Plan:
        """The block that fits and fills the device, and how the factors lie."""
        *batch, m, n, k = call.shape
        tall, columns = int(m < n), min(m, n)
        o = self._text.factors[tall]
        row = k*o.dtype.itemsize
        blocks = prod(batch)*-(-max(m, n) // prod(BLOCKS[0]))
        room = min(BYTES, where.shared_limit // 2)
        threads, each = SMALL if blocks < RESIDENT*where.processors else next(
            (t, u) for t, u in BLOCKS if t*u*row <= room or (t, u) == BLOCKS[-1])
        starts = call.pointers[o.at], *(
            s*o.dtype.itemsize for s in call.strides[o.at][:len(batch)])
        return Plan(tall, threads, each, columns,
                    all(x % ACCESS == 0 for x in (row, *starts)))


def _quads(columns: int) -> int:
    """Elements of a row of the other factor in shared memory."""
    return -(-columns // QUAD)*QUAD


class TallText:
    """Writes the kernel of one Contract.

    Parameters
    ----------
    text
        Operands, loops and functions.
    plan
        Which factor is tall, and the extents.
    """

    def __init__(self, text: ContractText, plan: Plan) -> None:
        self.text, self.plan = text, plan
        self.tall, self.other = text.factors[plan.tall], text.factors[1 - plan.tall]
        self.own, self.side = "mn"[plan.tall], "nm"[plan.tall]
        self.width = ACCESS//self.tall.dtype.itemsize
        self.kind, self.short = text.kept.name, storage_name(text.kept)
        self.calls = calls_for(text.outputs)
        self.out = Source(kernel_name(
            text.name, "tall" + "x"*plan.tall, f"{plan.rows}by{plan.columns}",
            *["whole"]*plan.whole))
        self.scalars = text.parameters(self.out, text.operands)

    def kernel(self) -> Kernel:
        """The text and its parameters."""
        out, rows, own = self.out, self.plan.rows, self.own
        self.text.sizes(out, (own, "k"))
        out("thread = i64(cuda.threadIdx.x)",
            f"down = divide(size_{own} + {rows - 1}, i64({rows}))",
            "block = i64(cuda.blockIdx.x)", "batch = divide(block, down)",
            f"first = (block - batch*down)*{rows}",
            f"count = min(i64({rows}), size_{own} - first)")
        for k, text in self.text.offsets(out, "batch", "batch", self.text.operands,
                                         "b").items():
            out(f"base{k} = {text}")
        self._bring()
        self._multiply()
        self._results()
        return out.kernel(self.plan.threads)

    # --- the factors

    def _bring(self) -> None:
        """The block's rows, as they lie, and all of the other factor."""
        out, quads = self.out, _quads(self.plan.columns)
        out(f"other = shared_{self.kind}(i64(0))",
            f"rows = shared_{storage(self.tall.dtype)}"
            f"(size_k*{quads*self.text.kept.itemsize})",
            f"begin = base{self.tall.at} + first*size_k")
        if self.plan.whole:
            self._apart()
        else:
            self._stretch()
        out("e = thread")
        with out.block(f"while e < size_k*{quads}:"):
            out(f"k = divide(e, i64({quads}))", f"c = e - k*{quads}",
                f"kept = {self.short}(0)")
            with out.block(f"if c < {self.plan.columns}:"):
                o = self.other
                element = f"{o.pointer}[{self._place(o, k='k', **{self.side: 'c'})}]"
                out(f"kept = {self._value(o, element)}")
            out("other[e] = kept", f"e += {self.plan.threads}")
        out("copy_wait()", "cuda.syncthreads()")

    def _place(self, o: Operand, **at: str) -> str:
        """The text of an element's place, by its indices along loops."""
        steps = [f"{x}*{o.stride(self.text.first[GROUPS.index(group)])}"
                 for group, x in at.items()]
        return " + ".join([f"base{o.at}", *steps])

    def _value(self, o: Operand, element: str) -> str:
        """An element in the dtype that sums are kept in."""
        return cast(compute_dtype(o.dtype), self.text.kept, decoded(o.dtype, element))

    def _apart(self) -> None:
        """Rows of whole accesses, an odd number of accesses apart."""
        out, width = self.out, self.width
        out(f"pieces = divide(size_k, i64({width}))", f"pitch = (pieces | 1)*{width}",
            "by = inverse(pieces)", "e = thread")
        with out.block("while e < count*pieces:"):
            out("r = divide_short(e, pieces, by)",
                f"copy_async{width}(rows, r*pitch + (e - r*pieces)*{width}, "
                f"{self.tall.pointer}, begin + e*{width})", f"e += {self.plan.threads}")

    def _stretch(self) -> None:
        """Rows that begin anywhere, one after the other: whole accesses in between."""
        out, width = self.out, self.width
        pointer = self.tall.pointer
        out("size = count*size_k",
            f"head = min(until_aligned{width}({pointer}, begin), size)",
            f"shift = -head & {width - 1}", "pitch = size_k",
            f"tail = head + divide(size - head, i64({width}))*{width}",
            f"e = head + thread*{width}")
        with out.block("while e < tail:"):
            out(f"copy_async{width}(rows, shift + e, {pointer}, begin + e)",
                f"e += {self.plan.threads*width}")
        for start, end in (("thread", "head"), ("tail + thread", "size")):
            out(f"e = {start}")
            with out.block(f"while e < {end}:"):
                out(f"rows[shift + e] = {pointer}[begin + e]",
                    f"e += {self.plan.threads}")

    # --- the product

    def _multiply(self) -> None:
        """Sums of the thread's rows, between which lies one of each other thread."""
        out, plan = self.out, self.plan
        step = self.width if plan.whole else TURN
        begin = "thread*pitch" if plan.whole else "shift + thread*pitch"
        for u in range(plan.each):
            out(f"mine{u} = {begin} + {u*plan.threads}*pitch",
                *(f"c{u}_{c} = {self.short}(0)" for c in range(plan.columns)))
        out("k = i64(0)")
        with out.block(f"while k <= size_k - {step}:"):
            for u in range(plan.each):
                names = [f"x{u}_{e}" for e in range(step)]
                out(*([f"{', '.join(names)}, = load{step}(rows, mine{u} + k)"]
                      if plan.whole else
                      [f"{x} = rows[mine{u} + k + {e}]" for e, x in enumerate(names)]))
            for e in range(step):
                self._turn(e)
            out(f"k += {step}")
        if not plan.whole:
            with out.block("while k < size_k:"):
                out(*(f"x{u}_0 = rows[mine{u} + k]" for u in range(plan.each)))
                self._turn(0)
                out("k += 1")

    def _turn(self, e: int) -> None:
        """Elements of the thread's rows times those of the other factor."""
        out, each, columns = self.out, self.plan.each, self.plan.columns
        quads = _quads(columns)
        out(*(f"left{u} = {self._value(self.tall, f'x{u}_{e}')}" for u in range(each)))
        right = ", ".join(f"right{j}" for j in range(QUAD))
        for q in range(0, quads, QUAD):
            out(f"{right}, = load4(other, (k + {e})*{quads} + {q})",
                *(f"c{u}_{q + j} = c{u}_{q + j} + left{u}*right{j}"
                  for u in range(each) for j in range(QUAD) if q + j < columns))

    # --- the results

    def _results(self) -> None:
        """The epilogue, with neighbouring threads at neighbours of the result."""
        out, plan, columns = self.out, self.plan, self.plan.columns
        pitch = columns | 1
        out("cuda.syncthreads()", f"sums = shared_{self.kind}(i64(0))",
            *(f"sums[(thread + {u*plan.threads})*{pitch} + {c}] = c{u}_{c}"
              for u in range(plan.each) for c in range(columns)))
        if self.text.outputs[0].code[plan.tall] == "1":
            self._down(pitch)
        else:
            out("cuda.syncthreads()")
            self._across(pitch)

    def _down(self, pitch: int) -> None:
        """Each thread stores its own sums."""
        out, plan = self.out, self.plan
        out("c = i64(0)")
        with out.block(f"while c < {plan.columns}:"):
            for u in range(plan.each):
                out(f"r = thread + {u*plan.threads}")
                with out.block("if r < count:"):
                    self._store(pitch, f"e{u}_")
            out("c += 1")

    def _across(self, pitch: int) -> None:
        """Threads side by side store the sums of a row."""
        out, columns = self.out, self.plan.columns
        down, right = divmod(self.plan.threads, columns)
        out(f"r = divide(thread, i64({columns}))", f"c = thread - r*{columns}")
        with out.block("while r < count:"):
            self._store(pitch, "e_")
            out(f"c += {right}", f"over = c >= {columns}",
                f"c = c - {columns} if over else c",
                f"r = r + {down + 1} if over else r + {down}")

    def _store(self, pitch: int, prefix: str) -> None:
        """Evaluate the epilogue of the sum at `r` and `c`, and store the results."""
        out, at = self.out, {self.own: "row", self.side: "c"}

        def element(o: Operand) -> str:
            return f"{o.pointer}[{self._place(o, **at)}]"

        out("row = first + r")
        names = self.text.epilogue(out, f"sums[r*{pitch} + c]", self.scalars, element,
                                   prefix, self.calls)
        results = self.text.typed.epilogue.results
        out(*(f"{element(o)} = {encoded(dtype, o.dtype, name)}" for o, dtype, name
              in zip(self.text.outputs, results, names, strict=True)))
