"""Values of several numbers that a function names or builds.

- `parts` of arrays; `structs`, of named tuples and dataclasses.
- `vectors`: vectors, matrices and quaternions, which compute by their own classes.
- `places`: targets of assignments, parts of all these among them.
"""
