# What the machine lacks: status 4. The cache makes up for a compiler only where it holds the kernel.
$ export PROEM_CACHE_DIR=$PWD/c; proem cache stat | sed 's/of at most.*//; s/\/.*\//DIR\//'
| cache: DIR/c, 0 entries, 0 bytes
$ export PROEM_CACHE_DIR=$PWD/c; PATH=$(dirname $(command -v proem)) proem run small.proem --dim M=4
2> proem: the C compiler 'cc' is not found; install gcc or clang, or name another one
? 4
$ export PROEM_CACHE_DIR=$PWD/c; CC=/nonexistent/cc proem run small.proem --dim M=4
2> proem: the C compiler '/nonexistent/cc' is not found; install gcc or clang, or name another one
? 4
$ export PROEM_CACHE_DIR=$PWD/c; PATH=$(dirname $(command -v proem)) proem run small.proem --dim M=4 --device ref
| y: f32[4, 2]
| out1: f32[4]
$ export PROEM_CACHE_DIR=$PWD/c; PATH=$(dirname $(command -v proem)) proem explain small.proem --dim M=4 | head -n 1 | sed 's/(.*)/(CPU)/'
| small on cpu (CPU), precision boundary, M = 4
$ export PROEM_CACHE_DIR=$PWD/c; PATH=$(dirname $(command -v proem)) proem emit small.proem -o k | grep -c '\.c$'
| 2
$ export PROEM_CACHE_DIR=$PWD/c; proem run small.proem --dim M=4 && proem cache stat | sed 's/.*, \(.*\) entries.*/\1 entries/; s/^[1-9][0-9]* /N /' && proem run small.proem --dim M=5
| y: f32[4, 2]
| out1: f32[4]
| N entries
| y: f32[5, 2]
| out1: f32[5]
$ export PROEM_CACHE_DIR=$PWD/c; proem cache clear | sed 's/^[1-9][0-9]* /N /' && proem cache stat | sed 's/.*, \(.*\) entries.*/\1 entries/'
| N entries removed
| 0 entries
$ PROEM_CACHE_DIR= proem run small.proem --dim M=4
| y: f32[4, 2]
| out1: f32[4]
$ PROEM_CACHE_DIR= proem cache stat
| cache: none (PROEM_CACHE_DIR is empty, or XDG_CACHE_HOME and HOME are not set)
$ unset PROEM_CACHE_DIR; XDG_CACHE_HOME=$PWD/x proem run small.proem --dim M=4 > /dev/null; ls x
| proem
$ unset PROEM_CACHE_DIR; HOME=$PWD/h proem run small.proem --dim M=4 > /dev/null; ls h/.cache
| proem
$ CC="cc -DUNUSED" PROEM_CACHE_DIR= proem run small.proem --dim M=4
| y: f32[4, 2]
| out1: f32[4]
$ PROEM_CUDA=/nonexistent/libcuda.so.1 PROEM_NVRTC=/nonexistent/libnvrtc.so proem doctor | sed 's/^\([^cn]\|cp\|comp\|cach\)\([^:]*\):.*/\1\2/'
| proem
| compiler
| flags
| cpu
| threads
| caches
| cache
| cuda: not found (no CUDA device: the driver's library cannot be opened; looked for /nonexistent/libcuda.so.1)
| nvrtc: not found (no CUDA compiler: libnvrtc cannot be opened; looked for /nonexistent/libnvrtc.so)
$ PATH=$(dirname $(command -v proem)) proem doctor > d; echo $?; sed -n 2p d
| 4
| compiler: not found (the C compiler 'cc' is not found; install gcc or clang, or name another one)
