"""``python -m pipescope`` and the script ``pipescope``: the commands, which are a program of their own."""

from __future__ import annotations

import os
import pathlib
import signal
import sys
from typing import NoReturn

from pipescope._installed import engine_package, folder_of

PROGRAM = pathlib.Path(__file__).parent.absolute() / "commands" / "bin" / "pipescope"


def _name_torch_program() -> None:
    """Tells the commands of this Python, of the engine for its torch, and of torch's libraries if they are not beside it."""
    os.environ.setdefault("PIPESCOPE_PYTHON", sys.executable)  # it runs models that are functions in Python
    package = engine_package()
    engine, torch = package and folder_of(package), folder_of("torch")
    if not engine or not (engine / "bin" / "pipescope-torch").exists():
        return
    os.environ.setdefault("PIPESCOPE_TORCH_PROGRAM", str(engine / "bin" / "pipescope-torch"))
    if torch and torch.parent != engine.parent:
        libraries = [torch / "lib", *sorted(torch.parent.glob("nvidia/*/lib"))]
        before = os.environ.get("LD_LIBRARY_PATH")
        os.environ["LD_LIBRARY_PATH"] = ":".join([*map(str, libraries), *([before] if before else [])])


def main() -> NoReturn:
    _name_torch_program()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # closed by the caller
                stream.flush()
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # which Python ignores, and the program would after it
        os.execv(PROGRAM, ["pipescope", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"pipescope: {PROGRAM} cannot be started: {error.strerror}; install pipescope again")


if __name__ == "__main__":
    main()
