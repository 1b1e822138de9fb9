"""Fused operations on arrays of any library; every one has a gradient."""

import types as _types

from .activations import *
from .arithmetic import *
from .comparison import *
from .filling import *
from .indexing import *
from .losses import *
from .math import *
from .matmul import *
from .normalization import *
from .optimizers import *
from .power import *
from .random import *
from .reductions import *
from .shapes import *

# No modules: ``from nbfused.ops import *`` would hide Python's `math` and `random`.
__all__ = [name for name, found in [*globals().items()]
           if not name.startswith("_") and not isinstance(found, _types.ModuleType)]
