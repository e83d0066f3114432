"""Which engine is installed for the installed torch. Nothing here imports torch, which takes seconds."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import pathlib

PACKAGE = "pipescope_torch_"  # and the minor version, 2_15: the engine uses autograd's internals, which change with it


def package_for(version: str) -> str:
    """The name of the engine's package for this version of torch."""
    return PACKAGE + "_".join(version.split(".")[:2])


def folder_of(package: str) -> pathlib.Path | None:
    """The folder of a package that can be imported; None if there is none."""
    spec = importlib.util.find_spec(package)
    return None if spec is None or not spec.submodule_search_locations else pathlib.Path(spec.submodule_search_locations[0])


@functools.cache
def engine_package() -> str | None:
    """The package of the engine for the installed torch; None if one of the two is missing."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None
    package = package_for(version)
    return None if folder_of(package) is None else package
