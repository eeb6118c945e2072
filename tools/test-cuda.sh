#!/usr/bin/env bash
# Tests on a GPU: the graphs of tests/fusion in every precision mode, the graphs of reported faults,
# every operator, random graphs, sampled problems of benchdnn; each against the reference
# interpreter. Then the graphs of tests/fusion and some random ones under compute-sanitizer. The last line is `N passed, N failed, N skipped`.
#   test-cuda.sh DIR    DIR from tools/gpu-bundle.sh
#   N (300): random graphs   BENCHDNN_N (150)   JOBS: processes   FILE: benchdnn's problems
#   PARTS: some of "fusion reports ops graphs benchdnn sanitizer"   LOGS: a folder for what they print
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
bin=$(cd "${1:?test-cuda.sh DIR}" && pwd) || exit 2
export PROEM_TEST_DEVICE=cuda PROEM=$bin/proem
jobs=${JOBS:-$(($(nproc) > 1 ? $(nproc) - 1 : 1))}
logs=${LOGS:-$(mktemp -d)}
parts=${PARTS:-fusion reports ops graphs benchdnn sanitizer}
passed=0 failed=0 skipped=0

"$PROEM" doctor | grep -E '^(cuda|gpu|nvrtc):'
if ! "$PROEM" doctor | grep -q '^gpu:'; then
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
fi

add() { # NAME PASSED FAILED SKIPPED
    printf '%-12s %5d passed %4d failed %4d skipped\n' "$@"
    passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
}

one() { # MODE FILE
    local log
    log=$(timeout 120 "$PROEM" run "$2" --device cuda --precision "$1" --check 2>&1)
    local status=$?
    if [ $status -eq 0 ]; then echo ok; else echo "FAIL $1 $(basename "$2"): status $status: ${log:0:300}"; fi
}
export -f one
wanted() { [[ " $parts " == *" $1 "* ]]; }

fusion() {
    for mode in boundary eager native; do printf "$mode %s\n" "$root"/tests/fusion/*.proem; done |
        xargs -P "$jobs" -L 1 bash -c 'one "$0" "$1"' >"$logs/fusion" 2>&1
    grep '^FAIL' "$logs/fusion"
    add fusion "$(grep -c '^ok' "$logs/fusion")" "$(grep -c '^FAIL' "$logs/fusion")" 0
}

reports() {
    for table in values sums; do
        "$bin/test_reports_$table" >"$logs/$table" 2>&1
        grep -A 3 -E '^\[ +(ERROR|FAILED) ' "$logs/$table" | head -20
        add "$table" "$(grep -c '^\[       OK' "$logs/$table")" \
            "$(grep -E '^\[  FAILED  \] [a-z]' "$logs/$table" | sort -u | wc -l)" 0
    done
}

drive() { # NAME ARGUMENT..: a driver with the usual last line
    local name=$1
    shift
    "$bin/$name" JOBS="$jobs" "$@" >"$logs/$name" 2>&1
    grep -a -A 1 '^FAIL' "$logs/$name" | cut -c 1-300 | head -20
    local last
    last=$(tail -n 1 "$logs/$name")
    if [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)?$ ]]; then
        add "$name" "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" "${BASH_REMATCH[4]:-0}"
    else
        echo "$name: $last"
        add "$name" 0 1 0
    fi
}

clean() { # TOOL FILE
    local log
    if log=$(timeout 240 compute-sanitizer --tool "$1" --error-exitcode 9 \
        "$PROEM" run "$2" --device cuda 2>&1); then
        echo ok
    else
        echo "FAIL $1 $(basename "$2"): $(grep -m 3 '=====' <<<"$log" | tr '\n' ' ' | cut -c 1-300)"
    fi
}
export -f clean

sanitizer() {
    if ! command -v compute-sanitizer >/dev/null; then
        add sanitizer 0 0 1
        return
    fi
    for tool in memcheck initcheck racecheck; do
        printf "$tool %s\n" "$root"/tests/fusion/*.proem
    done | xargs -P "$jobs" -L 1 bash -c 'clean "$0" "$1"' >"$logs/sanitizer" 2>&1
    grep '^FAIL' "$logs/sanitizer" | head -20
    add sanitizer "$(grep -c '^ok' "$logs/sanitizer")" "$(grep -c '^FAIL' "$logs/sanitizer")" 0
    if compute-sanitizer --tool memcheck --target-processes all --error-exitcode 9 "$bin/graphs" \
        N=24 JOBS=4 BATCH=4 SHOW=0 >"$logs/memcheck" 2>&1; then
        add 'memcheck' 24 0 0
    else
        grep -m 8 'Invalid\|=====.*at ' "$logs/memcheck"
        add 'memcheck' 0 24 0
    fi
}

wanted fusion && fusion
wanted reports && reports
wanted ops && drive ops
wanted graphs && drive graphs N="${N:-300}" BATCH=8 SEED="${SEED:-1}"
wanted benchdnn &&
    drive benchdnn N="${BENCHDNN_N:-150}" SHRINK=1 FILE="${FILE:-$root/../shared/data/benchdnn-matmul.txt}"
wanted sanitizer && sanitizer
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
