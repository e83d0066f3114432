#!/bin/sh
# Predicts the published tables before any device is rented: profiles the models on torch's meta device, with times
# estimated for a Tesla P40, and writes docs/evidence/paper-tables.md. Usage: benchmarks/paper_tables.sh [BIN [PROFILES]]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
bin=${1:-$root/build/release/bin}
profiles=${2:-$root/build/paper-profiles}

mkdir -p "$profiles"

"$bin/paper_tables" --needs | while read -r model sizes file; do
    if [ ! -e "$profiles/$file" ]; then
        echo "profiling $model at $sizes" >&2
        "$bin/pipescope" profile "$model" --device meta --device-type P40 --micro-batch-sizes "$sizes" \
            -o "$profiles/$file.new" --force >/dev/null && mv "$profiles/$file.new" "$profiles/$file" ||
            echo "no profile of $model: its rows will say so" >&2
    fi
done

{
    cat "$root/benchmarks/paper_tables/head.md"
    "$bin/paper_tables" "$profiles"
} >"$root/docs/evidence/paper-tables.md.new"
mv "$root/docs/evidence/paper-tables.md.new" "$root/docs/evidence/paper-tables.md"
echo "wrote docs/evidence/paper-tables.md" >&2
