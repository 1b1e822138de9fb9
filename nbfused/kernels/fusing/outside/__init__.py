"""Values that a fused function reads and changes besides its arguments.

- `scope` is the key of what it reads from outside; `hidden` passes the arrays of that.
- `containers` looks into lists, dictionaries and objects; `attributes` has the numbers
  of objects that are passed by value, `changes` what is assigned.
- `made` follows arrays that NumPy makes of numbers alone, which are constants.
- `watching` notices clocks, files and random numbers; `lines` finds the user's line.
"""
