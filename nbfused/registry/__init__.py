"""The registries of backends and of operations.

`backends` enables backends and finds the owner of an array, `plugins` loads them,
`info` describes one, `unowned` says why a device has none, `operations` is the table of
ops, `report` prints all of it.
"""
