#!/bin/sh
# Predicts published training runs, and writes docs/evidence/published-pipelines.md. Needs no device and no profiles.
# Usage: benchmarks/published.sh [BIN]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
bin=${1:-$root/build/release/bin}
"$bin/published" "$root" >"$root/docs/evidence/published-pipelines.md.new"
mv "$root/docs/evidence/published-pipelines.md.new" "$root/docs/evidence/published-pipelines.md"
echo "wrote docs/evidence/published-pipelines.md" >&2
