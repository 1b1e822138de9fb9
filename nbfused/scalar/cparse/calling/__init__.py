"""Calls of C bodies.

- `calls`: CUDA's functions, casts, atomics, methods of CuPy's.
- `device_functions`: functions of the preamble, whose `arguments` may be pointers and
  references.
- `lambdas`: functions inside the function; `printing`: ``printf``.
"""
