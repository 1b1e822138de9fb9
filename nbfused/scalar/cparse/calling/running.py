"""Values of calls inside expressions, those that change variables among them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from ..changes import Path, changes_before
from ..scope import Scope
from ..spelling import shown_name
from ..values import Typed
from .arguments import Effects
from .device_functions import DeviceCall, device_function
from .templates import Given

__all__ = ["call_device", "run_before", "value_of"]


def call_device(scope: Scope, node: Any, name: str, args: Sequence[Any],
                explicit: Sequence[Given] = ()) -> Typed:
    """The value of a call of a function that the preamble has."""
    device = device_function(scope, node, name, args, explicit)
    assert device is not None
    return value_of(scope, node, name, device)


def value_of(scope: Scope, node: Any, name: str, device: DeviceCall) -> Typed:
    """The value of a call."""
    changed = device.changed_paths(scope)
    if changed:
        return run_before(scope, node, name, changed, device.effects)
    return device.value(scope, node)


def run_before(scope: Scope, node: Any, name: str, changed: Collection[Path],
               effects: Callable[[Scope, Any], Effects | None]) -> Typed:
    """The value of a call inside an expression, which changes variables.

    It runs before the statement, so nothing else in that may name them.
    """
    name = shown_name(name)
    before = changes_before(scope, node, f"call of {name}()", changed)
    if id(node) not in before.values:
        found = effects(scope, node)
        assert found is not None
        if found.result is None:
            scope.refuse(node, f"{name}() returns nothing; call it in a statement of "
                               "its own")
        before.statements += found.statements
        before.values[id(node)] = scope.value(found.result)
    return before.values[id(node)]
