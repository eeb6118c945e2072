#!/usr/bin/env bash
# Prints the file of an NVRTC for tests that compile kernels without a GPU: PROEM_NVRTC, the
# system's, a CUDA toolkit's, or else that of the PyPI package, downloaded into build/nvrtc.
# Prints nothing and fails where none is to be had.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
into=$root/build/nvrtc
version=13.0.88 # knows sm_80 to sm_120

found() {
    [ -e "$1" ] || return 1
    echo "$1"
    exit 0
}

[ -n "${PROEM_NVRTC:-}" ] && found "$PROEM_NVRTC"
for name in libnvrtc.so.13 libnvrtc.so.12; do
    path=$(ldconfig -p 2>/dev/null | awk -v n="$name" '$1 == n { print $NF; exit }')
    [ -n "$path" ] && found "$path"
    found "/usr/local/cuda/lib64/$name"
done
unpacked() { find "$into" -name 'libnvrtc.so.1?' 2>/dev/null | head -n 1; }
[ -n "$(unpacked)" ] && found "$(unpacked)"

python3 -m pip --version >/dev/null 2>&1 || "$root/tools/deps.sh" python3-pip >&2 || exit 1
mkdir -p "$into"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --dest "$into" "nvidia-cuda-nvrtc==$version" >&2 || exit 1
python3 -m zipfile -e "$into"/nvidia_cuda_nvrtc-"$version"-*.whl "$into" && rm -f "$into"/*.whl
[ -n "$(unpacked)" ] && found "$(unpacked)"
exit 1
