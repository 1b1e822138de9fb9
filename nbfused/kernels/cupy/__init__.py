"""Kernels in CuPy's words: strings of C or Python in slots, and native source.

- `elementwise_kernel`: `ElementwiseKernel`; `bodies` parses its body, `prepared` runs
  it for some types, `sources` shows its texts.
- `reduction_kernel`: `ReductionKernel`; `slots` parses its four slots, `combining`
  finds the combine.
- `codes`: the texts that a kernel ran, which both show.
- `parameters` and `arguments`: lists of parameters, and what they are given.
- `rawmodule`: `RawModule` and `RawKernel`, whose arguments `by_value` packs;
  `launching` reads what else a launch takes.
"""
