#!/usr/bin/env bash
# Runs every libFuzzer target for some seconds: fuzz.sh SECONDS JOBS. It starts from the corpus in
# tests/fuzz/corpus; what is found new stays in build/fuzz/corpus, crashes in build/fuzz/crash-*.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=$1
jobs=$2

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "$jobs" -- --no-print-directory >/dev/null
for target in build/fuzz/tests/fuzz_*_fuzzer; do
    name=$(basename "$target" _fuzzer)
    corpus=${name#fuzz_}
    mkdir -p "build/fuzz/corpus/$corpus"
    dict=()
    [ -e "tests/fuzz/$corpus.dict" ] && dict=(-dict="tests/fuzz/$corpus.dict")
    printf '+ %s for %s seconds\n' "$name" "$seconds"
    "$target" "${dict[@]}" -max_total_time="$seconds" -timeout=30 -rss_limit_mb=2048 -print_final_stats=1 \
        -verbosity=0 -artifact_prefix="build/fuzz/crash-$corpus-" \
        "build/fuzz/corpus/$corpus" "tests/fuzz/corpus/$corpus"
done
