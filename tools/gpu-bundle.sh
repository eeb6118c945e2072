#!/usr/bin/env bash
# Builds what `make test-cuda` and `make bench-cuda` run, for a machine that has a GPU and not the
# packages of tools/deps.sh: the command, the test drivers and libproem.so, with the libraries that
# they need beside them. gpu-bundle.sh [DIR] (build/gpu); BUILD: the build folder.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
bundle=${1:-$root/build/gpu}
build=${BUILD:-$root/build/gpu-build}
programs=(graphs benchdnn ops test_reports_values test_reports_sums)

# $ORIGIN is for the dynamic linker; DT_RPATH, unlike DT_RUNPATH, holds for libraries of libraries.
cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DPROEM_TESTS=ON \
    -DCMAKE_BUILD_RPATH="\$ORIGIN/lib" -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags \
    -DCMAKE_SHARED_LINKER_FLAGS=-Wl,--disable-new-dtags >/dev/null
cmake --build "$build" -j "${JOBS:-$(nproc)}" --target proem_cli proem_shared "${programs[@]}" \
    >"$build/build.log" 2>&1 || { tail -n 40 "$build/build.log" >&2; exit 1; }

mkdir -p "$bundle/lib"
put() { # FILE NAME: a stripped copy, and the libraries that are not the C library's
    cp "$1" "$bundle/$2.new"
    strip --strip-unneeded "$bundle/$2.new"
    mv "$bundle/$2.new" "$bundle/$2"
    ldd "$1" | awk '/=> \// { print $3 }' |
        grep -vE '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so|/libproem\.' |
        while read -r library; do cp -Lu "$library" "$bundle/lib/"; done
}
put "$build/proem" proem
put "$build/libproem.so" libproem.so
for program in "${programs[@]}"; do put "$build/tests/$program" "$program"; done
echo "$bundle"
