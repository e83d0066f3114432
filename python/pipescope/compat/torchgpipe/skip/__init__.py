"""Skip connections."""

from torch import nn

from pipescope import skip
from pipescope.skip import Namespace, pop, skippable, stash

__all__ = ["Namespace", "pop", "skippable", "stash", "verify_skippables"]


def verify_skippables(module: nn.Sequential) -> None:
    """As torchgpipe's: each skip is popped once."""
    skip.verify_skippables(module, pops_once=True)
