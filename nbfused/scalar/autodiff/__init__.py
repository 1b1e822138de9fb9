"""Derivatives of scalar functions.

`differentiate` has `vjp` and `jvp`.

- Forward mode: `forward`.
- Reverse mode: `reverse` through blocks; `replay` through loops, as `recording` or
  recomputation, whichever `preferences` ask for; `counted` makes loops countable,
  `repeatable` refuses values that cannot be computed again, `pure` runs a part again
  without its effects.
- Operation by operation: `adjoints`, `activity`; `reach` knows on which paths a
  cotangent arrives.
- Users' rules: `custom`, `rules`, and `rule_arrays` for arrays among their parameters.
"""
