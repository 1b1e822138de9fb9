"""Transforms of functions: derivatives of them, and functions of many samples.

=============  =======================================================================
`gradients`    `grad`, `value_and_grad`, `vjp`, `jvp`
`vmap`         functions of one sample on many at once
=============  =======================================================================
"""

from .gradients import grad, jvp, value_and_grad, vjp
from .vmap import vmap

__all__ = ["grad", "jvp", "value_and_grad", "vjp", "vmap"]
