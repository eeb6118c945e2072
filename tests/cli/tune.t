# A choice is measured once and kept; the plan says both. (Times and tiles differ from run to run.)
$ export PROEM_CACHE_DIR=$PWD/tune-cache
> proem explain small.proem --dim M=40 --tune --threads 1 | grep '^  tuned' | sed -E 's/tuned: [0-9.]+ us.*best of [0-9]+/tuned: N us .. best of N/'
> proem explain small.proem --dim M=40 --tune --threads 1 | grep '^  tuned' | grep -o 'measured before'
> proem explain small.proem --dim M=40 --tune --threads 1 --json | grep -o '"tuned": {[^}]*}' | sed 's/_us": [0-9.]*/_us": N/g; s/"tried": [0-9]*/"tried": N/'
> proem explain small.proem --dim M=40 --threads 1 | grep -c tuned
|   tuned: N us .. best of N
| measured before
| "tuned": {"measured": true, "before_us": N, "after_us": N, "tried": N, "cached": true, "reordered": false, "why": null}
| 0
? 1
# The bits are the same.
$ export PROEM_CACHE_DIR=$PWD/tune-cache
> proem run linear.proem --dim M=9 --out y=a.npy > /dev/null && proem run linear.proem --dim M=9 --tune --out y=b.npy > /dev/null && cmp a.npy b.npy && echo same
| same
# What was not measured, and why.
$ proem explain small.proem --tune | grep 'tuned'
|   not tuned: the size M is not known; give it with --dim
$ proem explain small.proem --tune --strict
2> proem: kernel k0_matmul_y cannot be tuned: the size M is not known; give it with --dim (--strict)
? 3
$ proem explain small.proem --tune --arch neon --dim M=4 | grep tuned
|   not tuned: this machine cannot run code for neon: it lacks aarch64
$ proem explain small.proem --dim M=40 -d tune | head -n 1
| small on cpu (native), precision boundary, M = 40
$ proem explain small.proem --dim M=40 --tune -d tune --arch neon --dim M=40 | head -n 1
| k0_matmul_y: not tuned: this machine cannot run code for neon: it lacks aarch64
