"""Transforms of functions: derivatives of them, and functions of many samples.

================ =====================================================================
`examination`    whether a function's arguments say all that it does
`forward_rules`  `custom_jvp` and `stop_gradient`
`gradients`      `grad`, `value_and_grad`, `vjp`, `jvp`
`jacobians`      `jacrev`, `jacfwd`, `hessian`, products with them, `linearize`
`repeated_calls` calls of a mapped function that earlier ones foretell
`sample_rules`   functions with rules of their own inside of `vmap`
`vmap`           functions of one sample on many at once
================ =====================================================================
"""

from . import sample_rules as sample_rules  # its rules enter their table
from .forward_rules import custom_jvp, stop_gradient
from .gradients import grad, jvp, value_and_grad, vjp
from .jacobians import (
    elementwise_grad,
    hessian,
    hvp,
    jacfwd,
    jacobian,
    jacrev,
    linearize,
)
from .vmap import vmap

__all__ = ["custom_jvp", "elementwise_grad", "grad", "hessian", "hvp", "jacfwd",
           "jacobian", "jacrev", "jvp", "linearize", "stop_gradient", "value_and_grad",
           "vjp", "vmap"]
