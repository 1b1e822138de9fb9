"""The intermediate representation of scalar functions: structured SSA.

- `nodes` defines it; `build` and `emit` write it, `positions` the numbers of threads.
- `uniform` finds values that all threads of a block have in common.
- `clean` simplifies it, `shallow` takes deep nests apart, `redirect` moves accesses of
  arrays.
- `interpret` evaluates it on NumPy arrays, with the memory of `memory`.
"""
