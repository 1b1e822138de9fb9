"""The scalar language: functions of numbers, from source to the text of kernels.

`source` finds a function, `parse` reads Python and `cparse` C, `ir` is what both give,
`typing` decides dtypes, `autodiff` differentiates, `printing` writes text for each
compiler; `language` is the vocabulary.
"""
