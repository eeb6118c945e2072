# Products of integers take several elements along k in a word: whichever number of them an
# instruction set has, and whatever is left over, the sums are the same 32 bits.
$ cat > dots.proem <<'END'
> graph dynamic(a: u8[M, K], za: u8[], const b: i8[K, N], s: f32[]) {
>   return cast(matmul(cast(a, i32) - cast(za, i32), cast(b, i32), out=i32), f32) * s
> }
> graph rows(a: i8[K, M], za: i8[M, 1], b: i8[N, K]) {
>   return matmul(cast(permute(a, [1, 0]), i32) - cast(za, i32), cast(permute(b, [1, 0]), i32), out=i32)
> }
> graph pairs(a: i8[2, M, K], b: u8[2, K, N], zb: u8[N]) {
>   return matmul(cast(a, i32), cast(b, i32) - cast(zb, i32), out=i32)
> }
> graph two(a: u8[M, K], za: u8[], const b: i8[K, N], const c: i8[K, N]) {
>   x = cast(a, i32) - cast(za, i32)
>   return matmul(x, cast(b, i32), out=i32) - matmul(x, cast(c, i32), out=i32)
> }
> graph wide(a: i32[M, K], b: i32[K, N]) {
>   return matmul(a, b, out=i16)
> }
> END
$ for g in dynamic rows pairs two wide; do proem explain dots.proem --graph $g --dim M=30 --dim K=64 --dim N=40 --arch avx512fp16 | sed -n "s/^  dots/$g: dots/p"; done
| dynamic: dots of four 8-bit integers
| rows: dots of four 8-bit integers
| pairs: dots of two 16-bit integers
| two: dots of four 8-bit integers
$ for g in dynamic rows pairs two wide; do for d in '17 531 6' '30 64 70' '12 3 1' '9 0 5' '1 77 33' '40 64 3'; do set -- $d; proem run dots.proem --graph $g --dim M=$1 --dim K=$2 --dim N=$3 --check | grep -o ' ok (.*'; done; done
|  ok (102 checked, 0 unbounded)
|  ok (2100 checked, 0 unbounded)
|  ok (12 checked, 0 unbounded)
|  ok (45 checked, 0 unbounded)
|  ok (33 checked, 0 unbounded)
|  ok (120 checked, 0 unbounded)
|  ok (102 checked, 0 unbounded)
|  ok (2100 checked, 0 unbounded)
|  ok (12 checked, 0 unbounded)
|  ok (45 checked, 0 unbounded)
|  ok (33 checked, 0 unbounded)
|  ok (120 checked, 0 unbounded)
|  ok (204 checked, 0 unbounded)
|  ok (4200 checked, 0 unbounded)
|  ok (24 checked, 0 unbounded)
|  ok (90 checked, 0 unbounded)
|  ok (66 checked, 0 unbounded)
|  ok (240 checked, 0 unbounded)
|  ok (102 checked, 0 unbounded)
|  ok (2100 checked, 0 unbounded)
|  ok (12 checked, 0 unbounded)
|  ok (45 checked, 0 unbounded)
|  ok (33 checked, 0 unbounded)
|  ok (120 checked, 0 unbounded)
|  ok (102 checked, 0 unbounded)
|  ok (2100 checked, 0 unbounded)
|  ok (12 checked, 0 unbounded)
|  ok (45 checked, 0 unbounded)
|  ok (33 checked, 0 unbounded)
|  ok (120 checked, 0 unbounded)
