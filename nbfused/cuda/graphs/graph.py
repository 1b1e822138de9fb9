"""CUDA graphs of kernels: made node by node, launched as one.

Through ctypes, as launches are: a node's parameters lie in memory of its own, which is
written to and shown to the driver again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from ...backend import NumberOf
from ..runtime.driver import Device, check
from ..runtime.launch import Parameters
from ..runtime.notes import Address, Launched
from .captured import CapturedNode
from .graph_start import Fill, GraphStart, Shown
from .libraries import driver_library

__all__ = ["Graph", "Node", "is_captured"]


class _NodeParams(ctypes.Structure):
    """``CUDA_KERNEL_NODE_PARAMS``."""

    _fields_ = (("function", ctypes.c_void_p), ("grid", ctypes.c_uint * 3),
                ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("parameters", ctypes.c_void_p), ("extra", ctypes.c_void_p),
                ("kernel", ctypes.c_void_p), ("context", ctypes.c_void_p))


#: ``CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY``.
_PRIORITIES = 8
#: What numbers that machine code writes are to ctypes.
_FLOATS: dict[Any, str] = {ctypes.c_float: "float32", ctypes.c_double: "float64"}


def is_captured(stream: int) -> bool:
    """Whether what is launched on a stream is written down by somebody."""
    status = ctypes.c_int()
    code = driver_library().cuStreamIsCapturing(
        ctypes.c_void_p(stream), ctypes.byref(status))
    return bool(code or status.value)


class Node:
    """One kernel of a graph.

    Parameters
    ----------
    launched
        The launch, as it was noted.
    after
        The nodes that it waits for, by number.

    Attributes
    ----------
    changed
        Whether the driver has to see its parameters again.
    """

    def __init__(self, launched: Launched, device: Device,
                 after: Sequence[int]) -> None:
        self.program, self.after = launched.program, tuple(after)
        self.handle = ctypes.c_void_p()
        self._memory = Parameters(launched.program.kernel)
        self.params = self._parameters(launched, device)
        self.changed = True
        values = list(enumerate(launched.values))
        self._addresses = [(*self._memory.slot(at), v.index, v.offset)
                           for at, v in values
                           if isinstance(v, Address) and v.index is not None]
        self._numbers = [(*self._memory.slot(at), v.position)
                         for at, v in values if isinstance(v, NumberOf)]

    def note(self, launched: Launched, device: Device) -> None:
        """Take all of a launch of the same kernel; numbers of the call come later."""
        self.params, self.changed = self._parameters(launched, device), True

    def _parameters(self, launched: Launched, device: Device) -> _NodeParams:
        function = self.program.function(device, launched.shared)
        self._memory.words.pack([0 if isinstance(v, NumberOf) else v
                                 for v in launched.values])
        return _NodeParams(function, launched.grid, launched.block, launched.shared,
                           self._memory.arguments[1].value, None, None, None)

    def add(self, graph: ctypes.c_void_p, before: Any) -> int:
        """Add it to a graph; what the driver says."""
        self.changed = False
        code: int = driver_library().cuGraphAddKernelNode_v2(
            ctypes.byref(self.handle), graph, before, ctypes.c_size_t(len(self.after)),
            ctypes.byref(self.params))
        return code

    def write(self, addresses: Sequence[int], numbers: Sequence[Any]) -> None:
        """Write the addresses and numbers of a run."""
        for slots, at, index, offset in self._addresses:
            slots[at] = addresses[index] + offset
        for slots, at, position in self._numbers:
            slots[at] = numbers[position]
        self.changed = True

    def shown(self) -> Shown | None:
        """List what runs write; None if a number is no plain float."""
        fills = [Fill(ctypes.addressof(slots) + 8*at, "*", index, offset)
                 for slots, at, index, offset in self._addresses]
        for slots, _, position in self._numbers:
            kind = getattr(slots, "_type_", None)
            if kind not in _FLOATS:
                return None
            fills.append(Fill(ctypes.addressof(slots), _FLOATS[kind], position))
        return Shown(self.handle.value or 0, ctypes.addressof(self.params),
                     tuple(fills))


class Graph:
    """Kernels that start when those before them have finished.

    The device's context is current wherever it is made or launched.

    Parameters
    ----------
    nodes
        In an order in which they could run.

    Raises
    ------
    DriverError
        The driver makes no such graph.
    """

    def __init__(self, nodes: Sequence[Node | CapturedNode]) -> None:
        library, self._nodes = driver_library(), nodes
        # The instance names its nodes by those of the graph.
        self._graph, self._instance = ctypes.c_void_p(), ctypes.c_void_p()
        self._show, self._launch = (library.cuGraphExecKernelNodeSetParams_v2,
                                    library.cuGraphLaunch)
        self._destroy = library.cuGraphExecDestroy, library.cuGraphDestroy
        check((library.cuGraphCreate(ctypes.byref(self._graph), 0),))
        for node in nodes:
            before = (ctypes.c_void_p * max(1, len(node.after)))(
                *[nodes[k].handle.value for k in node.after])
            check((node.add(self._graph, before),))
        flags = _PRIORITIES if any(isinstance(n, CapturedNode) for n in nodes) else 0
        check((library.cuGraphInstantiateWithFlags(
            ctypes.byref(self._instance), self._graph, ctypes.c_ulonglong(flags)),))

    def launch(self, stream: int) -> None:
        """Show the driver what has changed, and launch on a stream."""
        for node in self._nodes:
            if isinstance(node, Node) and node.changed:
                check((self._show(self._instance, node.handle,
                                  ctypes.byref(node.params)),))
                node.changed = False
        check((self._launch(self._instance, ctypes.c_void_p(stream)),))

    def start(self, stream: int, context: int, addresses: int) -> GraphStart | None:
        """The launch on a stream by machine code; None if there is none.

        Parameters
        ----------
        context
            The one in which it was made.
        addresses
            How many a run has.
        """
        shown = [node.shown() for node in self._nodes]
        if None in shown:
            return None
        show, launch, tell = [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in (
            self._show, self._launch, driver_library().cuCtxGetCurrent)]
        made = GraphStart((show, launch, tell), self._instance.value or 0, stream,
                          context, [one for one in shown if one and one.fills],
                          addresses)
        return made if made.possible and show and launch and tell else None

    def __del__(self) -> None:
        """Give it back; the driver waits until it has run."""
        for destroy, made in zip(self._destroy, (self._instance, self._graph),
                                 strict=True):
            if made.value:
                destroy(made)
