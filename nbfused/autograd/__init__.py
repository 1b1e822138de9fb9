"""Derivatives of programs on arrays: `Variable`, the tape, the transforms.

`apply` is the one function that ops call: it runs a spec and, where an input is
tracked, leaves a node on the tape.  Derivatives are specs (`specs.Pullback`), so
nothing here knows an op.
"""

from .tape import apply
from .transforms import (
    Function,
    checkpoint,
    custom_vjp,
    grad,
    jvp,
    no_grad,
    value_and_grad,
    vjp,
)
from .variable import Variable

__all__ = [
    "Function", "Variable", "apply", "checkpoint", "custom_vjp", "grad", "jvp",
    "no_grad", "value_and_grad", "vjp",
]
