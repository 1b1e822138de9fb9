"""Control flow of C bodies: `loops` and ``goto``, `switches`."""
