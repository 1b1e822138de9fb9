"""Direct calls: functions that repeat a call for arguments of given types.

========== ============================================================================
`calls`    calls of a spec
`composed` calls of a function that is views and one launch, by machine code
========== ============================================================================
"""

from .calls import direct_call
from .composed import ComposedCalls

__all__ = ["ComposedCalls", "direct_call"]
