#!/usr/bin/env bash
# Puts ONNX's schema, onnx-ml.proto, into a folder: onnx-schema.sh DIR. It is taken out of the PyPI
# package onnx, of one version and with one check sum; PROEM_ONNX_SCHEMA names a file that is used
# instead, for machines without a network. Does nothing where the file is there already. Fails, with
# one line that says why, where it cannot be had.
set -uo pipefail
into=$1
version=1.23.2 # IR versions up to 13
sum=8f39d0a1ae1abef5ca648922cdb06716d6bd1573c9e972b42854c16e9e352c16

is_it() { [ -f "$1" ] && echo "$sum  $1" | sha256sum --check --status; }
refuse() {
    echo "onnx-schema: $1" >&2
    exit 1
}

is_it "$into/onnx-ml.proto" && exit 0
mkdir -p "$into" || exit 1
if [ -n "${PROEM_ONNX_SCHEMA:-}" ]; then
    is_it "$PROEM_ONNX_SCHEMA" || refuse "$PROEM_ONNX_SCHEMA is not the schema of onnx $version"
    cp "$PROEM_ONNX_SCHEMA" "$into/onnx-ml.proto"
    exit
fi
work=$(mktemp -d "$into/wheel.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
python3 -m pip --version >/dev/null 2>&1 || refuse "python3 has no pip to fetch onnx $version with"
# The schema is the same for every machine and interpreter: any wheel will do.
python3 -m pip download --quiet --disable-pip-version-check --retries 1 --timeout 20 --no-deps \
    --only-binary=:all: --python-version 3.12 --platform manylinux_2_28_x86_64 \
    --platform manylinux_2_27_x86_64 --dest "$work" "onnx==$version" >/dev/null 2>&1 ||
    refuse "pip cannot fetch onnx $version; PROEM_ONNX_SCHEMA=FILE names an onnx-ml.proto"
python3 -m zipfile -e "$work"/onnx-"$version"-*.whl "$work" || refuse "onnx $version: no archive"
is_it "$work/onnx/onnx-ml.proto" || refuse "onnx $version: the schema's check sum is another one"
mv "$work/onnx/onnx-ml.proto" "$into/onnx-ml.proto"
