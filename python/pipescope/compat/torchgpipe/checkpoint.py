"""Where a layer runs."""

from pipescope._gpipe import is_checkpointing, is_recomputing

__all__ = ["is_checkpointing", "is_recomputing"]
