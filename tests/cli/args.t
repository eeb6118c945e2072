$ proem --version
| proem 0.1.0
$ proem run small.proem --version
| proem 0.1.0
$ proem --help | head -n 1
| proem run FILE [inputs] [--out NAME=FILE.npy].. [--device cpu|cuda|ref] [--check[=rows:N]] [--json]
$ proem
2> proem: no command; expected run, explain, emit, bench, fmt, convert, doctor or cache (see proem --help)
? 2
$ proem walk small.proem
2> proem: there is no command 'walk'; expected run, explain, emit, bench, fmt, convert, doctor or cache
? 2
$ proem explian small.proem
2> proem: there is no command 'explian'; did you mean explain?
? 2
$ proem run
2> proem: proem run needs FILE
? 2
$ proem run small.proem more
2> proem: proem run: 'more' is one word too many
? 2
$ proem run small.proem --nothing
2> proem: there is no option '--nothing' (see proem --help)
? 2
$ proem fmt small.proem --json
2> proem: --json is no option of proem fmt
? 2
$ proem run small.proem --json=yes
2> proem: --json takes no value, but '--json=yes' gives one
? 2
$ proem run small.proem --seed
2> proem: --seed needs a value after it
? 2
$ proem run small.proem --seed x
2> proem: --seed: 'x' is wrong; expected a number from 0
? 2
$ proem run small.proem --seed=-1
2> proem: --seed: '-1' is wrong; expected a number from 0
? 2
$ proem run small.proem --in x
2> proem: --in: 'x' is wrong; expected NAME=VALUE
? 2
$ proem run small.proem --in x=ones --in w=ones --in x=zeros --dim M=4
2> proem: --in: x is given twice
? 2
$ proem run small.proem --in y=ones
2> proem: --in: graph small has no input 'y'; its inputs are x, w, b
? 2
$ proem run small.proem --in x=what
2> proem: 'what' is no source; expected x.npy, m.npz:KEY, m.safetensors:KEY, m.gguf:KEY, m.onnx:KEY, zeros, ones, arange, randn, rand, randint:LO:HI or a number
? 2
$ proem run small.proem --out y=y.txt
2> proem: --out: 'y=y.txt' is wrong; expected NAME=FILE.npy
? 2
$ proem run small.proem --dim M=4 --out z=z.npy
2> proem: --out: graph small has no output 'z'; its outputs are y, out1
? 2
$ proem run small.proem --dim M
2> proem: --dim: 'M' is wrong; expected NAME=VALUE
? 2
$ proem run small.proem --dim M=-4
2> proem: --dim: 'M=-4' is wrong; expected SYMBOL=SIZE, as M=16
? 2
$ proem run small.proem --dim K=4
2> proem: graph small has no symbol K; its symbols are M
? 2
$ proem run small.proem --precision exact
2> proem: --precision: 'exact' is wrong; expected boundary, eager or native
? 2
$ proem run small.proem --threads 0
2> proem: --threads: '0' is wrong; expected a number from 1 to 4096
? 2
$ proem run small.proem --fuse sometimes
2> proem: --fuse: 'sometimes' is wrong; expected model, always, never, FROM:TO=always or FROM:TO=never
? 2
$ proem run small.proem --fuse h:y=sometimes
2> proem: --fuse: 'h:y=sometimes' is wrong; expected model, always, never, FROM:TO=always or FROM:TO=never
? 2
$ proem run small.proem --fuse h:z=never
2> proem: --fuse: 'h:z' names no edge; expected FROM:TO with two values of graph small
? 2
$ proem run small.proem --dim M=1 --fuse y:h=never
2> proem: there is no edge from 'y' to 'h' to force; `proem explain` lists the edges
? 2
$ proem run small.proem --assume time
2> proem: --assume: 'time' is wrong; expected bandwidth
? 2
$ proem run small.proem --tune=fast
2> proem: --tune: 'fast' is wrong; expected nothing or order
? 2
$ proem run small.proem -d nothing
2> proem: -d: 'nothing' is wrong; expected parse, lower, fuse, tune, gen, compile or link
? 2
$ proem run small.proem --run-pass link
2> proem: --run-pass: 'link' is wrong; expected parse, lower, fuse, tune or gen
? 2
$ proem run small.proem --check=rows
2> proem: --check: 'rows' is wrong; expected nothing or rows:N
? 2
$ proem run small.proem --check=rows:0
2> proem: --check: 'rows:0' is wrong; expected nothing or rows:N
? 2
$ proem run small.proem --device tpu
2> proem: --device: 'tpu' is wrong; expected cpu, cuda or ref
? 2
$ proem explain small.proem --device ref
2> proem: --device: 'ref' is wrong; expected cpu or cuda
? 2
$ proem explain small.proem --arch sm_90a
2> proem: --arch: 'sm_90a' is a GPU, but the device is cpu
? 2
$ proem explain small.proem --arch z80
2> proem: --arch: 'z80' is wrong; expected generic, avx2, avx512, avx512fp16 or neon
? 2
$ proem bench small.proem --vs torch
2> proem: --vs: 'torch' is wrong; expected unfused
? 2
$ proem emit small.proem
2> proem: proem emit needs -o DIR
? 2
$ proem cache
2> proem: proem cache needs stat or clear
? 2
$ proem cache drop
2> proem: proem cache: 'drop' is wrong; expected stat or clear
? 2
$ proem doctor now
2> proem: proem doctor: 'now' is one word too many
? 2
$ proem --seed=3 run -- small.proem --dim M=4
2> proem: proem run: '--dim' is one word too many
? 2
# Near misses.
$ proem run id.proem --chek
2> proem: there is no option '--chek'; did you mean --check?
? 2
$ proem run id.proem --dims M=1
2> proem: there is no option '--dims'; did you mean --dim?
? 2
$ proem run id.proem --frobnicate
2> proem: there is no option '--frobnicate' (see proem --help)
? 2
$ echo 'graph g(x: f32[2]) { return gleu(x) }' | proem fmt -
2> -:1:29: error: there is no operator `gleu`; did you mean `gelu`?
? 2
$ echo 'graph g(x: f32[2]) { return blubb(x) }' | proem fmt -
2> -:1:29: error: there is no operator `blubb`
? 2
