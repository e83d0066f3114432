"""What PipeScope raises. A message names the value, the rule and the remedy."""

from __future__ import annotations


class Error(Exception):
    """Base class of all errors of PipeScope. An exception of a layer of yours is never wrapped."""


class UsageError(Error, ValueError):
    """A wrong option or argument: the request can never work."""


class BalanceError(UsageError):
    """A balance that does not fit the layers."""


class ProfileError(Error, ValueError):
    """An unusable profile. The message starts with the JSON path of the fault, such as layers[3].forward_ns[1]."""


class TraceError(Error):
    """A trace that cannot be read or written."""


class TraceFormatError(TraceError):
    """A file that is not a trace, or of a version that cannot be read."""


class EngineError(Error, RuntimeError):
    """The engine cannot do what was asked."""


class LayerError(EngineError):
    """A layer that the engine cannot run."""


class ProcessError(EngineError):
    """Several processes that do not fit each other, or of which one failed."""
