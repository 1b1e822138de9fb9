"""Map on CUDA: which kernel runs, by what only the call shows."""

from __future__ import annotations

from math import prod

from ..backend import Call, Launcher, Signature
from ..specs import Map, TypedMap
from .compile import ptx
from .driver import Device, device
from .hints import bytes_read, map_hint
from .launch import Program
from .map_text import MapText
from .map_tile import Across, TileText, lying_across
from .map_tile_pairs import PairTileText, in_pairs
from .tune import Tuner, kernel_text

__all__ = ["build_map"]

THREADS = 128
TILE_THREADS = 256


class MapLauncher:
    """Chooses the kernel by strides, alignment and extents."""

    def __init__(self, name: str, typed: TypedMap, signature: Signature) -> None:
        self._of, self._outputs = (name, typed, signature), len(signature.outputs)
        self._general, self._vector = (
            MapText(name, typed, signature, vector=v, threads=THREADS)
            for v in (False, True))
        self._variants: list[MapText] = []
        self._tuner = Tuner(kernel_text("map", name, signature), self._candidates,
                            lambda text, where: self._program(text).function(where),
                            self._launch)
        self._tiles: dict[Across, TileText] = {}
        self._programs: dict[tuple[MapText, str], Program] = {}
        looped = self._general.looped
        self._rank = signature.ranks[0]
        self._could = (all(o.code in "10" for o in looped)
                       and any(o.code == "1" for o in looped))
        self._width = self._vector.width
        self._unit = [(o.at, min(16, o.dtype.itemsize*self._width) - 1)
                      for o in looped if o.code == "1"]
        self._picks = self._general.picks
        #: Calls of one plan share these tuples: compared by identity, and kept alive.
        self._seen: tuple[object, object, MapText] = None, None, self._general

    def __call__(self, call: Call) -> None:
        """Launch on the call's stream."""
        where = device(call.device)
        self._launch(self._text(call, where), call, where)

    def _launch(self, text: MapText, call: Call, where: Device) -> None:
        strides = call.strides
        values = (*call.pointers, *call.shape,
                  *[strides[o][k] for o, k in self._picks], *call.scalars)
        program = self._program(text, self._hint(call, where) if text.vector else "")
        program.launch(where, call.stream, text.blocks(call.shape), values)

    def _hint(self, call: Call, where: Device) -> str:
        read = bytes_read(call, self._general.loaded_operands)
        return map_hint(read, where)

    def _program(self, text: MapText, hint: str = "") -> Program:
        program = self._programs.get((text, hint))
        if program is None:
            program = self._programs[text, hint] = Program(text.kernel(hint))
        return program

    def _text(self, call: Call, where: Device) -> MapText:
        if self._could:
            if not self._aligned(call):
                return self._general
            size = prod(call.shape).bit_length()  # the best is much the same for it
            return self._tuner(size, call, where, self._outputs)
        strides, shape, text = self._seen
        if strides is not call.strides or shape is not call.shape:
            text = self._strided(call)
            self._seen = call.strides, call.shape, text
        return text

    def _candidates(self, call: Call, where: Device) -> list[MapText]:
        self._variants = self._variants or self._vector.variants()
        return self._variants

    def _strided(self, call: Call) -> MapText:
        found = lying_across(self._general, call)
        if found is None:
            return self._general
        found = in_pairs(self._general, call, found)
        if found not in self._tiles:
            kind = PairTileText if found.straight else TileText
            self._tiles[found] = kind(*self._of, across=found, threads=TILE_THREADS)
        return self._tiles[found]

    def _aligned(self, call: Call) -> bool:
        for at, mask in self._unit:
            if call.pointers[at] & mask:
                return False
        if self._rank == 1:
            return True
        if call.shape[-1] % self._width:
            return False
        return all(call.strides[at][k] % self._width == 0
                   for at, _ in self._unit for k in range(self._rank - 1))


def build_map(spec: Map, signature: Signature) -> Launcher:
    """A launcher for `spec`; kernels are compiled when first needed."""
    return MapLauncher(spec.name, spec.typed(signature.inputs, signature.outputs),
                       signature)


def map_ptx(spec: Map, signature: Signature, arch: tuple[int, int]) -> str:
    """The PTX of the kernel for aligned arrays; needs no device."""
    typed = spec.typed(signature.inputs, signature.outputs)
    text = MapText(spec.name, typed, signature, vector=True, threads=THREADS)
    return ptx(text.kernel(), arch)
