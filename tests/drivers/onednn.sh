#!/usr/bin/env bash
# Runs oneDNN's graphs: onednn.sh DRIVER WHERE SCRATCH [SETTING=VALUE..]. WHERE is a folder of them,
# or a .tar.zst of one. Where there is none the test is skipped (exit status 77).
set -euo pipefail
driver=$1 where=$2 scratch=$3
shift 3
if [ ! -e "$where" ]; then
    echo "there are no graphs at $where"
    echo "0 passed, 0 failed, 0 skipped"
    exit 77
fi
exec "$driver" DIR="$("$(dirname "$0")/unpacked.sh" "$where" "$scratch")" "$@"
