"""Plans: programs for arguments of one layout, decided but for addresses and numbers.

- `planning` makes a plan when a program runs the second time for a layout.
- `layout` finds where in it each array lies.
- `plan` is what it has decided: launches, places of arrays, numbers.
- `concatenations` puts their pieces where they are computed.
- `exchanges` are calls between processes in a plan, on memory that does not move.
- `segments` are the plans between the calls of functions in Python.
- `plan_text` generates the function that runs it.
"""
