#!/usr/bin/env bash
# Links between documents and sources: every rule that the scheduler gives an edge has a row in
# docs/fusion.md and the other way round; links to files of the project lead somewhere; every dtype
# and operator is named in docs/language.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
bad=0

# A rule is assigned, or handed to a function beside its reason.
rules=$(cat src/fuse/*.c | tr '\n' ' ' | grep -oE \
    'rule = "[a-z-]+"|store_(in|map)\([^;"]*("[a-z-]+"[^;"]*)+"' | grep -oE '"[a-z-]+"' | tr -d '"' | sort -u)
rows=$(sed -n 's/^| `\([a-z-]*\)` | .*/\1/p' docs/fusion.md | sort -u)
[ "$(wc -w <<<"$rules")" -ge 8 ] || { echo "too few rules found in src/fuse"; bad=1; }
diff <(printf '%s\n' "$rules") <(printf '%s\n' "$rows") || {
    echo "the rules of src/fuse (<) and those of docs/fusion.md (>) differ"
    bad=1
}

for document in *.md docs/*.md; do
    while read -r target; do
        [ -e "$(dirname "$document")/${target%%#*}" ] || {
            echo "$document: no file $target"
            bad=1
        }
    done < <(grep -oE '\]\([^)]+\)' "$document" | tr -d '](' | tr -d ')' | grep -v '^https\?:\|^#' || true)
done

# docs/formats.md has a row for each of ops/block.def, with its numbers.
diff <(sed -n 's/^BLOCK([A-Z0-9_]*, "\([a-z0-9_]*\)", \([0-9]*\), \([0-9]*\), \([0-9]*\),.*/| `\1` | \2 | \3 | \4 |/p' \
    src/ops/block.def) <(sed -n 's/^\(| `[a-z0-9_]*` | [0-9]* | [0-9]* | [0-9]* |\).*/\1/p' docs/formats.md) || {
    echo "the rows of src/ops/block.def (<) and those of docs/formats.md (>) differ"
    bad=1
}

while read -r word; do
    grep -qE "(^|[^a-z0-9_])$word([^a-z0-9_]|\$)" docs/language.md || {
        echo "docs/language.md does not name $word"
        bad=1
    }
done < <(sed -n 's/^EW([A-Z0-9_]*, *"\([a-z0-9_]*\)".*/\1/p' src/ops/ops.def | grep -v gelu_tanh
    sed -n '/define OP_STRUCT_LIST/,/X(ATTENTION/s/.*X([A-Z0-9_]*, "\([a-z0-9_]*\)").*/\1/p' src/ops/op.h
    sed -n '/define DTYPE_LIST/,/X(BOOL/s/.*X([A-Z0-9_]*, "\([a-z0-9]*\)".*/\1/p' src/ops/dtype.h
    sed -n 's/^BLOCK([A-Z0-9_]*, "\([a-z0-9_]*\)".*/\1/p' src/ops/block.def)
exit $bad
