"""``python -m pipescope`` and the script ``pipescope``: the commands, which are a program of their own."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import sys
from typing import NoReturn

PROGRAM = pathlib.Path(__file__).parent.absolute() / "commands" / "bin" / "pipescope"


def _name_torch_program() -> None:
    """Tells the commands of the engine for the installed torch. It does not import torch, which takes seconds."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return
    package = f"pipescope_torch_{'_'.join(version.split('.')[:2])}"
    program = PROGRAM.parents[3] / package / "bin" / "pipescope-torch"
    if program.exists():
        os.environ.setdefault("PIPESCOPE_TORCH_PROGRAM", str(program))


def main() -> NoReturn:
    _name_torch_program()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(PROGRAM, ["pipescope", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"pipescope: {PROGRAM} cannot be started: {error.strerror}; install pipescope again")


if __name__ == "__main__":
    main()
