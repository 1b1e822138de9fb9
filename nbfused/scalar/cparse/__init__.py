"""CuPy's C bodies: from CUDA C++ to the scalar language, with C's types and rules.

A Python syntax tree in which every conversion is a cast goes the way of any scalar
function.

- `spelling` respells C++ as C, macros replaced; `unit` has it parsed by pycparser;
  `tree` tells facts of C's trees.
- `scope.Scope` has the variables of one function; `statements`, `control`,
  `expressions`, `changes` inside of them, `calling`, `elements`, `pointers`, `bits` and
  `structs` translate by the type of a node.
- `functions`: a body as a scalar function; `kernels` joins all and parses kernels.
- `types`: C's types and conversions; `values`: typed expressions; `cuda`: what CUDA
  defines.
"""

from .elements import LOOP
from .functions import Parameter
from .kernels import number_of, parse_c, parse_c_expression, type_of
from .structs import number_dtypes

__all__ = ["LOOP", "Parameter", "number_dtypes", "number_of", "parse_c",
           "parse_c_expression", "type_of"]
