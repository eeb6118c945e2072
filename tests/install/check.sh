#!/usr/bin/env bash
# Installs into a scratch folder and uses what is there as a stranger would: every public header
# compiles alone, as C and (if there is a C++ compiler) as C++; a program builds with pkg-config,
# shared and static, and with CMake's find_package. check.sh BUILD_DIR
set -euo pipefail
build=$1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cmake --install "$build" --prefix "$root/usr" >/dev/null

for header in "$root"/usr/include/proem/*.h; do
    printf '#include "proem/%s"\n' "$(basename "$header")" >"$root/alone.c"
    cp "$root/alone.c" "$root/alone.cc"
    cc -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$root/usr/include" -fsyntax-only "$root/alone.c"
    if command -v c++ >/dev/null; then
        c++ -Wall -Wextra -Werror -I"$root/usr/include" -fsyntax-only "$root/alone.cc"
    fi
done

cat >"$root/use.c" <<'END'
#include <proem/status.h>
int main(void) {
    return PROEM_OK;
}
END
PKG_CONFIG_PATH=$(dirname "$(find "$root/usr" -name proem.pc)")
export PKG_CONFIG_PATH
# Words are wanted: pkg-config prints several options.
# shellcheck disable=SC2046
cc "$root/use.c" $(pkg-config --cflags --libs proem) -Wl,--no-as-needed -o "$root/shared"
LD_LIBRARY_PATH=$(pkg-config --variable=libdir proem) "$root/shared"
pkg-config --exists proem

mkdir "$root/consumer"
cp "$root/use.c" "$root/consumer"
cat >"$root/consumer/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(consumer C)
find_package(proem REQUIRED)
foreach(kind shared static)
  add_executable(use_${kind} use.c)
  target_link_libraries(use_${kind} proem::${kind})
endforeach()
END
cmake -S "$root/consumer" -B "$root/consumer/build" -DCMAKE_PREFIX_PATH="$root/usr" >/dev/null
cmake --build "$root/consumer/build" >/dev/null
"$root/consumer/build/use_shared"
"$root/consumer/build/use_static"
man=$root/usr/share/man/man1/proem.1
[ -s "$man" ]
echo "installed and used"
