"""Tell PyTorch's compiler which callables it calls as they are.

Its front, Dynamo, reads the bytecode of whatever a compiled function calls.  What
computes on arrays here it puts into its graph unread; the rest of the package it does
not read either.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from ...registry.operations import NUMPY, OPS
from ...support.forks import when_imported

__all__ = ["as_argument", "called_whole", "prepare"]

_CALLED: WeakSet[Any] = WeakSet()
_NAMED: WeakValueDictionary[str, Any] = WeakValueDictionary()


def called_whole(operation: Any) -> None:
    """Let Dynamo call `operation` as it is."""
    _CALLED.add(operation)
    if "torch._dynamo" in sys.modules and hasattr(
            sys.modules["torch._dynamo"], "allow_in_graph"):
        sys.modules["torch._dynamo"].allow_in_graph(operation)


def as_argument(operation: Any, tracer: Any) -> Any:
    """`operation` as an argument of a call in a graph: what finds it there."""
    token = f"{operation.__name__}_{id(operation)}"
    _NAMED[token] = operation
    node = tracer.create_node("call_function", named, (token,), {})
    node.meta["example_value"] = operation
    return node


def named(token: str) -> Any:
    """The operation that `as_argument` has named."""
    return _NAMED[token]


def prepare() -> None:
    """Do so for all operations, once Dynamo is imported; torch is already."""
    from .torch_names import install

    install()
    when_imported("torch._dynamo", _allow)


def _allow() -> None:
    allow = sys.modules["torch._dynamo"].allow_in_graph
    rules = import_module("torch._dynamo.trace_rules")
    if hasattr(rules, "add"):  # of the versions from 2.1 on
        rules.add("nbfused")
    OPS.fill()
    NUMPY.fill()
    public = vars(sys.modules["nbfused.ops"])
    for name in NUMPY:  # Dynamo finds attributes, and runs no __getattr__
        _, *module, function = name.split(".")
        if module and module[0] in ("linalg", "fft"):
            getattr(public[module[0]], function)
    whole = [x for name in public["__all__"] if callable(x := public[name])]
    for operation in {id(x): x for x in (*whole, *OPS.values(), *_CALLED)}.values():
        allow(operation)
