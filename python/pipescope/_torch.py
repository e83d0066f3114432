"""Loads the half of PipeScope that needs torch, or says why it cannot."""

from __future__ import annotations

import importlib.util

SUPPORTED = "2.11"  # the engine uses autograd's internals, which change between minor versions


def _check_torch() -> None:
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(
            f"this part of pipescope needs torch {SUPPORTED}, and there is no torch; "
            f"install it: pip install 'torch=={SUPPORTED}.*'"
        ) from None

    version = str(torch.__version__)
    if not version.startswith(SUPPORTED + "."):
        raise ImportError(
            f"torch is {version}; this part of pipescope is built for torch {SUPPORTED}; "
            f"install it: pip install 'torch=={SUPPORTED}.*'"
        )
    if importlib.util.find_spec("pipescope._engine") is None:
        raise ImportError(
            "this build of pipescope has no engine, since it was built where there was no torch; install a wheel that "
            f"has it, or, in a clone: pip install 'torch=={SUPPORTED}.*', then pip install --force-reinstall --no-deps ."
        )


_check_torch()

from pipescope import _engine as engine  # noqa: E402  after the check, whose message is clearer

__all__ = ["SUPPORTED", "engine"]
