# A signal while compilers run: they end, nothing is left behind, and the command dies of it.
$ mkdir t; printf '#!/bin/sh\n[ "$1" = --version ] && exit 0\nsleep 100 &\necho $! > %s/pid\nwait\n' "$PWD" > slow; chmod +x slow
$ export PROEM_CACHE_DIR= TMPDIR=$PWD/t CC=$PWD/slow; for s in TERM HUP QUIT; do
>   rm -f pid; (ulimit -c 0; exec proem run small.proem --dim M=4) & until [ -s pid ]; do sleep 0.05; done
>   kill -$s $!; wait $! 2>/dev/null; echo "$s $(kill -l $?), $(ls t | wc -l) files"
>   for i in $(seq 100); do kill -0 "$(cat pid)" || break; sleep 0.1; done 2>/dev/null
>   if kill -0 "$(cat pid)" 2>/dev/null; then echo "a compiler still runs"; fi
> done 2>/dev/null
| TERM TERM, 0 files
| HUP HUP, 0 files
| QUIT QUIT, 0 files
# One that is ignored changes nothing.
$ printf '#!/bin/sh\n[ "$1" = --version ] && exec cc "$@"\n[ -f pid ] || echo $$ > pid\nsleep 1\nexec cc "$@"\n' > late; chmod +x late; rm -f pid
$ export PROEM_CACHE_DIR= TMPDIR=$PWD/t CC=$PWD/late; trap '' HUP; proem run small.proem --dim M=4 & until [ -s pid ]; do sleep 0.05; done; kill -HUP $!; wait $!; ls t
| y: f32[4, 2]
| out1: f32[4]
