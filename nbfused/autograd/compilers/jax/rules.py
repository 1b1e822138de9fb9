"""Functions with a rule of the user's, as JAX's functions with a rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from ....arrays import is_array
from ....errors import KernelTypeError, NotDifferentiableError

__all__ = ["call_rule"]


def call_rule(rule: Any, args: Sequence[Any], run: Callable[..., Any]) -> Any:
    """Call a function of `custom_vjp` or `custom_jvp` on values that JAX traces.

    `run` takes a name, a function of the user's and trees of its arguments, and calls
    it on placeholders of what JAX traces.
    """
    places = tuple([k for k, x in enumerate(args) if is_array(x)])
    fixed = tuple([None if is_array(x) else x for x in args])
    return _in_jax(rule, fixed, places, run)(*[args[k] for k in places])


@lru_cache(maxsize=512)
def _in_jax(rule: Any, fixed: tuple[Any, ...], places: tuple[int, ...],
            run: Callable[..., Any]) -> Callable[..., Any]:
    """The rule as JAX's; what is no array is `fixed`."""
    import jax

    called = partial(run, rule.name)

    def whole(arrays: Sequence[Any]) -> list[Any]:
        values = list(fixed)
        for k, x in zip(places, arrays, strict=True):
            values[k] = x
        return values

    def primal(*arrays: Any) -> Any:
        return called(lambda given: rule.function(*whole(given)), arrays)

    def pushed(primals: Any, tangents: Any) -> Any:
        def rule_of(given: Any, moves: Any) -> Any:
            moving = [0.0] * len(fixed)
            for k, t in zip(places, moves, strict=True):
                moving[k] = t
            return rule.jvp(tuple(whole(given)), tuple(moving))

        return called(rule_of, primals, tangents)

    def forward(*arrays: Any) -> Any:
        if rule.fwd is None or rule.bwd is None:
            raise NotDifferentiableError(
                f"{rule.name} has no derivative yet: call {rule.name}.{rule.way}")
        return called(lambda given: rule.forward(*whole(given))[0], arrays), arrays

    def backward(arrays: Any, cotangents: Any) -> Any:
        def rule_of(given: Any, g: Any) -> Any:
            found = rule.bwd(rule.forward(*whole(given))[1], g)
            if not isinstance(found, (tuple, list)) or len(found) != len(fixed):
                raise KernelTypeError(
                    f"the backward rule of {rule.name} returned "
                    f"{found!r:.60}; expected a gradient for each of "
                    f"{len(fixed)} arguments, or None")
            return tuple([found[k] for k in places])

        return called(rule_of, arrays, cotangents)

    if getattr(rule, "jvp", None) is not None:
        pushing = jax.custom_jvp(primal)
        pushing.defjvp(pushed)
        return pushing
    made = jax.custom_vjp(primal)
    made.defvjp(forward, backward)
    return made
