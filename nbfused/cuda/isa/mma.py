"""Products of fragments for kernel text: ``fma``, ``ldmatrix`` and ``mma.sync``.

What a thread carries from step to step is one tuple: its sums, then the fragments of A
and B that come next.  A fragment is loaded one step before it is multiplied, across the
barrier between two tiles too.  Addresses of shared memory are integers.  The PTX
manual's sections are named by the instructions.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

from ...support.records import record
from .engines import ENGINES, Engine
from .inline_ptx import (
    MEMORY,
    are_literals,
    asm,
    instruction,
    parts_of,
    several,
    tuple_of,
)

__all__ = ["mma_namespace"]

_I32 = ir.IntType(32)
_F32, _F64 = ir.FloatType(), ir.DoubleType()


# --- fragments


@record(frozen=True)
class _Tiles:
    """Places of one factor's fragments, from a thread's own address on."""

    engine: Engine
    right: bool
    count: int
    pitch: int
    inner: bool

    def offset(self, unit: int, step: int) -> int:
        """Bytes to a unit's part of a step along k."""
        e = self.engine
        rows, ks = unit*(e.columns if self.right else e.rows), step*e.step
        return rows*self.pitch + ks*e.item if self.inner else \
            ks*self.pitch + rows*e.item

    def load(self, builder: Any, address: Any, step: int) -> list[Any]:
        """All fragments of a step."""
        read = {"fma": self._four, "f64": self._doubles, "f64h": self._doubles,
                "tf32": self._rounded}.get(self.engine.name, self._matrices)
        return [value for unit in range(self.count)
                for value in read(builder, address, self.offset(unit, step))]

    @staticmethod
    def _four(builder: Any, address: Any, at: int) -> list[Any]:
        """``ld.shared.v4``: four neighbouring rows of A or columns of B."""
        return several(builder, _F32, 4, "ld.shared.v4.f32 {$0, $1, $2, $3}, "
                        f"[$4+{at}];", f"r,{MEMORY}", address)

    def _doubles(self, builder: Any, address: Any, at: int) -> list[Any]:
        """Float64 one by one: every fourth along k, of these every eighth row of A."""
        engine, item = self.engine, self.engine.item
        along, own = (item, self.pitch) if self.inner else (self.pitch, item)
        rows = range(0, engine.columns if self.right else engine.rows, 8)
        return [x for k in range(0, engine.step, 4) for row in rows
                for x in several(builder, _F64, 1, "ld.shared.f64 $0, "
                                 f"[$1+{at + k*along + row*own}];", f"r,{MEMORY}",
                                 address)]

    def _matrices(self, builder: Any, address: Any, at: int) -> list[Any]:
        """``ldmatrix``: four matrices of 8 rows of 16 bytes."""
        transposed = "" if self.inner else ".trans"
        words = several(
            builder, _I32, 4, f"ldmatrix.sync.aligned.m8n8.x4{transposed}.shared.b16 "
            f"{{$0, $1, $2, $3}}, [$4+{at}];", f"r,{MEMORY}", address)
        return [builder.bitcast(w, _F32) for w in words]

    def _rounded(self, builder: Any, address: Any, at: int) -> list[Any]:
        """Four float32, rounded to nearest: ``mma`` would cut their ends off.

        ``ldmatrix`` moves pairs of 16 bits, so it can only transpose those.
        """
        if self.inner:
            found = self._matrices(builder, address, at)
        else:
            # A: rows 0 and 8, then k + 4; B: k and k + 4, then columns 8.
            places = ((0, 0), (0, 8), (4, 0), (4, 8))
            found = [several(builder, _F32, 1, "ld.shared.f32 $0, "
                              f"[$1+{at + k*self.pitch + 4*x}];", f"r,{MEMORY}",
                              address)[0] for k, x in places]
            if self.right:
                found = [found[k] for k in (0, 2, 1, 3)]
        return [builder.bitcast(asm(builder, _I32, "cvt.rna.tf32.f32 $0, $1;", "=r,f",
                                    x), _F32) for x in found]


_MMA = {
    "f16": "m16n8k16.row.col.f32.f16.f16.f32",
    "bf16": "m16n8k16.row.col.f32.bf16.bf16.f32",
    "tf32": "m16n8k8.row.col.f32.tf32.tf32.f32",
}


def _pair(builder: Any, engine: Engine, sums: list[Any], a: list[Any],
          b: list[Any]) -> list[Any]:
    """The sums of a unit of A and one of B after a step, on tensor cores."""
    if engine.kept == "float64":
        given = [*a, *b, *sums]
        names = iter(f"${k}" for k in range(len(sums) + len(given)))
        groups = ", ".join(f"{{{', '.join(next(names) for _ in group)}}}"
                           for group in (sums, a, b, sums))
        shape = f"m{engine.rows}n{engine.columns}k{engine.step}"
        return several(
            builder, _F64, len(sums), f"mma.sync.aligned.{shape}.row.col.f64.f64.f64"
            f".f64 {groups};", ",".join("d"*len(given)), *given)
    found = []
    words = [builder.bitcast(x, _I32) for x in a]
    for half in (0, 1):
        found += several(
            builder, _F32, 4, f"mma.sync.aligned.{_MMA[engine.name]} "
            "{$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};",
            "r,r,r,r,r,r,f,f,f,f", *words,
            *(builder.bitcast(x, _I32) for x in b[2*half:2*half + 2]),
            *sums[4*half:4*half + 4])
    return found


@record
class _State:
    """A thread's sums and fragments, taken apart."""

    engine: Engine
    down: int
    across: int
    values: list[Any]

    @classmethod
    def of(cls, builder: Any, engine: Engine, packed: Any, down: int,
           across: int) -> _State:
        """Take the tuple apart."""
        return cls(engine, down, across, parts_of(builder, packed))

    def multiply(self, builder: Any) -> list[Any]:
        """The sums after the fragments that are there."""
        e, found = self.engine, []
        first = self.down*self.across*e.sums
        right = first + self.down*e.left
        if e.name == "fma":
            return self._row_by_row(builder, self.values[first:right],
                                    self.values[right:])
        for i in range(self.down):
            a = self.values[first + i*e.left:first + (i + 1)*e.left]
            for j in range(self.across):
                b = self.values[right + j*e.right:right + (j + 1)*e.right]
                at = (i*self.across + j)*e.sums
                found += _pair(builder, e, self.values[at:at + e.sums], a, b)
        return found

    def _row_by_row(self, builder: Any, a: list[Any], b: list[Any]) -> list[Any]:
        """``fma``, along the rows of all units there and back.

        Of the orders that were timed the best: ptxas assigns registers by it.
        """
        found = self.values[:len(a)*len(b)]
        for r, left in enumerate(a):
            columns = range(len(b)) if r % 2 == 0 else range(len(b) - 1, -1, -1)
            for c in columns:
                at = (r//4*self.across + c//4)*16 + r % 4*4 + c % 4
                found[at] = builder.fma(left, b[c], found[at])
        return found


def _count(engine: Engine, down: int, across: int) -> int:
    return down*across*engine.sums + down*engine.left + across*engine.right


def _kind(engine: Engine) -> Any:
    return types.float64 if engine.kept == "float64" else types.float32


def _zeros(engine: Engine) -> Any:
    @intrinsic
    def zeros(typing: Any, down: Any, across: Any) -> Any:
        """Sums and fragments before the first tile."""
        if not are_literals(down, across):
            return None
        count = _count(engine, down.literal_value, across.literal_value)

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            kind = _F64 if engine.kept == "float64" else _F32
            return ir.Constant(ir.ArrayType(kind, count), [kind(0.0)]*count)

        return types.UniTuple(_kind(engine), count)(down, across), codegen

    return zeros


def _advance(engine: Engine, part: str) -> Any:
    """``first``: load; ``most``: all steps of a tile but the last; ``last``: that one.

    ``last`` takes the addresses of the next tile, and loads its first fragments.
    """

    @intrinsic
    def advance(typing: Any, state: Any, left: Any, right: Any, down: Any, across: Any,
                steps: Any, pitch_a: Any, inner_a: Any, pitch_b: Any,
                inner_b: Any) -> Any:
        geometry = (down, across, steps, pitch_a, inner_a, pitch_b, inner_b)
        if not are_literals(*geometry):
            return None
        i, j, count, pa, ia, pb, ib = (g.literal_value for g in geometry)
        tiles = (_Tiles(engine, False, i, pa, bool(ia)),
                 _Tiles(engine, True, j, pb, bool(ib)))

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            present = _State.of(builder, engine, values[0], i, j)
            addresses = [builder.trunc(v, _I32) for v in values[1:3]]
            sums = i*j*engine.sums
            steps = range(1, count) if part == "most" else (0,)
            for step in steps:
                loaded = [x for t, a in zip(tiles, addresses, strict=True)
                          for x in t.load(builder, a, step)]
                done = present.values[:sums] if part == "first" else \
                    present.multiply(builder)
                present.values = [*done, *loaded]
            return tuple_of(builder, present.values)

        return state(state, types.int64, types.int64, *geometry), codegen

    return advance


# --- from sums to rows


def _keep(engine: Engine) -> Any:
    """``st.shared``: the sums of one unit of rows, as rows."""

    @intrinsic
    def keep(typing: Any, state: Any, address: Any, part: Any, down: Any, across: Any,
             pitch: Any) -> Any:
        given = (part, down, across, pitch)
        if not are_literals(*given):
            return None
        which, i, j, row = (g.literal_value for g in given)

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            sums = _State.of(builder, engine, values[0], i, j).values
            base = builder.trunc(values[1], _I32)
            for unit in range(j):
                first = (which*j + unit)*engine.sums
                for at, (low, high) in _places(engine, unit, row):
                    _store(builder, engine, base, at, sums[first + low:first + high])
            return context.get_dummy_value()

        return types.void(state, types.int64, *given), codegen

    return keep


def _places(engine: Engine, unit: int, row: int) -> list[tuple[int, tuple[int, int]]]:
    """Bytes from a thread's own address, and which sums of a unit go there."""
    if engine.name == "fma":
        # One by one: sums that were stored together would lie in the banks of registers
        # that columns of B do, from which a multiply-add would read two or three.
        return [(r*row + unit*64 + 4*c, (4*r + c, 4*r + c + 1))
                for r in range(4) for c in range(4)]
    if engine.kept == "float64":
        return [(unit*64 + low*8*row, (2*low, 2*low + 2))
                for low in range(engine.rows//8)]
    if engine.name == "tf32a":
        return [(j*32 + low*8*row, (4*j + 2*low, 4*j + 2*low + 2))
                for j in range(32) for low in (0, 1)]
    if engine.name == "tf32b":  # 64 rows of the result are columns of the fragment
        return [((8*j + e)*row + low*32, (4*j + 2*low + e, 4*j + 2*low + e + 1))
                for j in range(8) for low in (0, 1) for e in (0, 1)]
    return [(unit*64 + half*32 + low*8*row, (4*half + 2*low, 4*half + 2*low + 2))
            for half in (0, 1) for low in (0, 1)]


def _store(builder: Any, engine: Engine, base: Any, at: int,
           values: list[Any]) -> None:
    count, wide = len(values), engine.kept == "float64"
    names = ", ".join(f"${k + 1}" for k in range(count))
    vector = f".v{count}" if count > 1 else ""
    # ptxas would put those of `fma` together again.
    alone = ".volatile" if engine.name == "fma" else ""
    asm(builder, ir.VoidType(), f"st{alone}.shared{vector}."
        f"{'f64' if wide else 'f32'} [$0+{at}], {{{names}}};",
        ",".join(["r", *["d" if wide else "f"]*count, MEMORY]), base, *values,
        effect=True)


def _kept(kind: str, width: int) -> Any:
    """``ld.shared``: neighbouring sums."""
    wide = kind == "float64"
    element = _F64 if wide else _F32
    result = types.UniTuple(getattr(types, kind), width)

    @intrinsic
    def kept(typing: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            base, found = builder.trunc(values[0], _I32), []
            size = min(width, 16//(8 if wide else 4))
            names = ", ".join(f"${k}" for k in range(size))
            vector = f".v{size}" if size > 1 else ""
            for k in range(0, width, size):
                found += several(
                    builder, element, size,
                    f"ld.shared{vector}.{'f64' if wide else 'f32'} {{{names}}}, "
                    f"[${size}+{k*(8 if wide else 4)}];", f"r,{MEMORY}", base)
            return tuple_of(builder, found)

        return result(types.int64), codegen

    return kept


def mma_namespace() -> dict[str, Any]:
    """The names that kernel text for sm_80 and later may use."""
    found: dict[str, Any] = {f"kept_{kind}_{width}": _kept(kind, width)
                             for kind, widths in (("float32", (1, 4, 8)),
                                                  ("float64", (1, 2, 4, 8)))
                             for width in widths}
    # What the warp's lanes wrote to shared memory is there.
    found["warp_sync"] = instruction("warp_sync", "bar.warp.sync -1;")
    for name, engine in ENGINES.items():
        found[f"{name}_zeros"], found[f"{name}_keep"] = _zeros(engine), _keep(engine)
        if engine.by_descriptor:
            continue
        for part in ("first", "most", "last"):
            found[f"{name}_{part}"] = _advance(engine, part)
    return found
