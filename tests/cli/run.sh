#!/usr/bin/env bash
# Runs a transcript of the command and compares it with what the command does.
#   run.sh PROEM CACHE_DIR CASE.t          fails and prints the difference
#   run.sh --update PROEM CACHE_DIR CASE.t rewrites the transcript
# In a transcript `$ ` starts a shell command and `> ` continues it; after it come `| ` lines of its
# standard output, `2> ` lines of its standard error, and `? N`, its exit status if that is not 0.
# Other lines are comments. Commands run in one empty folder that holds a copy of data/.
set -euo pipefail
update=
if [ "$1" = --update ]; then
    update=1
    shift
fi
proem=$(realpath "$1") cache=$2 case=$(realpath "$3")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/run"
ln -s "$proem" "$work/bin/proem"
cp -r "$(dirname "$case")/data/." "$work/run"
export PATH="$work/bin:$PATH" HOME="$work" PROEM_CACHE_DIR="$cache" LC_ALL=C
unset XDG_CACHE_HOME CC

command=
execute() {
    [ -n "$command" ] || return 0
    local status=0
    (cd "$work/run" && bash -c "$command" >"$work/out" 2>"$work/err" </dev/null) || status=$?
    sed -e 's/^/| /' -e 's/ $//' "$work/out"
    sed -e 's/^/2> /' -e 's/ $//' "$work/err"
    [ $status -eq 0 ] || printf '? %d\n' $status
    command=
}

transcript() {
    local line
    while IFS= read -r line; do
        case $line in
        '$ '*)
            execute
            command=${line#'$ '}
            printf '%s\n' "$line"
            ;;
        '> '*)
            command+=$'\n'${line#'> '}
            printf '%s\n' "$line"
            ;;
        '|'* | '2>'* | '? '*) ;;
        *)
            execute
            printf '%s\n' "$line"
            ;;
        esac
    done <"$case"
    execute
}

transcript >"$work/actual"
if [ -n "$update" ]; then
    cp "$work/actual" "$case"
else
    diff -u "$case" "$work/actual"
fi
