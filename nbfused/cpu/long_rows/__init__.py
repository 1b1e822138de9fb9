"""`Row` of few long rows: threads share the chunks of each.

================= ==================================================================
`launcher`        launches of the phases, one after another
`schedule`        the phases in which stages are folded
`text`            generated text of the kernel
================= ==================================================================
"""
