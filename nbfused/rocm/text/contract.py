"""The text of Contract's kernel: what ``hip/contract.hip`` takes, printed."""

from __future__ import annotations

import numpy as np

from ...backend import Signature
from ...gpu.contract_layout import ContractLayout
from ...gpu.operands import Operand, kernel_name
from ...scalar.printing.hip import cast, ctype, decode, storage_type
from ...scalar.typing.promotion import compute_dtype
from ...specs import TypedContract
from ...support.dtypes import BFLOAT16
from ...support.records import record
from ..build.kernel import Kernel
from .source import Source, encoded, evaluate

__all__ = ["LARGE", "SMALL", "ContractText", "Tile"]

#: The dtypes that matrix instructions multiply.
HALVES = (np.dtype(np.float16), BFLOAT16)


@record(frozen=True)
class Tile:
    """Extents of a block's tile, of a slice along k, and of a thread's part."""

    m: int
    n: int
    k: int
    rows: int
    columns: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.m // self.rows*(self.n // self.columns)

    @property
    def text(self) -> str:
        """The type that stands for it in C++."""
        return f"nbf::Tile<{self.m}, {self.n}, {self.k}, {self.rows}, {self.columns}>"

    def count(self, batch: int, rows: int, columns: int) -> int:
        """Number of tiles that cover `batch` results of `rows` and `columns`."""
        return batch * -(-rows // self.m) * -(-columns // self.n)

    def shared(self, item: int, *, matrix: bool = False) -> int:
        """Bytes of shared memory (``Tile`` in contract.hip, ``Waves`` in matrix.hip).

        Where `matrix`, the most that one of the two needs: the device decides.
        """
        plain = self.k*(self.m + self.n + 8)*item
        return max(plain, (self.m + self.n)*40*2) if matrix else plain


LARGE = Tile(128, 128, 8, 8, 8)
SMALL = Tile(64, 64, 16, 4, 4)


class ContractText(ContractLayout):
    """Operands, functions and text of one Contract's kernels.

    Parameters
    ----------
    name
        Of the epilogue.
    typed, signature
        What to compute, on which dtypes and loops.

    Attributes
    ----------
    halves
        Whether matrix instructions can multiply the factors: both are float16 or both
        bfloat16, as they are stored.
    """

    def __init__(self, name: str, typed: TypedContract, signature: Signature) -> None:
        super().__init__(name, typed, signature)
        left, right = (o.dtype for o in self.factors)
        self.halves = (left == right and left in HALVES
                       and typed.prologues == (None, None))

    def kernel(self, tile: Tile, *, matrix: bool = False) -> Kernel:
        """The text and parameters of one kernel; `matrix`: by matrix instructions."""
        skeleton = "matrix" if matrix else "contract"
        size = f"{tile.m}x{tile.n}"
        out = Source(kernel_name(self.name, size, *(["matrix"]*matrix)), skeleton)
        for o in self.operands:
            out.pointer(o.dtype)
        loops = sum(self.ranks)
        out.integers(loops*(1 + len(self.operands)))
        with out.block("struct F", "};"):
            self._constants(out)
            for o, side in zip(self.factors, ("left", "right"), strict=True):
                self._factor(out, o, side)
            self._finish(out)
        return out.kernel(tile.threads, f"nbf::{skeleton}<F, {tile.text}>(w)")

    def _constants(self, out: Source) -> None:
        batch, m, n, k = self.ranks
        left, right = (o.code for o in self.factors)
        kept = ctype(self.kept)
        out(f"using Sum = {kept};", f"using Element = {kept};",
            f"static constexpr int batch = {batch}, m = {m}, n = {n}, k = {k}, "
            f"operands = {len(self.operands)};")
        for name, true in (("logical", self.typed.accumulator.kind == "b"),
                           ("brain", self.factors[0].dtype == BFLOAT16),
                           ("along_left", left[1] == "1"),
                           ("along_right", right[0] == "1")):
            out(f"static constexpr bool {name} = {str(true).lower()};")

    def _factor(self, out: Source, o: Operand, side: str) -> None:
        """An element after its prologue, as sums are kept."""
        prologue, dtype = self.typed.prologues[o.at], o.dtype
        with out.block(f"template <class W> NBF_DEVICE {ctype(self.kept)} {side}("
                       "const W &w, int64_t at)"):
            text = decode(dtype, _element(o))
            if prologue is not None:
                param, = prologue.function.params
                lines, (text,) = evaluate(prologue, {param: text}, "v_")
                out(*lines)
                dtype = prologue.results[0]
            out(f"return {cast(compute_dtype(dtype), self.kept, text)};")

    def _finish(self, out: Source) -> None:
        """The epilogue: from a sum and the extras to the outputs."""
        epilogue = self.typed.epilogue
        with out.block("template <class W> NBF_DEVICE void finish(const W &w, "
                       "[[maybe_unused]] Sum sum, const int64_t *at)"):
            lines, names = evaluate(epilogue, self._arguments(out), "v_")
            out(*lines)
            for o, dtype, name in zip(self.outputs, epilogue.results, names,
                                      strict=True):
                out(f"{_element(o, written=True)} = {encoded(dtype, o.dtype, name)};")

    def _arguments(self, out: Source) -> dict[str, object]:
        """Texts that stand for the parameters of the epilogue."""
        typed, extras = self.typed.epilogue, iter(self.extras)
        first, *params = typed.function.params
        found: dict[str, object] = {
            first: cast(self.kept, typed.dtypes.get(first, self.kept), "sum")}
        for param, kind in zip(params, self.typed.kinds, strict=True):
            if kind == "scalar":
                found[param] = out.scalar(typed.dtypes[param])
            else:
                o = next(extras)
                found[param] = decode(o.dtype, _element(o))
        return found


def _element(o: Operand, *, written: bool = False) -> str:
    """The element of an operand at its offset; factors have one each, as `at`."""
    kind = ("" if written else "const ") + storage_type(o.dtype)
    offset = f"at[{o.at - 2}]" if o.at > 1 else "at"
    return f"w.template pointer<{kind}>({o.at})[{offset}]"
