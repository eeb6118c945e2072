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
#include <proem/proem.h>
#include <stdio.h>
int main(void) {
    return puts(proem_version()) < 0;
}
END
PKG_CONFIG_PATH=$(dirname "$(find "$root/usr" -name proem.pc)")
export PKG_CONFIG_PATH
version=$(pkg-config --modversion proem)
says_version() { # PROGRAM..
    [ "$("$@")" = "$version" ] || { echo "$*: not version $version" >&2; exit 1; }
}
# Words are wanted: pkg-config prints several options.
# shellcheck disable=SC2046
cc "$root/use.c" $(pkg-config --cflags --libs proem) -o "$root/use"
says_version env LD_LIBRARY_PATH="$(pkg-config --variable=libdir proem)" "$root/use"
# shellcheck disable=SC2046
cc "$root/use.c" -Wl,-Bstatic -L"$(pkg-config --variable=libdir proem)" -lproem -Wl,-Bdynamic \
    $(pkg-config --static --cflags --libs proem) -o "$root/use_static"
says_version "$root/use_static"
if [ -x "$root/usr/bin/proem" ]; then
    "$root/usr/bin/proem" --version | grep -qF "$version"
fi

examples=$(dirname "$0")/../../examples
# shellcheck disable=SC2046
cc "$examples/linear.c" $(pkg-config --cflags --libs proem) -o "$root/linear"
LD_LIBRARY_PATH=$(pkg-config --variable=libdir proem) "$root/linear"
if command -v c++ >/dev/null; then
    # shellcheck disable=SC2046
    c++ "$examples/header.cpp" $(pkg-config --cflags --libs proem) -o "$root/header"
    LD_LIBRARY_PATH=$(pkg-config --variable=libdir proem) "$root/header"
fi

mkdir "$root/consumer"
cp "$root/use.c" "$examples/linear.c" "$root/consumer"
cat >"$root/consumer/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(consumer C)
find_package(proem REQUIRED)
foreach(kind shared static)
  foreach(program use linear)
    add_executable(${program}_${kind} ${program}.c)
    target_link_libraries(${program}_${kind} proem::${kind})
  endforeach()
endforeach()
END
cmake -S "$root/consumer" -B "$root/consumer/build" -DCMAKE_PREFIX_PATH="$root/usr" >/dev/null
cmake --build "$root/consumer/build" >/dev/null
says_version "$root/consumer/build/use_shared"
says_version "$root/consumer/build/use_static"
"$root/consumer/build/linear_shared"
"$root/consumer/build/linear_static"
for file in man/man1/proem.1 bash-completion/completions/proem zsh/site-functions/_proem; do
    [ -s "$root/usr/share/$file" ] || { echo "$file is not installed" >&2; exit 1; }
done
echo "installed and used"
