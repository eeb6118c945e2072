#!/usr/bin/env bash
# Runs ONNX's node tests: onnx.sh DRIVER WHERE SCRATCH [SETTING=VALUE..]. WHERE is a folder of cases,
# or a .tar.zst of one. Where there is none the test is skipped (exit status 77).
set -euo pipefail
driver=$1 where=$2 scratch=$3
shift 3
if [ ! -e "$where" ]; then
    echo "there are no node tests at $where"
    echo "0 passed, 0 failed, 0 skipped"
    exit 77
fi
where=$("$(dirname "$0")/unpacked.sh" "$where" "$scratch")
# The cases may lie in a folder of the archive.
first=$(find "$where" -maxdepth 4 -name model.onnx -print -quit)
exec "$driver" DIR="$(dirname "$(dirname "$first")")" "$@"
