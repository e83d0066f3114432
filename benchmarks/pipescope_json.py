"""Runs the commands of build/release for the benchmarks of this folder."""

import json
import os
import subprocess
import sys

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PIPESCOPE = os.path.join(FOLDER, "build", "release", "bin", "pipescope")


def pipescope(*arguments):
    """The JSON of a command. A command that fails ends the benchmark with its message."""
    done = subprocess.run([PIPESCOPE, *arguments, "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        benchmark = os.path.splitext(os.path.basename(sys.argv[0]))[0]
        sys.exit(f"{benchmark}: pipescope {' '.join(arguments)} failed: {done.stderr}")
    return json.loads(done.stdout)
