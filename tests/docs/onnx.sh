#!/usr/bin/env bash
# docs/onnx.md is what tools/onnxdoc.c writes: onnx.sh ONNXDOC. Rewrite it with ONNXDOC >docs/onnx.md.
set -euo pipefail
diff -u "$(dirname "$0")/../../docs/onnx.md" <("$1")
