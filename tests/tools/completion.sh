#!/usr/bin/env bash
# bash completes commands, options, their values and files of the right kind.
set -euo pipefail
source "$(cd "$(dirname "$0")/../.." && pwd)/tools/completion/proem.bash"
compopt() { :; } # only exists while readline completes

expect() { # WANT WORD..: the last word is the one to complete
    local want=$1
    shift
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _proem
    [ "${COMPREPLY[*]}" = "$want" ] ||
        { echo "'$*' completes to '${COMPREPLY[*]}', expected '$want'" >&2; exit 1; }
}

expect "explain emit" proem e
expect "--device" proem run --de
expect "cpu cuda ref" proem run --device ""
expect "cuda" proem run --device = cu
expect "cpu cuda ref" proem run --device =
expect "stat clear" proem cache ""
expect "" proem fmt --check
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cd "$root"
touch a.proem b.npy c.safetensors
expect "a.proem" proem run ""
expect "c.safetensors" proem run --weights ""
expect "b.npy" proem run --in "b"
echo "completion works"
