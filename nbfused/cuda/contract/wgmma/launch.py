"""Contract on Hopper's tensor cores: which products it takes, and their tensor maps."""

from __future__ import annotations

from ....backend import Call
from ....gpu.operands import Operand
from ....gpu.programs import Programs
from ...runtime.driver import Device
from ...runtime.launch import Program
from ...runtime.tensor_map import ALIGN, tensor_map
from ...tuning.tuner import Tuner, kernel_text, layout_of
from ..text import ContractText
from ..tma import TmaFactors
from .kernel import WgmmaText
from .plan import MOST_OUTPUT, plans, tiles
from .tiling import DEPTH, WgmmaPlan

__all__ = ["WgmmaLauncher"]


class WgmmaLauncher:
    """Products of float16 or bfloat16 without prologues, one m, n and k loop each.

    Parameters
    ----------
    text
        Operands, loops and functions.
    """

    def __init__(self, text: ContractText) -> None:
        self._text, self._batch = text, text.ranks[0]
        self._factors = TmaFactors(text, "f16", "bf16")
        #: Whether it takes any call.
        self.possible = self._factors.possible and \
            sum(o.dtype.itemsize for o in text.outputs) <= MOST_OUTPUT
        self._programs: Programs[WgmmaPlan, Program] = Programs(
            Program, lambda plan: WgmmaText(text, plan).kernel())
        self._tuner = Tuner(
            kernel_text("wgmma", text.name, text.signature),
            lambda call, where: plans(self._text, call, where.processors),
            lambda plan, where: self._programs[plan].function(where),
            lambda plan, call, where: self.run(call, where, plan))

    def takes(self, call: Call, where: Device) -> bool:
        """Whether TMA can bring the factors of this call."""
        return self.possible and where.arch[0] == 9 and self._factors.reachable(call)

    def __call__(self, call: Call, where: Device) -> None:
        """Launch on the call's stream."""
        plan = self._tuner(layout_of(call), call, where, len(self._text.outputs))
        self.run(call, where, plan)

    def run(self, call: Call, where: Device, plan: WgmmaPlan) -> None:
        """Launch as `plan` says; it is one of `plans`."""
        text = self._text
        maps = (self._map(call, 0, plan), self._map(call, 1, plan),
                *[self._target(call, o, plan) for o, how in zip(
                    text.outputs, plan.stores, strict=True) if how == "tile"],
                *[self._box(call, k, plan) for k, how in enumerate(plan.loads)
                  if how == "box"])
        cluster = plan.tiling.cluster
        blocks = cluster*min(tiles(call, self._batch, plan.tiling),
                             where.processors//cluster)
        self._programs[plan].launch(where, call.stream, blocks, (
            *maps, *text.arguments(call, text.others)), plan.shared)

    def _map(self, call: Call, which: int, plan: WgmmaPlan) -> bytes:
        """The tensor map of a factor: boxes of 64 along its inner dimension."""
        edge = (plan.brought, plan.tiling.columns//plan.tiling.cluster)[which]
        box = (DEPTH, edge) if plan.along[which] else (64, DEPTH)
        return self._factors.map(call, which, plan.batch[which], box)

    def _target(self, call: Call, o: Operand, plan: WgmmaPlan) -> bytes:
        """The tensor map of an output: boxes as large as a slab."""
        return self._result_map(call, o, plan.batch[2], 16)

    def _box(self, call: Call, k: int, plan: WgmmaPlan) -> bytes:
        """The tensor map of extra `k`: boxes as high as a part."""
        return self._result_map(call, self._text.extras[k], plan.batch[3 + k], 64)

    def _result_map(self, call: Call, o: Operand, batch: tuple[int, ...],
                    rows: int) -> bytes:
        """The tensor map of a result-like array: boxes of 128 bytes and `rows` rows."""
        m, n = self._batch, self._batch + 1
        item, strides = o.dtype.itemsize, call.strides[o.at]
        down = strides[m] if call.shape[m] > 1 else ALIGN*call.shape[n]
        loops = batch[::-1]
        return tensor_map(o.dtype.name, call.pointers[o.at],
                          tuple([call.shape[x] for x in (n, m, *loops)]),
                          (item*down, *[item*strides[x] for x in loops]),
                          (128//item, rows, *(1,)*len(loops)))
