"""Contract on CUDA: a ladder of kernels, by compute capability and layout.

From the top, fed by TMA (sm_90a): tensor cores (`wgmma` for 16-bit floats,
`tf32` for float32 that may be rounded) and multiply-adds (`f32`); fed
by ``cp.async`` (sm_80): tensor cores or multiply-adds (`mma`); and tiles
through registers that are right at every dtype, shape and stride (`general`).
Each has a text, under its name, and a launcher, which says what calls it takes.  Where
only the layout of a large factor stands in the way, or its prologue, it is packed first
(`pack`).  Short rows of a tall factor are read as they lie (`tall`); long sums of few
products are `split`.  Sums are kept in float32 for 16-bit
floats and float32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from ...backend import Call, Launcher, Signature, Start
from ...specs import Contract, TypedContract
from ..map.repeats import Repeats
from ..runtime.binding import Bindable
from ..runtime.driver import Device, device
from .calls import engine_of
from .f32.launch import F32Launcher
from .general.launch import GeneralLauncher, cycles_of, tile_for
from .mma_launch import MmaLauncher
from .pack import PackLauncher
from .sums.parts import ENGINES, LONG, Parts, parts_of, unsplit_cycles
from .tall import TallLauncher
from .text import ContractText
from .tf32_launch import Tf32Launcher
from .wgmma.launch import WgmmaLauncher

if TYPE_CHECKING:
    from .sums.split import SplitLauncher
    from .sums.vectors import VectorLauncher

__all__ = ["ContractLauncher", "build_contract"]

Rung = Callable[[Call, Device], None]

#: Extents along k, and rows or columns, up to which a product is narrow; and its other
#: extent, at least, where sums are longer: benchmarks/notes/products.md#narrow.
SHALLOW, NARROW, TALL = 8, 16, 1 << 15
#: Extents along k up to which registers are no slower a way than narrow copies, and
#: cycles that a tile waits for copies at each step along k:
#: benchmarks/notes/products.md#few-results.
UNEVEN, WAITING = 16, 24
#: Bytes that a device moves in a cycle where factors are packed and multiplied, and
#: cycles of a launch more: benchmarks/notes/products.md#rows-that-begin-anywhere.
MOVED, LAUNCH = 1700, 5000
#: Steps along k that a tile's beginning and end take in float32, in the same record.
ENDS = 100
#: Multiply-adds, without and with tensor cores, from which rows, columns or products
#: that are the same are worth a copy instead: as
#: benchmarks/notes/memory.md#inputs-that-repeat.
REPEATS = 1 << 28, 1 << 33
#: What multiplies packed factors, by their bytes.
_PACKED = {2: "f16", 4: "fma", 8: "f64"}


class _Rungs:
    """The launchers that take some calls, the fastest first.

    Parameters
    ----------
    text
        Operands, loops and functions.
    padded
        Whether the factors were packed.
    """

    def __init__(self, text: ContractText, *, padded: bool = False) -> None:
        tma = WgmmaLauncher(text), Tf32Launcher(text), F32Launcher(text)
        self._tma = [rung for rung in tma if rung.possible]
        self._mma = MmaLauncher(text, padded=padded)

    def tma(self, call: Call, where: Device) -> Rung | None:
        """The one for sm_90a that takes the call, if there is one."""
        for rung in self._tma:
            if rung.takes(call, where):
                return rung
        return None

    def mma(self, call: Call, where: Device) -> MmaLauncher | None:
        """The one for sm_80 and later, if it takes the call."""
        return self._mma if self._mma.takes(call, where) else None

    def cycles(self, call: Call, where: Device) -> float:
        """Cycles of the one for sm_80, roughly."""
        return self._mma.cycles(call, where)

    def wide(self, call: Call, where: Device) -> bool:
        """Whether whole accesses bring the factors to the one for sm_80."""
        return self._mma.takes(call, where) and self._mma.wide(call, where)


class ContractLauncher:
    """Chooses the kernel by the device, and by the call's layout and extents.

    Parameters
    ----------
    name
        Of the epilogue.
    typed, signature
        What to compute, on which dtypes and loops.
    """

    def __init__(self, name: str, typed: TypedContract, signature: Signature) -> None:
        text = ContractText(name, typed, _one_loop_of_rows(signature))
        self._name, self._rungs, self._pack = name, _Rungs(text), PackLauncher(text)
        self._loose = MmaLauncher(text, loose=True)
        self._packed: dict[Signature, _Rungs] = {}
        self._general = GeneralLauncher(ContractText(name, typed, signature))
        self._tall = TallLauncher(text)
        self._text, self._item = text, text.kept.itemsize
        self._could_split = (
            text.ranks[1:] == (1, 1, 1) and typed.accumulator.kind == "f"
            and set(typed.kinds) <= {"element", "scalar"})
        engine = engine_of(text)
        #: Whether tensor cores multiply.
        self.tensor = engine is not None and engine.name in ("f16", "bf16", "tf32")

    def __call__(self, call: Call) -> None:
        """Launch on the call's stream."""
        where = device(call.device)
        narrow = self._narrow(call)
        rung = None if narrow and not self.tensor else self._rungs.tma(call, where)
        if self._tall.takes(call, self.tensor and rung is not None):
            return self._tall(call, where)
        if self._vectors.takes(call) and not (rung and self.tensor):
            return self._vectors(call, where)
        if self._could_split and self._few(rung, call, where):
            return self._general(call, where)
        if self._could_split:
            parts = None if rung else self._copied(call, where)
            if parts is None:
                parts = parts_of(call.shape, self._engine(rung, call, where),
                                 where.processors)
            if parts is not None:
                return self._split(call, where, parts)
        if rung is None and not self._uneven(call, where):
            if self._pack.worthwhile(call):
                sooner = self._sooner(call, where)
                if sooner is not None:
                    return sooner(call, where)
                multiply = self._after_packing(call, where)
                if multiply is not None:
                    return self._pack(call, where, multiply)
            if not narrow:
                rung = self._rungs.mma(call, where)
        return (rung or self._general)(call, where)

    def bind(self, call: Call) -> Start | None:
        """Decide now for all calls like `call`, where one plain kernel multiplies.

        Choosing takes several times what starting a kernel does.  What TMA brings is
        described with its addresses, for each call.
        """
        tma = self._rungs.tma(call, device(call.device)) is not None
        if tma and not self._tall.takes(call, self.tensor):
            return None
        return Bindable(self).bind(call)

    def _narrow(self, call: Call) -> bool:
        """Whether tiles of multiply-adds through registers waste less.

        Tensor cores have more to waste.
        """
        *_, m, n, k = call.shape
        thin = min(m, n) <= NARROW and max(m, n) >= TALL
        return k <= SHALLOW or (thin and not self.tensor)

    def _uneven(self, call: Call, where: Device) -> bool:
        """Whether sums are short, and rows of a factor no whole accesses."""
        return call.shape[-1] <= UNEVEN and not self._rungs.wide(call, where)

    def _few(self, rung: Rung | None, call: Call, where: Device) -> bool:
        """Whether results are so few that groups of threads share their sums."""
        general = self._general.extents(call), self._item, where.processors
        tile = tile_for(*general)
        if tile.groups == 1:
            return False
        other = call.shape, self._engine(rung, call, where), where.processors
        cycles = unsplit_cycles(*other)
        packed = rung is None and self._pack.worthwhile(call)
        if other[1] == "fma" and not packed and self._rungs.mma(call, where):
            cycles = self._rungs.cycles(call, where)
        if rung is None and not packed:
            cycles = max(cycles, WAITING*call.shape[-1])
        if parts_of(*other) is not None:
            cycles = min(cycles, LONG)
        elif packed:
            cycles += LONG/2  # a launch more
        return cycles_of(*general, tile) < cycles

    def _sooner(self, call: Call, where: Device) -> Rung | None:
        """The rung for factors as they lie, if that is sooner than to pack them."""
        if self._text.typed.precision == "tf32":
            return None
        rungs = [r for r in (self._rungs.mma(call, where), self._loose)
                 if r and r.takes(call, where)]
        if rungs and rungs[0].cycles(call, where) < self._packing(call, where):
            return rungs[0]
        return None

    def _copied(self, call: Call, where: Device) -> Parts | None:
        """Parts whose 16-bit factors come by narrow copies, if that is sooner."""
        narrow = self._rungs.mma(call, where) and not self._rungs.wide(call, where)
        if not narrow or self._text.factors[0].dtype.itemsize > 2:
            return None
        *batch, m, n, k = call.shape
        result = *batch, *sorted((m, n))
        engine = "thin" if min(m, n) <= ENGINES["thin"].large[0] else "copied"
        parts = parts_of((*result, k), engine, where.processors)
        if parts is None:
            return None
        cycles = unsplit_cycles((parts.slots, *result, parts.size), engine,
                                where.processors)
        return parts if cycles + LONG/2 < self._packing(call, where) else None

    def _packing(self, call: Call, where: Device) -> float:
        """Cycles of a product whose factors are packed, roughly.

        With tensor cores those that factors and results are moved in.
        """
        cycles = 3*self._pack.bytes(call)/MOVED + LAUNCH
        if self.tensor:
            item = self._text.factors[0].dtype.itemsize
            return cycles + prod(call.shape[:-1])*item/MOVED
        *result, k = call.shape
        return cycles + unsplit_cycles((*result, k + ENDS), "f32", where.processors)

    def _engine(self, rung: Rung | None, call: Call, where: Device) -> str:
        """Name what would multiply a call that is not split."""
        engine = engine_of(self._text)
        if engine and (rung or self._rungs.mma(call, where)):
            packed = not (rung or self.tensor) and self._pack.worthwhile(call) and \
                self._sooner(call, where) is None
            return "f32" if packed or isinstance(rung, F32Launcher) else engine.name
        item = self._text.factors[0].dtype.itemsize
        return _PACKED.get(item, "general") if self._pack.worthwhile(call) else \
            "general"

    @cached_property
    def _vectors(self) -> VectorLauncher:
        from .sums.vectors import (
            VectorLauncher,  # with Reduce and Map, which takes time
        )

        return VectorLauncher(self._text)

    @cached_property
    def _split(self) -> SplitLauncher:
        from .sums.split import SplitLauncher  # with Reduce, which takes time

        return SplitLauncher(self._text, ContractLauncher)

    def _after_packing(self, call: Call, where: Device) -> Rung | None:
        """The launcher that would take the packed call."""
        typed, signature = self._pack.product(call)
        rungs = self._packed.get(signature)
        if rungs is None:
            text = ContractText(self._name, typed, signature)
            rungs = self._packed[signature] = _Rungs(text, padded=True)
        packed = self._pack.packed(call, 0)
        return rungs.tma(packed, where) or rungs.mma(packed, where)


def _one_loop_of_rows(signature: Signature) -> Signature:
    """Further loops over rows as loops over a batch: in memory they are not one.

    The order of the loops stays the same.  B does not vary along them, which a batch
    allows.
    """
    batch, rows, *others = signature.ranks
    if rows < 2:
        return signature
    return signature._replace(ranks=(batch + rows - 1, 1, *others))


def build_contract(spec: Contract, signature: Signature) -> Launcher:
    """A launcher for `spec`; kernels are compiled when first needed."""
    launcher = ContractLauncher(
        spec.name, spec.typed(signature.inputs, signature.outputs), signature)
    return Repeats(launcher, signature, sum(signature.ranks[:3]),
                   REPEATS[launcher.tensor], 2)
