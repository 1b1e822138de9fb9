"""Calls of C bodies.

- `calls`: CUDA's functions, casts, atomics, methods of CuPy's.
- `device_functions`: functions of the preamble, whose `arguments` may be pointers and
  references.
- `overloads` chooses among functions of one name; `tail_calls` makes loops of functions
  that call themselves last.
- `lambdas`: functions inside the function; `printing`: ``printf``.
"""
