"""Fused operations on arrays of any library; every one has a gradient."""

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
