"""Tell PyTorch's compiler which callables it calls as they are.

Its front, Dynamo, reads the bytecode of whatever a compiled function calls.  What
computes on arrays here it puts into its graph unread; the rest of the package it does
not read either.
"""

from __future__ import annotations

import sys
from typing import Any
from weakref import WeakSet

from ...registry.operations import OPS
from ...support.imports import when_imported
from .torch_names import install

__all__ = ["called_whole", "prepare"]

_CALLED: WeakSet[Any] = WeakSet()


def called_whole(operation: Any) -> None:
    """Let Dynamo call `operation` as it is."""
    _CALLED.add(operation)
    if "torch._dynamo" in sys.modules and hasattr(
            sys.modules["torch._dynamo"], "allow_in_graph"):
        sys.modules["torch._dynamo"].allow_in_graph(operation)


def prepare() -> None:
    """Do so for all operations, once Dynamo is imported; torch is already."""
    install()
    when_imported("torch._dynamo", _allow)


def _allow() -> None:
    allow = sys.modules["torch._dynamo"].allow_in_graph
    OPS.fill()
    for operation in {id(x): x for x in (*OPS.values(), *_CALLED)}.values():
        allow(operation)
