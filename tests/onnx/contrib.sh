#!/usr/bin/env bash
# com.microsoft's operators against ONNX Runtime on random models: contrib.sh DRIVER SCRATCH N SEED
# [SETTING=VALUE..]. Where the Python packages onnx and onnxruntime are not there (PYTHON names the
# interpreter) they are fetched into SCRATCH; where that fails too the test is skipped (77).
set -euo pipefail
driver=$1 scratch=$2 n=$3 seed=$4
shift 4
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
has() { "$python" -c 'import onnx, onnxruntime, ml_dtypes' 2>/dev/null; }
if ! has; then
    export PYTHONPATH=$scratch/python
    has || "$python" -m pip install --quiet --disable-pip-version-check --retries 1 \
        --target "$PYTHONPATH" onnx==1.23.2 onnxruntime==1.32.0 ml_dtypes >/dev/null 2>&1 || true
fi
if ! has; then
    echo "there is no Python with onnx and onnxruntime"
    echo "0 passed, 0 failed, 0 skipped"
    exit 77
fi
models=$scratch/models-$n-$seed
rm -rf "$models"
mkdir -p "$models"
"$python" "$here/contrib.py" "$models" "$n" "$seed"
exec "$driver" DIR="$models" NEAR=10 "$@"
