#!/bin/sh
# SimPy on the schedule of simulator_benchmark, in a virtual environment of its own.
# Usage: benchmarks/peers/simpy_peer.sh [build/release/bin/simulator_benchmark]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
environment="${PIPESCOPE_PEERS:-$here/../../build/peers}/simpy"
if [ ! -x "$environment/bin/python" ]; then
    python3 -m venv "$environment"
    "$environment/bin/pip" install --quiet simpy==4.1.1
fi
exec "$environment/bin/python" "$here/simpy_peer.py" "$@"
