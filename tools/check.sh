#!/usr/bin/env bash
# Configures, builds and tests one preset of CMakePresets.json, printing each command before it runs:
# check.sh PRESET JOBS. The last lines are ctest's summary.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
jobs=$2

run() {
    printf '+ %s\n' "$*"
    "$@"
}

run cmake --preset "$preset" >/dev/null
run cmake --build --preset "$preset" -j "$jobs" -- --no-print-directory
run ctest --preset "$preset" -j "$jobs"
