#!/usr/bin/env bash
# clang-tidy over every source of the library and the command, several at once: tidy.sh BUILD JOBS.
# BUILD has compile_commands.json and the generated sources. A file is looked at again only if it, a
# header of the project that it includes, .clang-tidy, its command or clang-tidy itself has changed:
# BUILD/tidy holds a stamp for each that passed. Exits 1 if there is a finding.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --one ]; then
    build=$2 file=$3
    read -r -a flags <"$build/tidy/flags"
    # The text after preprocessing lacks comments, and so NOLINT: hash the files themselves.
    mapfile -t parts < <(cc "${flags[@]}" -MM "$file" | tr -d '\\' | tr ' ' '\n' | grep -E '^(src|include)/')
    key=$(cat "$build/tidy/base" "${parts[@]}" | sha256sum | cut -c 1-32)
    stamp=$build/tidy/$key
    [ -e "$stamp" ] && exit 0
    clang-tidy -p "$build" --quiet --warnings-as-errors='*' "$file" 2>/dev/null || exit 1
    touch "$stamp"
    exit 0
fi
build=$1 jobs=$2
mkdir -p "$build/tidy"
pkgs='jansson hwloc libzip libxxhash'
# shellcheck disable=SC2086 # several words
echo "-std=c11 -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc -I$build/onnx $(pkg-config --cflags $pkgs)" >"$build/tidy/flags"
{
    clang-tidy --version
    cat .clang-tidy "$build/tidy/flags"
} >"$build/tidy/base"
# Templates and prelude are C for generated units: the tests of templates compile them with warnings.
without=(':!src/gen/c/templates/*' ':!src/gen/c/prelude/*')
[ -e "$build/onnx/onnx-ml.pb-c.h" ] || without+=(':!src/front/onnx/*')
git ls-files 'src/*.c' "${without[@]}" |
    xargs -n 1 -P "$jobs" "$0" --one "$build"
