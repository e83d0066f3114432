"""Programs written for torchgpipe run on this engine: call install() before they import torchgpipe."""

from __future__ import annotations

import importlib
import pkgutil
import sys

from pipescope.errors import UsageError

__all__ = ["install"]


def install() -> None:
    """From now on ``import torchgpipe`` is ours: GPipe, is_checkpointing, is_recomputing, and its modules skip, batchnorm and
    balance. Internal modules of torchgpipe are not there. The installed torchgpipe, if any, stays as it is.

    Raises UsageError if torchgpipe itself has been imported already.
    """
    ours = importlib.import_module("pipescope.compat.torchgpipe")
    loaded = sys.modules.get("torchgpipe")
    if loaded is not None and loaded is not ours:
        raise UsageError("torchgpipe has been imported already; call pipescope.compat.install() before its first import")
    sys.modules["torchgpipe"] = ours
    for found in pkgutil.walk_packages(ours.__path__, ours.__name__ + "."):
        sys.modules[found.name[len("pipescope.compat.") :]] = importlib.import_module(found.name)
