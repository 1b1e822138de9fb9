"""PyTorch's functions on tensors that `fuse` traces; torch is not imported.

`dtypes`      the dtype of a result
`functions`   what a function is here: an op, a row of the table, a call
`table`       the rows, by name
`arrays`      rows of the table: shapes, parts, joined tensors
`reductions`  rows of the table: along axes
`networks`    rows of the table: ``torch.nn.functional``
`gradients`   derivatives of calls by PyTorch's own tape
"""
