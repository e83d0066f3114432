"""torchgpipe's public names, over PipeScope's engine."""

from pipescope._gpipe import is_checkpointing, is_recomputing
from pipescope.compat.torchgpipe.gpipe import GPipe

__all__ = ["GPipe", "is_checkpointing", "is_recomputing"]
__version__ = "0.0.7"
