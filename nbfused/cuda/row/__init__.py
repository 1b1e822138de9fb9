"""`Row` on CUDA: a group of lanes for each row.

`launcher` chooses among the plans of `plan`, by the facts of `text`.  `skeleton` is the
kernel; in it `scope` names values and places, `elements` (with `streamed` and `tiled`)
brings a row's elements, `stages` reduces them (`reductions` by lane, `cluster` across
blocks), `sums` adds over rows and `results` stores.  `total` is the kernel that adds
the blocks' sums, `index` compares column numbers.  Few long rows, and rows that lie
across, are `split` into reductions and a map.
"""
