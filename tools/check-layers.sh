#!/usr/bin/env bash
# Checks the rules on the sources that a compiler does not check:
#  - a layer includes only itself and the layers before it (three see fewer, below);
#  - memory is allocated and text is formatted in base/base.c alone, printed in cli alone, the
#    environment is read in driver and cli alone, and only cli may end the process;
#  - no file has more than 800 lines.
# Prints each breach as FILE:LINE: what, and exits 1 if there is any. check-layers.sh [ROOT]
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

# shellcheck disable=SC2016 # awk's dollars
rules='
BEGIN {
    n = split("base ops graph fn opt tile fuse gen eval rt front driver cli", layers, " ")
    for (i = 1; i <= n; i++) {
        before = before " " layers[i]
        sees[layers[i]] = before
    }
    sees["eval"] = " base ops graph eval"
    sees["rt"] = " base ops rt"
    sees["front"] = " base ops graph front"
    limit("malloc calloc realloc free aligned_alloc posix_memalign strdup strndup asprintf alloca",
          "src/base/base.c")
    limit("sprintf snprintf vsprintf vsnprintf", "src/base/base.c and cli")
    limit("printf vprintf fprintf vfprintf puts fputs putchar fputc putc perror dprintf", "cli")
    limit("abort exit _Exit quick_exit", "cli")
    limit("getenv secure_getenv", "driver and cli")
}

# The functions of a list are called in these places only.
function limit(names, places,    i, n, name) {
    n = split(names, name, " ")
    for (i = 1; i <= n; i++) only[name[i]] = places
}

function breach(line, what) {
    printf "%s:%d: %s\n", FILENAME, line, what
}

FNR == 1 {
    layer = FILENAME
    sub(/^src\//, "", layer)
    sub(/\/.*/, "", layer)
    if (!(layer in sees)) breach(1, "no such layer")
    comment = 0
}

/^[ \t]*#[ \t]*include[ \t]*"[^"]+\// {
    target = $0
    sub(/^[^"]*"/, "", target)
    sub(/".*/, "", target)
    first = target
    sub(/\/.*/, "", first)
    public = target == "proem/status.h" || (first == "proem" && (layer == "driver" || layer == "cli"))
    if (!public && index(sees[layer] " ", " " first " ") == 0)
        breach(FNR, layer " must not include " target " (it sees:" sees[layer] ")")
}

# Drop comments and string literals; then every name before a "(" is a call, unless it is a member.
{
    line = $0; code = ""
    while (line != "") {
        if (comment) {
            end = index(line, "*/")
            if (end == 0) break
            line = substr(line, end + 2); comment = 0
        } else if (match(line, /\/\*|\/\/|"([^"\\]|\\.)*"|\047([^\047\\]|\\.)*\047/)) {
            code = code substr(line, 1, RSTART - 1) " "
            token = substr(line, RSTART, RLENGTH)
            line = substr(line, RSTART + RLENGTH)
            if (token == "//") break
            if (token == "/*") comment = 1
        } else { code = code line; line = "" }
    }
    while (match(code, /[A-Za-z_][A-Za-z0-9_]*[ \t]*\(/)) {
        name = substr(code, RSTART, RLENGTH - 1)
        sub(/[ \t]+$/, "", name)
        previous = RSTART > 1 ? substr(code, RSTART - 1, 1) : " "
        code = substr(code, RSTART + RLENGTH)
        if (!(name in only) || previous == "." || previous == ">") continue
        if (index(" " only[name] " ", " " FILENAME " ") == 0 &&
            index(" " only[name] " ", " " layer " ") == 0)
            breach(FNR, name " is only called in " only[name])
    }
}
'

found=$(
    find src -name '*.[ch]' ! -path 'src/gen/c/prelude/*' ! -path 'src/gen/c/templates/*' -print0 |
        sort -z | xargs -0 -r awk "$rules"
    find src include tests bench tools \( -name '*.[ch]' -o -name '*.cu' -o -name '*.py' -o -name '*.sh' \) \
        -exec awk 'FNR == 801 { print FILENAME ":801: more than 800 lines" }' {} +
)
[ -z "$found" ] && exit 0
printf '%s\n' "$found"
exit 1
