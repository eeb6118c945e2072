#!/usr/bin/env bash
# Runs a Python script that needs the packages onnx and onnxruntime: peers.sh SCRATCH SCRIPT [ARG..].
# Where the interpreter (PYTHON names it) has none of them they are fetched into SCRATCH; where that
# fails too the script is run without, and says so.
set -euo pipefail
scratch=$1
shift
python=${PYTHON:-python3}
has() { "$python" -c 'import numpy, onnx, onnxruntime' 2>/dev/null; }
if ! has; then
    export PYTHONPATH=$scratch/python
    has || "$python" -m pip install --quiet --disable-pip-version-check --retries 1 \
        --target "$PYTHONPATH" onnx==1.23.2 onnxruntime==1.32.0 ml_dtypes >/dev/null 2>&1 || true
fi
exec "$python" "$@"
