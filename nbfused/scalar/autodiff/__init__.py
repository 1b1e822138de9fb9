"""Derivatives of scalar functions.

`differentiate` has `vjp` and `jvp`.

- Forward mode: `forward`.
- Reverse mode: `reverse` through blocks; `replay` through loops, as `recording` or
  recomputation, whichever `preferences` ask for; `counted` makes loops countable,
  `repeated` runs a part again without its effects, and refuses what cannot be;
  `threads` is what passes between threads.
- Operation by operation: `adjoints`, `activity`; `reach` knows on which paths a
  cotangent arrives.
- Users' rules: `custom`, `rules`, and `rule_arrays` for arrays among their parameters.
"""
