#!/usr/bin/env bash
# The layer checker finds each kind of breach, and nothing where there is none.
set -euo pipefail
tool=$(cd "$(dirname "$0")/../.." && pwd)/tools/check-layers.sh
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{src/{base,ops,graph,eval,rt,gen,cli,driver,nowhere},include,tests,bench,tools}

cat >"$root/src/base/base.c" <<'END'
void *f(void) { return malloc(1); }
END
cat >"$root/src/graph/good.c" <<'END'
#include "base/base.h"
#include "proem/status.h"
#include <stdlib.h>
/* free(p); malloc(1) in a comment
   printf("x") */
static const char *s = "abort(); getenv(x)"; // exit(1)
void g(struct a *a) { a->free(a); arena_free(a); str_printf(a, "x"); }
END
cat >"$root/src/cli/main.c" <<'END'
#include "proem/proem.h"
#include "driver/driver.h"
int main(void) { printf("%s", getenv("HOME")); exit(1); }
END
"$tool" "$root" >"$root/out" || true
grep -v nowhere "$root/out" | grep . && { echo "a breach where there is none" >&2; exit 1; }

cat >"$root/src/graph/bad.c" <<'END'
#include "eval/eval.h"
# include "proem/proem.h"
void g(void *p) {
    free(p);
    snprintf(p, 1, "x"); printf("x");
    getenv("x");
    if (p) abort();
}
END
printf '#include "graph/graph.h"\n' >"$root/src/rt/bad.h"
printf '#include "gen/gen.h"\n' >"$root/src/eval/bad.c"
echo "int x;" >"$root/src/nowhere/x.c"
seq 801 >"$root/tests/long.c"
if "$tool" "$root" >"$root/out"; then
    echo "the checker passed a tree with breaches" >&2
    exit 1
fi
while read -r place; do
    grep -q "^$place" "$root/out" || { echo "not found: $place" >&2; cat "$root/out" >&2; exit 1; }
done <<'END'
src/graph/bad.c:1: graph must not include eval/eval.h
src/graph/bad.c:2: graph must not include proem/proem.h
src/graph/bad.c:4: free
src/graph/bad.c:5: snprintf
src/graph/bad.c:5: printf
src/graph/bad.c:6: getenv
src/graph/bad.c:7: abort
src/rt/bad.h:1: rt must not include graph/graph.h
src/eval/bad.c:1: eval must not include gen/gen.h
src/nowhere/x.c:1: no such layer
tests/long.c:801: more than 800 lines
END
echo "every breach was found"
