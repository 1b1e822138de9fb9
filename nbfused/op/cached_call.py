"""Cached calls of ops, looked up by the types of their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd import apply
from ..autograd.direct import fast_calls
from ..autograd.versions import note_write
from ..specs import Spec
from .base import output_tuple

__all__ = ["CachedCall"]


class CachedCall:
    """A cached call of a spec, repeated for arguments of the same types.

    Parameters
    ----------
    spec, values, outs
        The call: all arguments, and the outputs that were given.
    name, names
        What messages call the op and its arguments.
    defaults
        Of arguments that were left out.
    """

    def __init__(self, spec: Spec, values: Sequence[Any], outs: Sequence[Any] | None,
                 name: str, names: tuple[str, ...], defaults: tuple[Any, ...] = (),
                 ) -> None:
        self._spec, self._name, self._names = spec, name, names
        self._defaults = defaults
        single = outs is None or (len(outs) == 1 and outs[0] is not None)
        self._direct, self._taped = fast_calls(
            spec, values, outs, self._defaults, names) if single else (None, None)
        self._outputs = 1 if outs is None else len(outs)

    def __call__(self, args: tuple[Any, ...], out: Any) -> Any:
        """Call the spec with new arguments, and an `out` of the same type or None."""
        direct = self._direct
        made = None if direct is None or type(out) is tuple else \
            direct(*args) if out is None else direct(out, *args)
        if made is None and self._taped is not None:
            made = self._taped(*args)
        if made is None:  # it is differentiated, or a closer look is needed
            outs = None if out is None else output_tuple(
                out, self._outputs, self._name)
            made = apply(self._spec, args + self._defaults, out=outs, names=self._names)
            return made[0] if len(made) == 1 else made
        if out is not None:
            note_write((out,))
            return out
        return made[0] if len(made) == 1 else tuple(made)
