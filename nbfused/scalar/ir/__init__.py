"""The intermediate representation of scalar functions: structured SSA.

- `nodes` defines it; `build` and `emit` write it.
- `clean` simplifies it, `shallow` takes deep nests apart, `redirect` moves accesses of
  arrays.
- `interpret` evaluates it on NumPy arrays, with the memory of `memory`.
"""
