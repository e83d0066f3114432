"""Skip connections."""

from torch import nn

from pipescope.skip import Namespace, _verify, pop, skippable, stash

__all__ = ["Namespace", "pop", "skippable", "stash", "verify_skippables"]


def verify_skippables(module: nn.Sequential) -> None:
    """As torchgpipe's: each skip is popped once."""
    _verify(module, pops_once=True)
