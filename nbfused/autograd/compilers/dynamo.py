"""Tell PyTorch's compiler which callables it calls as they are.

Its front, Dynamo, reads the bytecode of whatever a compiled function calls.  What
computes on arrays here it puts into its graph unread; the rest of the package it does
not read either.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar
from weakref import WeakSet, WeakValueDictionary

from ...registry.operations import NUMPY, OPS
from ...support.forks import when_imported

__all__ = ["as_argument", "called_whole", "check_results", "is_compiled",
           "not_in_graph", "prepare", "unread"]

T = TypeVar("T")

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


def unread(function: Callable[[], T]) -> Callable[[], T]:
    """`function`, whose code Dynamo does not compile where a graph has broken."""
    if "torch._dynamo" not in sys.modules:
        return function
    compiler: Any = import_module("torch.compiler")
    outside: Callable[[], T] = compiler.disable(function)
    return outside


def is_compiled() -> bool:
    """Whether PyTorch compiles a program at present that stays in this process."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and torch._guards.TracingContext.try_get() is not None \
        and not torch.compiler.is_exporting()


def not_in_graph(message: str) -> Exception:
    """Dynamo's error where a call breaks the graph: without `fullgraph` it goes on."""
    error: Exception = import_module("torch._dynamo.exc").Unsupported(message)
    return error


def check_results(name: str, results: Any) -> None:
    """Refuse results that Dynamo does not take of what it calls as it is.

    It takes tensors and None, and tuples and lists of them.  Of functions marked by
    PyTorch's ``nonstrict_trace`` it takes dictionaries and numbers, too.
    """
    fake: Any = import_module("torch._subclasses.fake_tensor")
    if getattr(getattr(fake, "fake_tensor_tls", None),
               "allow_non_fake_inputs_override", None):
        return  # so marked
    other = _other_than_tensors(results)
    if other is not None:
        raise not_in_graph(
            f"fuse: {name} returns {type(other).__name__}, which PyTorch's compiler "
            "takes only of functions that are marked so; return a tuple of tensors, or "
            f"compile with torch._dynamo.nonstrict_trace({name}) in its place")


def _other_than_tensors(results: Any) -> Any:
    """The first of these results that is no tensor, None, tuple or list of them."""
    if isinstance(results, (tuple, list)):
        return next((x for x in map(_other_than_tensors, results) if x is not None),
                    None)
    torch: Any = sys.modules["torch"]
    return None if results is None or isinstance(results, torch.Tensor) else results


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
