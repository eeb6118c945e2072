#!/usr/bin/env bash
# docs/ops.md is what tools/opsdoc.c writes: ops.sh OPSDOC. Rewrite it with OPSDOC >docs/ops.md.
set -euo pipefail
diff -u "$(dirname "$0")/../../docs/ops.md" <("$1")
