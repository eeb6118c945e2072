#!/usr/bin/env bash
# ONNX's own runner on proem: backend.sh PROEM WHERE SCRATCH DEVICE JOBS [ONLY]. WHERE is a folder of
# node tests or a .tar.zst of one. Where the Python package onnx is not there (PYTHON names the
# interpreter) it is fetched into SCRATCH; where that fails too, or there are no tests, the test is
# skipped (77).
set -euo pipefail
proem=$1 where=$2 scratch=$3
shift 3
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
skip() {
    echo "$1"
    echo "0 passed, 0 failed, 0 skipped"
    exit 77
}
has() { "$python" -c 'import onnx.backend.test, ml_dtypes' 2>/dev/null; }
[ -e "$where" ] || skip "there are no node tests at $where"
if ! has; then
    export PYTHONPATH=$scratch/python
    has || "$python" -m pip install --quiet --disable-pip-version-check --retries 1 \
        --target "$PYTHONPATH" onnx==1.23.2 ml_dtypes >/dev/null 2>&1 || true
fi
has || skip "there is no Python with onnx"
where=$("$here/../drivers/unpacked.sh" "$where" "$scratch")
first=$(find "$where" -maxdepth 4 -name model.onnx -print -quit)
exec "$python" "$here/backend.py" "$proem" "$(dirname "$(dirname "$first")")" "$@"
