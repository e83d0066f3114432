from typing import Any

# The modules that use it give its functions their types.
def __getattr__(name: str) -> Any: ...
