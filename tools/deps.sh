#!/usr/bin/env bash
# Installs the Debian packages that building, testing and linting need and this machine lacks, and
# those named as arguments.
# Says nothing when all are there. On a system without apt-get it only checks for the tools.
set -euo pipefail

packages=(gcc libc6-dev clang cmake make pkg-config python3 libjansson-dev libhwloc-dev libzip-dev
    libxxhash-dev libpthreadpool-dev libprotobuf-c-dev protobuf-c-compiler python3-pip libcmocka-dev
    libdlpack-dev clang-format clang-tidy zstd
    libclang-rt-14-dev libopenblas-dev "$@")

if ! command -v apt-get >/dev/null; then
    for tool in cc cmake make pkg-config python3; do
        command -v "$tool" >/dev/null || { echo "deps: $tool is missing" >&2; exit 1; }
    done
    exit 0
fi

installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null |
    awk '$2 == "installed" {print $1}') || true
missing=()
for package in "${packages[@]}"; do
    grep -qx "$package" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "deps: as root: apt-get install ${missing[*]}" >&2; exit 1; }
    as_root=(sudo)
fi
echo "deps: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get -o Acquire::Retries=3 update -qq
"${as_root[@]}" apt-get -o Acquire::Retries=3 install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
