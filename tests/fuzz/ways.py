"""The ways to run a program besides NumPy's own, and what each refuses."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import nbfused as nf
from nbfused.errors import KernelTypeError, NbFusedError, OverlapError, ShapeError
from tests.fuzz.program import Program

try:
    import torch
except ImportError:
    torch = None

__all__ = ["WAYS", "Way", "quietly", "to_numpy"]

#: Feature → classes of errors, with words of their texts.
Refusals = dict[str, Sequence[tuple[Any, str]]]


#: Operations whose defaults are not NumPy's: the axis of `take` is 0, not None.
_OTHER_DEFAULTS = frozenset({"take"})


class _Ours:
    """NumPy with the functions that nbfused has of the same name and defaults."""

    def __getattr__(self, name: str) -> Any:
        ours = getattr(nf.ops, name, None)
        same = callable(ours) and hasattr(ours, "reference") \
            and name not in _OTHER_DEFAULTS
        return ours if same else getattr(np, name)


@dataclass(frozen=True)
class Way:
    """How arguments are passed and the function is called.

    Attributes
    ----------
    pass_
        What is given for an argument.
    made
        The function that is called, of a program.
    refuses
        Feature, or "any" → the errors that may be raised for a program with it, and
        words of their texts.
    as_numpy
        Whether dtypes, and which arrays share memory, are NumPy's.
    """

    pass_: Callable[[Any], Any]
    made: Callable[[Program], Callable[..., Any]]
    refuses: Refusals = field(default_factory=dict)
    as_numpy: bool = True

    def refuses_it(self, program: Program, error: Exception) -> bool:
        """Whether an error is what such a program gets here."""
        return any(isinstance(error, kind) and word in str(error)
                   for feature in {*program.features, "any"}
                   for kind, word in self.refuses.get(feature, ()))


def _plain(x: Any) -> Any:
    return x


def _variable(x: Any) -> Any:
    return nf.Variable(x) if isinstance(x, np.ndarray) else x


def _tensor(x: Any) -> Any:
    if not isinstance(x, np.ndarray):
        return x
    return torch.from_numpy(x if all(s > 0 for s in x.strides) else x.copy())


def to_numpy(x: Any) -> Any:
    """A result as NumPy's."""
    if isinstance(x, nf.Variable):
        return x.to_numpy()
    if torch is not None and isinstance(x, torch.Tensor):
        return x.detach().numpy()
    return x


def _for(features: str, *errors: tuple[Any, str]) -> Refusals:
    return dict.fromkeys(features.split(), errors)


#: What cannot be followed where memory is shared.
_SHARED = ((KernelTypeError, "view"), (OverlapError, "shares memory"),
           (KernelTypeError, "is not contiguous, and it is reshaped"))
_ALWAYS = {**_for("any", (KernelTypeError, "does not order complex"),
                  (KernelTypeError, "does not take complex numbers"),
                  # NumPy reduces what has no dimensions along axis 0.
                  (np.exceptions.AxisError, "of dimension 0")),
           **_for("arrays", (KernelTypeError, "must be an array"))}
_FUSED: Refusals = {
    **_ALWAYS, **_for("any", *_ALWAYS["any"],
                      (ShapeError, "a leading coefficient is 0")),
    **_for("in-place in-place-bits out", *_SHARED),
    **_for("store", *_SHARED, (KernelTypeError, "'same_kind'"),
           (ShapeError, "cannot hold an array of shape")),
    **_for("store-part", (KernelTypeError, "part")),
    **_for("dot", (KernelTypeError, "more than two dimensions")),
    **_for("view", (KernelTypeError, "of a number is an array"))}
#: PyTorch's `max` raises for several axes, and gives pairs for one.
_TENSORS: Refusals = {**_FUSED, **_for(
    "not-torch", (KernelTypeError, "torch"), (TypeError, "invalid combination"),
    (TypeError, "argument 'dim'"), (KernelTypeError, "a NumPy array needs its values"))}
#: What Variables do not have is an error of Python's.
_EAGER: Refusals = {
    **_ALWAYS, **_for("in-place out", *_SHARED, (KernelTypeError, "out: ")),
    **_for("bits fused-only in-place-bits", ((TypeError, AttributeError), "")),
    **_for("store store-part", (TypeError, ""))}
_OPS: Refusals = {**_ALWAYS, **_for("out", (NbFusedError, "")),
                  # NumPy's own, of an array where it has a scalar in the reference.
                  **_for("in-place", (ValueError, "read-only")),
                  **_for("where", (TypeError, "argument"))}


def _planned(program: Program) -> Callable[..., Any]:
    """The fifth call of the fused program: as a known one, by its plan if it has one.

    A plan is made in the second call, and in the third its arguments become known.
    """
    fused = nf.fuse(program.function())

    def fifth(*args: Any) -> Any:
        for _ in range(4):
            fused(*copy.deepcopy(args))
        return fused(*args)

    return fifth


WAYS: dict[str, Way] = {
    "planned": Way(_plain, _planned, _FUSED),
    "planned on Variables": Way(_variable, _planned, _FUSED),
    "fused": Way(_plain, lambda p: nf.fuse(p.function()), _FUSED),
    "fused on Variables": Way(_variable, lambda p: nf.fuse(p.function()), _FUSED),
    "eager": Way(_variable, lambda p: p.function(), _EAGER),
    "ops": Way(_plain, lambda p: p.function(numpy=_Ours()), _OPS),
}
if torch is not None:
    WAYS["tensors"] = Way(_tensor, lambda p: nf.fuse(p.function()), _TENSORS,
                          as_numpy=False)


@contextmanager
def quietly() -> Iterator[None]:
    """Without warnings."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
