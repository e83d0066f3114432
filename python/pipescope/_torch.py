"""Loads the half of PipeScope that needs torch, or says why it cannot."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any

from pipescope._installed import PACKAGE, package_for


def supported() -> list[str]:
    """The minor versions of torch for which an engine is installed, ascending."""
    names = [each.name for each in pkgutil.iter_modules() if re.fullmatch(PACKAGE + r"\d+_\d+", each.name)]
    return [f"{major}.{minor}" for major, minor in sorted(tuple(map(int, name.split("_")[2:])) for name in names)]


def _load_engine() -> Any:
    versions = supported()
    if not versions:
        raise ImportError(
            "this part of pipescope needs its engine, and none is installed; "
            "install the wheel pipescope-torch, which scripts/wheel makes for your torch"
        )
    remedy = f"install one that fits: pip install 'torch=={versions[-1]}.*'"
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(
            f"this part of pipescope needs torch {' or '.join(versions)}, and there is no torch; {remedy}"
        ) from None
    version = str(torch.__version__)
    minor = ".".join(version.split(".")[:2])
    if minor not in versions:
        raise ImportError(f"torch is {version}; the engine is installed for torch {' and '.join(versions)}; {remedy}")
    return importlib.import_module(f"{package_for(version)}._engine")


engine: Any = _load_engine()

__all__ = ["engine", "supported"]
