"""CuPy's C bodies: from CUDA C++ to the scalar language, with C's types and rules.

The text is respelled as C (`text`), parsed by pycparser, typed by C's conversions and
written as a Python syntax tree in which every conversion is a cast (`expressions`,
`statements`); that goes the way of any scalar function.
"""

from .unit import Parameter, number_of, parse_c, parse_c_expression, type_of

__all__ = ["Parameter", "number_of", "parse_c", "parse_c_expression", "type_of"]
