"""Map where inputs of 16-bit elements lie across the output: two elements at once.

One element of 16 bits a thread leaves half of every access idle.  Here a thread brings
two that are neighbours in memory as one word of shared memory, and takes two words that
are neighbours in the output: four elements, two of each of two lines of the output.
"""

from __future__ import annotations

from dataclasses import replace

from ...backend import Call
from ...gpu.operands import Operand
from ...support.dtypes import storage
from ..text.source import Source, affordable
from .text import MapText
from .tile import Across, TileText

__all__ = ["PairTileText", "in_pairs"]

#: Elements along both sides of a tile, pairs, and words from line to line of it: an odd
#: number, so that lanes below one another meet different banks.
SIDE, PAIRS, PITCH = 64, 32, 33
#: Words of every other line of a tile: even lines come before odd ones.
HALF = PAIRS*PITCH
#: Inputs whose tiles a block takes.
MOST = 2
#: Elements that a thread evaluates, all printed.
COUNT = 16
#: Tiles along both sides from which those at the edge, done singly, do not count.
LEAST = 4


def in_pairs(text: MapText, call: Call, across: Across) -> Across:
    """With the operands that are accessed in pairs along `inner`, if they can be."""
    tiled = [o for o in text.inputs if o.at in across.tiled]
    extents = call.shape[across.inner], call.shape[across.outer]
    if len(tiled) > MOST or min(extents) < LEAST*SIDE or \
            any(storage(o.dtype) != "uint16" for o in tiled):
        return across
    straight = [o for o in text.looped if call.strides[o.at][across.inner] == 1]
    aligned = all(_aligned(call, o, across.outer) for o in tiled) and \
        all(_aligned(call, o, across.inner) for o in straight)
    if not aligned or affordable(text.typed.function, COUNT) < COUNT:
        return across
    return replace(across, straight=tuple(o.at for o in straight))


def _aligned(call: Call, o: Operand, along: int) -> bool:
    """Whether pairs along a loop are whole accesses, wherever the others are."""
    return call.pointers[o.at] % (2*o.dtype.itemsize) == 0 and all(
        stride % 2 == 0 for loop, stride in enumerate(call.strides[o.at])
        if loop != along and call.shape[loop] > 1)


class PairTileText(TileText):
    """Writes the kernel.

    Parameters
    ----------
    name, typed, signature, threads
        As for `MapText`.
    across
        What `in_pairs` found.
    """

    def _body(self, out: Source) -> None:
        self._place(out)
        out("thread = i64(cuda.threadIdx.x)", f"lane = thread & {PAIRS - 1}",
            f"row = divide(thread, i64({PAIRS}))")
        for o in self.tiled:
            out(f"t{o.at} = cuda.shared.array({2*HALF}, u32)")
        with out.block(f"if across + {SIDE} <= n{self.outer} and "
                       f"begin + {SIDE} <= n{self.inner}:"):
            self._whole(out)
        with out.block("else:"):
            self._edge(out)

    def _whole(self, out: Source) -> None:
        """A tile that lies inside; all loads are under way before the first is used."""
        step = self.threads//PAIRS
        rows = [f"(row + {k})" for k in range(0, SIDE, step)]
        for o in self.tiled:  # every line of a tile is a line of the input's memory
            for k, r in enumerate(rows):
                at = self._sum(o, {self.outer: "(2*lane)", self.inner: r})
                out(f"a{o.at}_{k}, b{o.at}_{k}, = "
                    f"load2({o.pointer}, base{o.at} + {at})")
        pairs = [f"(row + {k})" for k in range(0, PAIRS, step)]
        texts = [[self._line(out, pair, h, f"{k}_{h}") for h in (0, 1)]
                 for k, pair in enumerate(pairs)]
        for o in self.tiled:
            out(*(f"t{o.at}[({r} & 1)*{HALF} + ({r} >> 1)*{PITCH} + lane] = "
                  f"u32(a{o.at}_{k}) | (u32(b{o.at}_{k}) << u32(16))"
                  for k, r in enumerate(rows)))
        out("cuda.syncthreads()")
        for k, pair in enumerate(pairs):
            self._four(out, pair, texts[k], f"e{k}_")

    def _line(self, out: Source, pair: str, h: int, tag: str) -> dict[str, list[str]]:
        """The texts of two neighbours in a line of the output, for each parameter."""
        texts = {}
        for param, o in self.loaded:
            if o in self.tiled:
                texts[param] = [
                    f"u16((t{o.at}[lane*{PITCH} + {pair} + {e*HALF}] >> u32({16*h}))"
                    " & u32(65535))" for e in (0, 1)]
                continue
            names = [f"x{o.at}_{tag}_{e}" for e in (0, 1)]
            at = [f"base{o.at} + {self._sum(o, places)}"
                  for places in self._places(pair, h)]
            if o.at in self.straight:
                out(f"{', '.join(names)}, = load2({o.pointer}, {at[0]})")
            else:
                out(*(f"{name} = {o.pointer}[{a}]"
                      for name, a in zip(names, at, strict=True)))
            texts[param] = names
        return texts

    def _places(self, pair: str, h: int) -> list[dict[int, str]]:
        """Two neighbours in one of two lines of the output."""
        return [{self.outer: f"(2*{pair} + {h})", self.inner: f"(2*lane + {e})"}
                for e in (0, 1)]

    def _four(self, out: Source, pair: str, texts: list[dict[str, list[str]]],
              prefix: str) -> None:
        """Two elements of two lines of the output: both halves of two words."""
        places = [self._places(pair, h) for h in (0, 1)]
        values = self._evaluate(out, [
            ({p: text[e] for p, text in texts[h].items()},
             self._flat(places[h][e][self.outer], places[h][e][self.inner]))
            for h in (0, 1) for e in (0, 1)], prefix)
        for h in (0, 1):
            for r, o in enumerate(self.results):
                out(f"store2({o.pointer}, base{o.at} + {self._sum(o, places[h][0])}, "
                    f"({values[2*h][r]}, {values[2*h + 1][r]},))")

    def _edge(self, out: Source) -> None:
        """Part of a tile: element by element, from where they lie."""
        places = {self.outer: "line", self.inner: "column"}
        out("rest = thread")
        with out.block(f"while rest < {SIDE*SIDE}:"):
            out(f"line = divide(rest, i64({SIDE}))", f"column = rest & {SIDE - 1}")
            with out.block(f"if across + line < n{self.outer} and "
                           f"begin + column < n{self.inner}:"):
                loads = {}
                for param, o in self.loaded:
                    out(f"x{o.at} = {o.pointer}[base{o.at} + {self._sum(o, places)}]")
                    loads[param] = f"x{o.at}"
                value, = self._evaluate(out, [(loads, self._flat("line", "column"))],
                                        "t")
                for o, text in zip(self.results, value, strict=True):
                    out(f"{o.pointer}[base{o.at} + {self._sum(o, places)}] = {text}")
            out(f"rest += {self.threads}")
