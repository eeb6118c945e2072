#!/usr/bin/env bash
# Every row of the prelude's sections.def names files that compile alone, in the order of the row
# "all", and every function family of ops.def has a row. sections.sh [CC [FLAGS..]]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
prelude=$root/src/gen/c/prelude
compiler=("${1:-cc}" "${@:2}" -std=gnu11 -fsyntax-only -Wall -Wextra -Werror -Wno-psabi)

# "" and adjacent string literals are joined by the preprocessor's reader below.
rows=$(printf '#define PRELUDE(family, files) family @ files ;\n#include "%s"\n' "$prelude/sections.def" |
    cc -E -P -x c - | tr '\n' ' ' | sed 's/" *"//g; s/; */\n/g')
files_of() {
    awk -F'"' -v want="$1" '$2 == want { print $4; exit }' <<<"$rows"
}
base=$(sed -n '1s/^ *@ *"\(.*\)".*/\1/p' <<<"$rows")
[ -n "$base" ] || base=$(files_of "")
all=$(files_of all)

bad=0
seen=""
while read -r family; do
    if ! grep -q "^ *\"$family\"" <<<"$rows"; then
        echo "sections.def has no row for @$family"
        bad=1
    fi
    need=" $base $(files_of "$family") "
    text="#include \"$root/src/base/kernel_abi.h\""
    for file in $all; do
        case $need in *" $file "*) text+=$'\n'"#include \"$prelude/$file\"" ;; esac
    done
    for file in $need; do
        case " $all " in *" $file "*) ;; *)
            echo "the row \"all\" lacks $file"
            bad=1
            ;;
        esac
    done
    case $seen in *"<$need>"*) continue ;; esac
    seen+="<$need>"
    text+=$'\n'"vf32 use(vf32 x); vf32 use(vf32 x) { return x; }"
    if ! "${compiler[@]}" -x c - <<<"$text"; then
        echo "the files of \"$family\" do not compile alone: $need"
        bad=1
    fi
done < <(sed -n 's/.*"@\([a-z0-9_]*\)".*/\1/p' "$root/src/ops/ops.def" | sort -u
    printf '%s\n' hsum hprod hmax hmin all)
[ "$(printf '%s' "$seen" | tr -cd '<' | wc -c)" -ge 5 ] || {
    echo "found no rows"
    exit 1
}
exit $bad
