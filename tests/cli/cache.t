# A cache that cannot be used is none; one that several processes fill at once holds whole entries.
$ PROEM_CACHE_DIR=/proc/self/task proem run small.proem --dim M=4
| y: f32[4, 2]
| out1: f32[4]
$ touch file; PROEM_CACHE_DIR=$PWD/file proem run small.proem --dim M=4 && PROEM_CACHE_DIR=$PWD/file/below proem run small.proem --dim M=4
| y: f32[4, 2]
| out1: f32[4]
| y: f32[4, 2]
| out1: f32[4]
$ export PROEM_CACHE_DIR=$PWD/c; for i in 1 2 3 4; do proem run small.proem --dim M=4 --in '*=ones' --out y=$i.npy > $i.out 2>&1 & done; wait
> cat ?.out | sort | uniq -c | sed 's/^ *//'; cmp 1.npy 2.npy && cmp 1.npy 3.npy && cmp 1.npy 4.npy; find c -type f | grep -v -e '\.so$' -e '\.txt$'
| 4 out1: f32[4]
| 4 y: f32[4, 2]
? 1
$ export PROEM_CACHE_DIR=$PWD/c; for f in c/*/*.so c/*.so; do [ -f "$f" ] && head -c 100 "$f" > cut && cp cut "$f"; done; proem run small.proem --dim M=4 --in '*=ones' --out y=5.npy && cmp 1.npy 5.npy
| y: f32[4, 2]
| out1: f32[4]
