"""Values of several numbers that a function names or builds.

- `parts` of arrays; `structs`, of named tuples and dataclasses.
- `vectors`: arithmetic, loads and stores; `vector_forms`: dot, cross and the like.
"""
