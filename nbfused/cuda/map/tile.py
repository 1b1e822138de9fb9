"""Map on CUDA where an input lies across the output: tiles through shared memory.

Neighbouring threads read neighbours of such an input in one order and use them in the
other, so that every access of global memory is of whole lines: ``x.T + y``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from ...backend import Call, Signature
from ...gpu.operands import Operand
from ...specs import TypedMap
from ...support.records import record
from ..text.source import Source, affordable
from ..text.states import storage_name
from .text import MapText

__all__ = ["Across", "TileText", "lying_across"]

#: Elements along both sides of a tile; the smaller one where a tile takes more bytes.
TILES = (64, 32)
SMALL_BYTES = 24 << 10
#: Bytes of shared memory for the tiles of a block.
MOST_BYTES = 48 << 10
#: Elements that a thread evaluates together.
TOGETHER = 8
#: Extents below this leave most of a tile empty.
LEAST = 16
#: Bytes, of the elements from one loop to the other, that the first cache holds until
#: their lines are used up; those up to which that beats tiles which are emptier than a
#: share, of 16 bits and of more:
#: benchmarks/notes/memory.md#inputs-that-lie-across-the-output.
CACHED, HELD, FILLED = 16 << 10, 32 << 10, (0.95, 0.56)


@record(frozen=True)
class Across:
    """Two loops of a Map that run across one another.

    Attributes
    ----------
    inner
        The results are contiguous in it.
    outer
        The inputs `tiled` are contiguous in it.
    straight
        Other operands, the results among them, that are contiguous in `inner` and are
        accessed two elements at a time (`map_tile_pairs`); empty: one at a time.
    narrow
        Whether smaller tiles have fewer elements outside of the shorter loop.
    """

    inner: int
    outer: int
    tiled: tuple[int, ...]
    straight: tuple[int, ...] = ()
    narrow: bool = False


def lying_across(text: MapText, call: Call) -> Across | None:
    """The loops and inputs for which tiles help; None if there are none."""
    results = [call.strides[o.at] for o in text.results]
    if len(call.shape) < 2 or not results or "scatter" in text.typed.kinds:
        return None
    long = [k for k, extent in enumerate(call.shape) if extent >= LEAST]
    for inner in long:
        if any(strides[inner] != 1 for strides in results):
            continue
        candidates = [o for o in text.loaded_operands
                      if abs(call.strides[o.at][inner]) > 1]
        for outer in long:
            found = [o for o in candidates if call.strides[o.at][outer] == 1]
            if found:
                narrow = _is_narrow(min(call.shape[inner], call.shape[outer]))
                return None if _is_cached(call, inner, outer, found, narrow=narrow) \
                    else Across(inner, outer, _that_fit(found), narrow=narrow)
    return None


def _is_cached(call: Call, inner: int, outer: int, across: Sequence[Operand], *,
               narrow: bool) -> bool:
    """Whether lines stay in the first cache from one of their elements to the next."""
    first, last = sorted((inner, outer))
    held = prod(call.shape[first:last + 1])*sum(o.dtype.itemsize for o in across)
    ends = call.shape[inner], call.shape[outer]
    filled = prod(ends)/prod(-(-extent // TILES[0])*TILES[0] for extent in ends)
    share = FILLED[max(o.dtype.itemsize for o in across) > 2]
    return held < CACHED or (held <= HELD and (narrow or filled < share))


def _is_narrow(extent: int) -> bool:
    """Whether large tiles are twice as empty as small ones along an extent."""
    large, small = TILES
    return extent < 2*large and -extent % large > 2*(-extent % small)


def _that_fit(operands: Sequence[Operand]) -> tuple[int, ...]:
    """The first of them, as many as shared memory can take."""
    total, chosen = 0, []
    for o in operands:
        total += _bytes(o, TILES[-1])
        if total <= MOST_BYTES:
            chosen.append(o.at)
    return tuple(chosen)


def _bytes(operand: Operand, side: int) -> int:
    return side*(side + 1)*operand.dtype.itemsize


class TileText(MapText):
    """Writes the kernel of a Map with inputs that lie across.

    Parameters
    ----------
    name, typed, signature, threads
        As for `MapText`.
    across
        What `lying_across` found.
    """

    def __init__(self, name: str, typed: TypedMap, signature: Signature, *,
                 across: Across, threads: int) -> None:
        super().__init__(name, typed, signature, vector=False, threads=threads)
        self.inner, self.outer = across.inner, across.outer
        self.tiled = [o for o in self.inputs if o.at in across.tiled]
        self.straight = across.straight or tuple(o.at for o in self.results)
        small = sum(_bytes(o, TILES[0]) for o in self.tiled) <= SMALL_BYTES
        small = small and not across.narrow
        self.side = min(TILES[0] if small else TILES[1], threads)
        self.below = threads // self.side  # rows that the threads of a block take
        most = min(TOGETHER, self.side // self.below)
        self.together = affordable(typed.function, most)
        self.name = self.name.replace("general", "tile")

    def blocks(self, shape: Sequence[int]) -> int:
        """Number of blocks: one for each tile."""
        count = 1
        for loop, extent in enumerate(shape):
            tiled = loop in (self.inner, self.outer)
            count *= -(-extent // self.side) if tiled else extent
        return count

    def _body(self, out: Source) -> None:
        side = self.side
        self._place(out)
        out("thread = i64(cuda.threadIdx.x)", f"along = thread & {side - 1}",
            f"row = divide(thread, i64({side}))")
        for o in self.tiled:
            out(f"t{o.at} = cuda.shared.array({side*(side + 1)}, "
                f"{storage_name(o.dtype)})")
        out(f"whole = across + {side} <= n{self.outer} and "
            f"begin + {side} <= n{self.inner}",
            f"last{self.outer} = n{self.outer} - across - 1",
            f"last{self.inner} = n{self.inner} - begin - 1")
        self._fetch(out)
        out("cuda.syncthreads()", "r = row")
        with out.block("if whole:"), out.block(f"while r < {side}:"):
            self._elements(out, self.together)
        with out.block(f"elif begin + along < n{self.inner}:"), \
                out.block(f"while r < {side} and r <= last{self.outer}:"):
            self._elements(out, self.together, inside=f"last{self.outer}")

    def _place(self, out: Source) -> None:
        """The tile of this block, and where it begins in each operand."""
        out("rest = i64(cuda.blockIdx.x)")
        for name, loop in (("begin", self.inner), ("across", self.outer)):
            out(f"tiles = divide({self.extents[loop]} + {self.side - 1}, "
                f"i64({self.side}))",
                "above = divide(rest, tiles)",
                f"{name} = (rest - above*tiles)*{self.side}", "rest = above")
        self.places = {self.outer: "across", self.inner: "begin"}
        for loop in reversed(range(len(self.extents))):
            if loop not in self.places:
                out(f"above = divide(rest, {self.extents[loop]})",
                    f"c{loop} = rest - above*{self.extents[loop]}", "rest = above")
                self.places[loop] = f"c{loop}"
        for o in self.looped:
            out(f"base{o.at} = {self._sum(o, self.places)}")

    def _sum(self, o: Operand, places: Mapping[int, str]) -> str:
        """The offset of an operand's element from where these loops are all 0."""
        terms = []
        for loop, place in places.items():
            stride = o.code if loop == len(self.extents) - 1 else "s"
            if o in self.tiled:
                unit = loop == self.outer
            else:
                unit = loop == self.inner and o.at in self.straight
            if unit:
                stride = "1"
            if stride != "0":
                terms.append(place if stride == "1" else f"{place}*{o.stride(loop)}")
        return " + ".join(terms) or "i64(0)"

    def _fetch(self, out: Source) -> None:
        """The tiles of inputs that lie across, each line of them as it lies.

        At an edge the last element is read in place of those outside, so that all loads
        are under way together there too.
        """
        side, pitch = self.side, self.side + 1
        rows = [f"row + {k*self.below}" for k in range(side // self.below)]

        def at(o: Operand, r: str, column: str) -> str:
            places = {self.outer: column, self.inner: f"({r})"}
            return f"{o.pointer}[base{o.at} + {self._sum(o, places)}]"

        with out.block("if whole:"):
            for o in self.tiled:
                out(*(f"v{o.at}_{k} = {at(o, r, 'along')}"
                      for k, r in enumerate(rows)))
        with out.block("else:"):
            out(f"column = min(along, last{self.outer})")
            for o in self.tiled:
                out(*(f"v{o.at}_{k} = {at(o, f'min({r}, last{self.inner})', 'column')}"
                      for k, r in enumerate(rows)))
        for o in self.tiled:
            out(*(f"t{o.at}[({r})*{pitch} + along] = v{o.at}_{k}"
                  for k, r in enumerate(rows)))

    def _elements(self, out: Source, count: int, inside: str = "") -> None:
        """Evaluate and store `count` elements below one another.

        Those below row `inside`, if that is given, are not stored; the row's own are
        read in their place.
        """
        below = [f"(r + {k*self.below})" for k in range(count)]
        rows = [f"min({r}, {inside})" for r in below] if inside else below
        prefix = "i" if inside else "e"
        elements = []
        for k, r in enumerate(rows):
            loads = {}
            for param, o in self.loaded:
                loads[param] = f"x{o.at}_{prefix}{k}"
                source = f"t{o.at}[along*{self.side + 1} + {r}]" if o in self.tiled \
                    else f"{o.pointer}[{self._at(o, r)}]"
                out(f"{loads[param]} = {source}")
            elements.append((loads, self._index(r)))
        for r, values in zip(below, self._evaluate(out, elements, prefix), strict=True):
            stores = [f"{o.pointer}[{self._at(o, r)}] = {text}"
                      for o, text in zip(self.results, values, strict=True)]
            if not inside:
                out(*stores)
                continue
            with out.block(f"if {r} <= {inside}:"):
                out(*stores)
        out(f"r += {count*self.below}")

    def _at(self, o: Operand, r: str) -> str:
        places = {self.outer: r, self.inner: "along"}
        return f"base{o.at} + {self._sum(o, places)}"

    def _index(self, r: str) -> str:
        """The flat index of an element of this thread's column."""
        return self._flat(r, "along")

    def _flat(self, line: str, column: str) -> str:
        """The flat index of an element of the tile, in C order of the loops."""
        offset = {self.outer: f" + {line}", self.inner: f" + {column}"}
        text = "i64(0)"
        for loop, extent in enumerate(self.extents):
            text = f"({text})*{extent} + {self.places[loop]}{offset.get(loop, '')}"
        return f"({text})"
