# Weights in block formats: a product that reads them is one kernel, and agrees with the interpreter.
$ for f in q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs tq1_0 tq2_0 mxfp4 nvfp4; do echo "graph g(x: f32[M, 256], const w: $f[48, 256]) { return matmul(x, permute(dequantize(w), [1, 0])) }" > $f.proem; proem explain $f.proem --dim M=16 | sed -n 's/ kernels\{0,1\};.*/ kernel/p'; proem run $f.proem --dim M=5 --check | grep -o ' ok '; done | sort | uniq -c | sed 's/^ *//'
| 16  ok
| 16 1 kernel

# Any rank, another result dtype, a gather; and what is refused.
$ cat > many.proem <<'END'
> graph many(x: bf16[M, K], const w: q4_k[E, N, K], i: i32[T]) {
>   y = silu(matmul(x, permute(dequantize(w, dtype=bf16), [0, 2, 1])))
>   z = take(dequantize(w), i, axis=1)
>   return y, z
> }
> END
$ proem fmt many.proem | diff - many.proem
$ proem run many.proem --dim M=4 --dim K=512 --dim N=24 --dim E=3 --dim T=2 --check | grep -c " ok "
| 2
$ proem run many.proem --dim M=4 --dim K=500 --dim N=24 --dim E=3 --dim T=2
2> many.proem:1:33: error: K, 500, is not divisible by 256
? 2
$ proem run many.proem --dim M=4 --dim K=512 --dim N=24 --dim E=3 --dim T=2 --in w=rand
2> proem: w: 'rand' makes no blocks of q4_k; use zeros or a file
? 2
$ proem run many.proem --dim M=4 --dim K=512 --dim N=24 --dim E=3 --dim T=2 --check=rows:2 --fuse never | grep -c " ok "
| 2

# A GGUF file: one tensor, q8_0[1, 32], scale 0.5, numbers 0 to 31.
$ (printf 'GGUF\3\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0w\2\0\0\0\40\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\10\0\0\0\0\0\0\0\0\0\0\0'; head -c 31 /dev/zero; printf '\0\70'; for i in $(seq 0 31); do printf "\\$(printf %o $i)"; done) > w.gguf; echo 'graph g(const w: q8_0[N, K] = "w.gguf:w") { return dequantize(w) }' > g.proem
$ proem run g.proem --out out0=y.npy && tail -c +129 y.npy | od -An -tf4 -w32
| out0: f32[1, 32]
|                0             0.5               1             1.5               2             2.5               3             3.5
|                4             4.5               5             5.5               6             6.5               7             7.5
|                8             8.5               9             9.5              10            10.5              11            11.5
|               12            12.5              13            13.5              14            14.5              15            15.5
$ proem run g.proem --device ref --weights w.gguf --out out0=r.npy && cmp y.npy r.npy
| out0: f32[1, 32]
$ proem run g.proem --in w=w.gguf:v
2> proem: w.gguf: there is no key 'v' (it has 1: w)
? 2
$ head -c 120 w.gguf > cut.gguf; proem run g.proem --weights cut.gguf
2> proem: cut.gguf: tensor 'w': truncated: its data runs past the file's end
? 2
$ sed 's/q8_0/q4_0/' g.proem > wrong.proem; proem run wrong.proem --dim N=1 --dim K=32
2> proem: w: 'w.gguf:w': holds q8_0[1, 32], but q4_0[1, 32] is expected (u8 may hold its blocks, the last dim counting bytes)
? 2
