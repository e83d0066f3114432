"""``python -m pipescope`` and the script ``pipescope``: the commands, which are a program of their own."""

from __future__ import annotations

import os
import pathlib
import sys
from typing import NoReturn

PROGRAM = pathlib.Path(__file__).parent.absolute() / "commands" / "bin" / "pipescope"


def main() -> NoReturn:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(PROGRAM, ["pipescope", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"pipescope: {PROGRAM} cannot be started: {error.strerror}; install pipescope again")


if __name__ == "__main__":
    main()
