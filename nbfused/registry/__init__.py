"""The registries of backends and of operations.

`backends` enables backends and finds the owner of an array, by a `selection` of those
that `plugins` loads; `info` describes one, `unowned` says why a device has none,
`operations` is the table of ops, `report` prints all of it.
"""
