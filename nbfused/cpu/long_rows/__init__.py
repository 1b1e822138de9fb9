"""`Row` of few long rows: threads share the chunks of each.

================= ==================================================================
`held`            values and copies of rows too long for the stack
`launcher`        launches of the phases, one after another
`schedule`        the phases in which stages are folded
`text`            generated text of the kernel
================= ==================================================================
"""
