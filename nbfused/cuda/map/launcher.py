"""Map on CUDA: which kernel runs, by what only the call shows."""

from __future__ import annotations

from math import prod

from ...backend import Call, Launcher, Signature
from ...gpu.programs import Programs
from ...specs import Map, TypedMap
from ..runtime.binding import Bindable
from ..runtime.compile import ptx
from ..runtime.driver import Device, device
from ..runtime.launch import Program
from ..text.hints import bytes_read, bytes_spanned, map_hint
from ..text.source import affordable, is_near
from ..tuning.tuner import Tuner, kernel_text
from .columns import ColumnsText, SideBySide, side_by_side
from .dense import Dense, DenseText, dense_in
from .gathers import gathers
from .row_gathers import RowGather, RowGathersText, divided_and_loads, row_gather
from .rows import EACH, LONG, RowsText, shared_by
from .text import MapText
from .tile import Across, TileText, lying_across
from .tile_pairs import PairTileText, in_pairs
from .wide_windows import Wide, WideWindowText, wide_in
from .windows import WindowText, columns_for

__all__ = ["build_map"]

THREADS = 128
TILE_THREADS = 256
#: Gathers of an element from which their lines are used again, if that is soon.
SEVERAL = 2
#: Elements up to which each has a thread, so that enough threads run:
#: benchmarks/notes/memory.md#short-divisions.
FEW = 1 << 18
#: Elements of a row from which its place in more than two loops is better found once
#: for several of them: benchmarks/notes/memory.md#short-divisions.
LONGER = 1024


class MapLauncher:
    """Chooses the kernel by strides, alignment and extents."""

    def __init__(self, name: str, typed: TypedMap, signature: Signature) -> None:
        self._of, self._outputs = (name, typed, signature), len(signature.outputs)
        self._general, self._vector = (
            MapText(name, typed, signature, vector=v, threads=THREADS)
            for v in (False, True))
        self._near, self._near_few = (
            MapText(name, typed, signature, vector=False, threads=THREADS, near=True,
                    repeat=each) for each in (None, 1))
        self._variants: dict[bool, list[MapText]] = {}
        self._tuner = Tuner(kernel_text("map", name, signature), self._candidates,
                            self._load, self._launch)
        self._tiles: dict[Across, TileText] = {}
        self._columns: dict[SideBySide, ColumnsText] = {}
        self._dense: dict[Dense, DenseText] = {}
        self._without, self._row_loads = divided_and_loads(self._general)
        self._gathers: dict[RowGather, RowGathersText] = {}
        self._by_rows: dict[tuple[int, int], RowsText] = {}
        self._short = affordable(typed.function, EACH) == EACH
        self._windows: dict[int, WindowText] = {}
        self._wide: dict[Wide, WideWindowText] = {}
        self._programs: Programs[tuple[MapText, str], Program] = Programs(
            Program, lambda how: how[0].kernel(how[1]))

    def __call__(self, call: Call) -> None:
        """Launch on the call's stream."""
        where = device(call.device)
        self._launch(self._text(call, where), call, where)

    def _launch(self, text: MapText, call: Call, where: Device) -> None:
        program = self._programs[text, self._hint(text, call, where)]
        program.launch(where, call.stream, text.blocks(call.shape), text.values(call))

    def _load(self, text: MapText, where: Device) -> None:
        self._programs[text, ""].function(where)

    def _hint(self, text: MapText, call: Call, where: Device) -> str:
        if isinstance(text, WideWindowText):
            return map_hint(bytes_spanned(call, text.inputs), where)
        return map_hint(bytes_read(call, self._general.loaded_operands),
                        where) if text.vector else ""

    def _text(self, call: Call, where: Device) -> MapText:
        if self._of[1].inner:
            return self._with_windows(call)
        text = self._vector
        if self._without is not None and self._short and len(call.shape) > 1:
            return self._rows(call)
        if text.could_vector:
            if not text.is_aligned(call, text.width):
                return self._single(call)
            size = prod(call.shape).bit_length()  # the best is much the same for it
            return self._tuner((size, self._is_near(call)), call, where, self._outputs)
        return self._strided(call)

    def _with_windows(self, call: Call) -> WindowText:
        """The kernel with windows, of neighbouring columns if accesses are whole."""
        columns = columns_for(call)
        if columns not in self._windows:
            self._windows[columns] = window_text(*self._of, columns)
        wide = wide_in(self._windows[columns], call)
        if wide is None:
            return self._windows[columns]
        if wide not in self._wide:
            self._wide[wide] = WideWindowText(*self._of, threads=THREADS, wide=wide)
        return self._wide[wide]

    def _single(self, call: Call) -> MapText:
        """Dense results; elements one by one; or rows, where places take longer."""
        loops, columns = len(call.shape), call.shape[-1]
        near = self._is_near(call)
        dense = dense_in(self._near, call) if near else None
        if dense is not None:
            if dense not in self._dense:
                self._dense[dense] = DenseText(*self._of, threads=THREADS, dense=dense)
            return self._dense[dense]
        if near and (loops == 2 or columns < LONGER):
            return self._near_few if prod(call.shape) <= FEW else self._near
        if loops > 1 and columns >= LONG and self._short:
            return self._rows(call)
        return self._near if near else self._general

    def _is_near(self, call: Call) -> bool:
        """Whether there are loops to divide by, and 31 bits number all elements."""
        return len(call.shape) > 1 and is_near(call, self._general.looped)

    def _rows(self, call: Call) -> RowsText:
        """The kernel by rows, of those that are read by wide accesses if it can be."""
        if self._without is not None and self._row_loads is not None:
            shares = row_gather(self._general, self._row_loads, call)
            if shares is not None:
                if shares not in self._gathers:
                    self._gathers[shares] = RowGathersText(
                        *self._of, self._without, self._row_loads, shares)
                return self._gathers[shares]
        columns = call.shape[-1]
        share = shared_by(columns)
        if share not in self._by_rows:
            self._by_rows[share] = RowsText(*self._of, self._without, columns)
        return self._by_rows[share]

    def _candidates(self, call: Call, where: Device) -> list[MapText]:
        near = self._is_near(call)
        if near not in self._variants:
            text = MapText(*self._of, vector=True, threads=THREADS,
                           near=True) if near else self._vector
            self._variants[near] = self._variants_of(text.variants())
        return self._variants[near]

    def _variants_of(self, vectors: list[MapText]) -> list[MapText]:
        """With gathers also one element a thread, of one loop: `offsets` divides.

        See benchmarks/notes/memory.md#gathers.
        """
        found = gathers(self._of[1])
        if not found or self._vector.rank > 1:
            return vectors
        apart = MapText(*self._of, vector=False, threads=THREADS, repeat=1)
        return [apart, *vectors] if found >= SEVERAL else [*vectors, apart]

    def _strided(self, call: Call) -> MapText:
        columns = side_by_side(self._general, call)
        if columns is not None:
            if columns not in self._columns:
                self._columns[columns] = ColumnsText(*self._of, found=columns,
                                                     threads=THREADS)
            return self._columns[columns]
        found = lying_across(self._general, call)
        if found is None:
            return self._single(call)
        found = in_pairs(self._general, call, found)
        if found not in self._tiles:
            kind = PairTileText if found.straight else TileText
            self._tiles[found] = kind(*self._of, across=found, threads=TILE_THREADS)
        return self._tiles[found]


def window_text(name: str, typed: TypedMap, signature: Signature,
                columns: int = THREADS) -> WindowText:
    """The kernel with windows for blocks of so many columns."""
    return WindowText(name, typed, signature, threads=THREADS, columns=columns)


def build_map(spec: Map, signature: Signature) -> Launcher:
    """A launcher for `spec`; kernels are compiled when first needed."""
    typed = spec.typed(signature.inputs, signature.outputs)
    return Bindable(MapLauncher(spec.name, typed, signature))


def map_ptx(spec: Map, signature: Signature, arch: tuple[int, int]) -> str:
    """The PTX of the kernel for aligned arrays; needs no device."""
    typed = spec.typed(signature.inputs, signature.outputs)
    text = window_text(spec.name, typed, signature) if typed.inner else MapText(
        spec.name, typed, signature, vector=True, threads=THREADS)
    return ptx(text.kernel(), arch)
