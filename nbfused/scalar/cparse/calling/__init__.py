"""Calls of C bodies.

- `calls`: CUDA's functions, casts, atomics, methods of CuPy's.
- `device_functions`: functions of the preamble, whose `arguments` may be pointers and
  references; `running`: their values, of those that change variables too.
- `overloads` chooses among functions of one name, `templates` tells the types that one
  is for; `tail_calls` makes loops of functions that call themselves last.
- `construction`: values of structs; `operators`: what structs define besides functions.
- `lambdas`: functions inside the function; `printing`: ``printf``.
"""
