#!/usr/bin/env bash
# Checks the rules on the sources that a compiler does not check:
#  - a layer includes only itself and the layers before it (three see fewer, below);
#  - memory is allocated and text is formatted in base/base.c alone, printed in cli alone, the
#    environment is read in driver and cli alone, and only cli may end the process;
#  - no file has more than 800 lines.
# Prints each breach as FILE:LINE: what, and exits 1 if there is any. check-layers.sh [ROOT]
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

order="base ops graph fn opt tile fuse gen eval rt front driver cli"
declare -A sees=()
before=""
for layer in $order; do
    before="$before $layer"
    sees[$layer]=$before
done
sees[eval]="base ops graph eval"
sees[rt]="base ops rt"
sees[front]="base ops graph front"

status=0
breach() {
    printf '%s\n' "$*"
    status=1
}

# The text of a file without comments and string literals, line by line.
stripped() {
    awk '
        {
            line = $0; out = ""
            while (line != "") {
                if (comment) {
                    end = index(line, "*/")
                    if (end == 0) break
                    line = substr(line, end + 2); comment = 0
                } else if (match(line, /\/\*|\/\/|"([^"\\]|\\.)*"|\047([^\047\\]|\\.)*\047/)) {
                    out = out substr(line, 1, RSTART - 1)
                    token = substr(line, RSTART, RLENGTH)
                    line = substr(line, RSTART + RLENGTH)
                    if (token == "//") break
                    if (token == "/*") comment = 1; else out = out "\"\""
                } else { out = out line; line = "" }
            }
            print out
        }' "$1"
}

check_includes() { # FILE LAYER
    local line target
    while IFS=: read -r line target; do
        case $target in
        proem/status.h) continue ;;
        proem/*) [[ $2 == driver || $2 == cli ]] && continue ;;
        esac
        [[ " ${sees[$2]} " == *" ${target%%/*} "* ]] ||
            breach "$1:$line: $2 must not include $target (it sees:${sees[$2]})"
    done < <(sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"([^"]+\/[^"]+)".*/\1/;T;=;p' "$1" |
        paste -d: - -)
}

# check_calls FILE NAMES WHERE: NAMES is an alternation of functions that only WHERE may call. A
# member call (p->free) and a longer name (arena_free) are something else.
check_calls() {
    local hit
    while IFS= read -r hit; do
        breach "$1:${hit%%:*}: ${hit#*:} is only called in $3"
    done < <(grep -noE "(^|[^A-Za-z0-9_>.])($2)[[:space:]]*\(" <<<"$text" |
        sed -E "s/^([0-9]+):.*[^A-Za-z0-9_]?($2)[[:space:]]*\($/\1:\2/" || true)
}

allocation='malloc|calloc|realloc|free|aligned_alloc|posix_memalign|strdup|strndup|asprintf|alloca'
formatting='sn?printf|vsn?printf'
printing='printf|vprintf|fprintf|vfprintf|puts|fputs|putchar|fputc|putc|perror|dprintf'
ending='abort|exit|_Exit|quick_exit'

while IFS= read -r file; do
    layer=${file#src/}
    layer=${layer%%/*}
    [[ -n ${sees[$layer]:-} ]] || { breach "$file:1: no such layer"; continue; }
    check_includes "$file" "$layer"
    text=$(stripped "$file")
    if [[ $file != src/base/base.c ]]; then
        check_calls "$file" "$allocation" src/base/base.c
        [[ $layer == cli ]] || check_calls "$file" "$formatting" "src/base/base.c (and cli)"
    fi
    [[ $layer == cli ]] || check_calls "$file" "$printing" cli
    [[ $layer == cli ]] || check_calls "$file" "$ending" cli
    [[ $layer == cli || $layer == driver ]] || check_calls "$file" getenv "driver and cli"
done < <(find src -name '*.[ch]' ! -path 'src/gen/c/prelude/*' ! -path 'src/gen/c/templates/*' | sort)

while IFS= read -r file; do
    lines=$(wc -l <"$file")
    [ "$lines" -le 800 ] || breach "$file:$lines: more than 800 lines"
done < <(find src include tests bench tools -name '*.[ch]' -o -name '*.cu' -o -name '*.py' -o -name '*.sh')

exit $status
