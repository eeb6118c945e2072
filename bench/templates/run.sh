#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh ISA M N K ROUNDS [CC]: builds the matmul templates with hand-written hooks into a folder of
# its own and times them beside OpenBLAS, BLIS and dequantize-then-OpenBLAS. ISA is avx2 or avx512.
set -eu
isa=$1 m=$2 n=$3 k=$4 rounds=$5 cc=${6:-gcc}
root=$(cd "$(dirname "$0")/../.." && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
case $isa in
avx2) flags="-mavx2 -mfma -mf16c" core=Haswell arch=3 ;;
avx512) flags="-march=x86-64-v4" core=SkylakeX arch=0 ;;
*) echo "ISA is avx2 or avx512" >&2; exit 2 ;;
esac
$cc -O3 -march=native -I"$root/src" "$root/bench/templates/bench_matmul.c" -o "$out/bench" -ldl -lm
# A, B and epilogue as numbered in matmul_bench_hooks.h; p: weights packed once
set --
for c in packed:0:0:0 packed:1:0:0 packed:2:0:0 packed:3:0:0 packed:0:0:1 packed:0:1:0 packed:0:3:0 \
    packed:0:4:0 packed:0:5:0 packed:0:6:0:p packed:0:7:0:p packed:0:8:0:p \
    rows:0:1:0 rows:0:3:0 rows:0:4:0 rows:0:5:0 rows:0:6:0:p rows:0:7:0:p rows:0:8:0:p; do
    IFS=: read -r kind a b e flag <<EOF
$c
EOF
    more="-DMM_C_FETCH=2"
    if [ "$kind" = rows ]; then
        [ "$m" -gt 16 ] && continue
        more='-DTEMPLATE="gen/c/templates/matmul_rows.c" -DMM_MR=8'
    fi
    $cc -std=gnu11 -O2 -Wno-psabi -Wno-unknown-pragmas -ffp-contract=off -fPIC -shared $flags \
        -I"$root/src" -DHK_A="$a" -DHK_B="$b" -DHK_E="$e" $more \
        "$root/bench/templates/matmul_bench_kernels.c" -o "$out/$kind$a$b$e.so"
    set -- "$@" "$kind-a$a-b$b-e$e=$out/$kind$a$b$e.so:$a:$b:$e${flag:+:$flag}"
done
BENCH_CORE=$core BLIS_ARCH_TYPE=$arch "$out/bench" "$m" "$n" "$k" "$rounds" openblas openblas:t blis \
    unfused:0:3 unfused:0:4 unfused:0:5 "$@"
