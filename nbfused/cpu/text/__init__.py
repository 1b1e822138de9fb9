"""Generated text of CPU kernels, and the LLVM intrinsics that it calls.

================ =====================================================================
`boxes`          the inner loop of a Map with windows, its interior apart
`call_code`      calls of C functions by their address, an intrinsic
`divisions`      divisions of a point's index by a number, once for a row
`elements`       lines that load parameters and compute results
`fold`           folds of many elements into one state, in a fixed order
`function_names` names by which text calls operations of the scalar language
`halves`         conversions between float32 and float16 or bfloat16, stored as uint16
`idioms`         operations rebuilt from the primitive ones that typing expands
`intrinsics`     LLVM intrinsics that Numba's Python lacks
`lines`          building blocks of generated text: functions, loops, local arrays
`operands`       arrays, numbers, and the layout of a kernel's arguments
`reuse`          costly values that a later stage of a row needs again
`starts`         starts of kernels by their frames
`stream`         streaming stores: results written to memory past the caches
`stream_code`    streaming stores as LLVM intrinsics for generated text
================ =====================================================================
"""
