# Where inputs come from, weakest first: random, `*`, the graph's text, --weights, --in NAME.
$ cat > g.proem <<'END'
> graph g(a: f32[2], b: f32[2], const c: f32[2] = "c.npy", d: f32[2]) {
>   return a + 0 * b, b + 0, c + 0, d + 0
> }
> END
$ cat > id.proem <<'END'
> graph id(x: f32[2]) { return x + 0 }
> END
$ proem run id.proem --in x=arange --out out0=c.npy
| out0: f32[2]
$ printf '\x79\x00\x00\x00\x00\x00\x00\x00{"d": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "e": {"dtype": "U8", "shape": [], "data_offsets": [8, 9]}} ' > w.safetensors
$ printf '\x00\x00\x40\x40\x00\x00\x80\x40!' >> w.safetensors
$ proem run g.proem --in a=7
2> proem: a: a number is for a scalar, and this tensor has 1 dims; use zeros, ones or a file
? 2
$ proem run g.proem --in '*=ones' --in a=zeros --weights w.safetensors --out out0=o0.npy --out out1=o1.npy --out out2=o2.npy --out out3=o3.npy && for i in 0 1 2 3; do tail -c +129 o$i.npy | od -An -tf4; done
| out0: f32[2]
| out1: f32[2]
| out2: f32[2]
| out3: f32[2]
|                0               0
|                1               1
|                0               1
|                3               4
$ proem run g.proem --in d=w.safetensors:d --in c=ones --out out2=o2.npy --out out3=o3.npy > /dev/null && for i in 2 3; do tail -c +129 o$i.npy | od -An -tf4; done
|                1               1
|                3               4
$ mkdir sub && cp g.proem sub && proem run sub/g.proem
2> proem: sub/c.npy: cannot open: No such file or directory
? 2
$ cp c.npy sub && proem run sub/g.proem
| out0: f32[2]
| out1: f32[2]
| out2: f32[2]
| out3: f32[2]
$ proem run g.proem --in d=w.safetensors:x
2> proem: w.safetensors: there is no key 'x' (it has 2: d, e)
? 2
$ proem run g.proem --in d=w.gguf:x
2> proem: w.gguf: cannot open: No such file or directory
? 2
$ proem run g.proem --weights w.gguf
2> proem: w.gguf: cannot open: No such file or directory
? 2
$ proem run g.proem --weights none.safetensors
2> proem: none.safetensors: cannot open: No such file or directory
? 2
$ proem run g.proem --in d=randint:3:3
2> proem: 'randint:3:3': LO must be below HI (HI is excluded)
? 2
$ proem run id.proem --in x=rand --check
| out0: f32[2]  max_err 0  bound_ratio 0  ok (2 checked, 0 unbounded)
$ proem run id.proem --in x=randint:-5:5 --check
| out0: f32[2]  max_err 0  bound_ratio 0  ok (2 checked, 0 unbounded)

# Random values fit their uses, through views, casts and gathers.
$ cat > uses.proem <<'END'
> graph uses(x: f32[9, 4], i: i32[3, T], j: i64[5], s: u8[T], v: i32[T], d: i64[T], o: i32[3],
>            a: f32[T, 4], b: f32[3, 4, 2], e: e8m0[T]) {
>   p = take(x, reshape(slice(i, axis=0, start=1), [2 * T]))
>   q = take(x, cast(take(i, 0), i64))
>   r = take(slice(x, axis=0, stop=2), take(j, 0))
>   t = v << cast(s, i32)
>   u = v // cast(d, i32)
>   g = grouped_matmul(a, b, o)
>   return p, q, r, t, u, g, cast(e, f32)
> }
> END
$ proem run uses.proem --dim T=50 --check | sed 's/  max_err.*  ok/ ok/'
| p: f32[100, 4] ok (400 checked, 0 unbounded)
| q: f32[50, 4] ok (200 checked, 0 unbounded)
| r: f32[4] ok (4 checked, 0 unbounded)
| t: i32[50] ok (50 checked, 0 unbounded)
| u: i32[50] ok (50 checked, 0 unbounded)
| g: f32[50, 2] ok (100 checked, 0 unbounded)
| out6: f32[50] ok (50 checked, 0 unbounded)
$ printf 'graph g(x: f32[0], i: i32[3]) { return take(x, i) }' > none.proem; proem run none.proem
2> proem: i: no random i32 satisfies its uses (0 to -1); give it with --in
? 2
# A file of another dtype gives no sizes: the file is named, not the size that is missing.
$ cat > open.proem <<'EOF'
> graph g(x: f32[M, 3]) {
>   return x + 1
> }
> EOF
$ cat > wrong.proem <<'EOF'
> graph w(x: i32[2, 3], y: f32[2]) {
>   return x + 1, y
> }
> EOF
$ proem run wrong.proem --out out0=i32.npy --out y=f32.npy > /dev/null; proem run open.proem --in x=i32.npy
2> proem: x: 'i32.npy': holds i32[2, 3], but f32 of 2 dims is expected
? 2
$ proem run open.proem --in x=f32.npy
2> proem: x: 'f32.npy': holds f32[2], but f32 of 2 dims is expected
? 2
