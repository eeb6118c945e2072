#!/usr/bin/env bash
# The shared library exports what the headers declare and nothing else. check.sh LIBRARY
set -euo pipefail
nm -D --defined-only "$1" | awk '{ print $3 }' | sort |
    diff -u "$(dirname "$0")/symbols.txt" - || {
    echo "the exported symbols differ from tests/abi/symbols.txt" >&2
    exit 1
}
