#!/usr/bin/env bash
# Prints a folder with the files of WHERE: unpacked.sh WHERE SCRATCH. WHERE is a folder, or a
# .tar.zst, which is unpacked into SCRATCH once.
set -euo pipefail
where=$1 scratch=$2
if [ -f "$where" ]; then
    stamp=$scratch/$(sha256sum "$where" | cut -c 1-16)
    if [ ! -d "$stamp" ]; then
        mkdir -p "$scratch"
        work=$(mktemp -d "$scratch/unpack.XXXXXX")
        trap 'rm -rf "$work"' EXIT
        tar --zstd -xf "$where" -C "$work"
        mv "$work" "$stamp"
        trap - EXIT
    fi
    where=$stamp
fi
printf '%s\n' "$where"
