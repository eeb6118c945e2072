# Where the lanes of a vector fall on both sides of a concat, what was kept for each row is that lane's.
$ cat > lanes.proem <<'EOF'
> graph columns(x: f32[7, 33], u: f32[33, 5], v: f32[33, 9], s: f32[14]) {
>   a = u * unsqueeze(slice(s, axis=0, start=0, stop=5), 0)
>   b = v * unsqueeze(slice(s, axis=0, start=5, stop=14), 0)
>   return matmul(x, concat(a, b, axis=1))
> }
> graph sums(u: f32[33, 5], v: f32[33, 9], s: f32[14]) {
>   a = u * unsqueeze(slice(s, axis=0, start=0, stop=5), 0)
>   b = v * unsqueeze(slice(s, axis=0, start=5, stop=14), 0)
>   return sum(concat(a, b, axis=1), axes=[0])
> }
> graph rows(u: f32[5, 33], v: f32[9, 33], s: f32[14]) {
>   a = softmax(u) * unsqueeze(slice(s, axis=0, start=0, stop=5), 1)
>   b = softmax(v) * unsqueeze(slice(s, axis=0, start=5, stop=14), 1)
>   return concat(a, b, axis=0)
> }
> EOF
$ for g in columns sums rows; do for m in boundary eager native; do proem run lanes.proem --graph $g --precision $m --check | grep -o ' ok (.*'; done; done
|  ok (98 checked, 0 unbounded)
|  ok (98 checked, 0 unbounded)
|  ok (98 checked, 0 unbounded)
|  ok (14 checked, 0 unbounded)
|  ok (14 checked, 0 unbounded)
|  ok (14 checked, 0 unbounded)
|  ok (462 checked, 0 unbounded)
|  ok (462 checked, 0 unbounded)
|  ok (462 checked, 0 unbounded)
# On a GPU a part of a column reduction's result is stored within its bounds, and a row that starts
# inside of a byte is not staged by bytes.
$ cat > gpu.proem <<'EOF'
> graph part(x: f64[17, 33, 16]) {
>   a, b = split(prod(x, axes=[1]), 2, axis=1)
>   return softmax(a)
> }
> graph bits(x: f16[45, 47], w: u2[65, 47], s: f32[33, 47]) {
>   return matmul(x, permute(dequantize(w, s, axis=0, block=2, dtype=f16), [1, 0]))
> }
> EOF
$ proem emit gpu.proem --graph part --fuse never --device cuda --arch sm_90a -o part > /dev/null; sed -n '/void k0_row_store/,/^}/p' part/k0*.cu | grep -c 'if (.* continue;'
| 1
# What is put together in whole pieces of 16 bytes is copied, on either side.
$ cat > pieces.proem <<'EOF'
> graph along(x: bf16[200, 64], y: bf16[200, 96], w: bf16[136, 160]) { return linear(concat(x, y, axis=1), w) }
> graph below(x: bf16[200, 160], w: bf16[64, 160], v: bf16[72, 160]) { return linear(x, concat(w, v, axis=0)) }
> graph askew(x: bf16[200, 60], y: bf16[200, 100], w: bf16[136, 160]) { return linear(concat(x, y, axis=1), w) }
> graph across(x: bf16[16, 4096], w: i8[4096, 512]) { return matmul(x, cast(w, bf16)) }
> EOF
$ for g in along below askew; do proem emit pieces.proem --graph $g --device cuda --arch sm_90a -o $g > /dev/null; grep -h -E 'define MM_(A|B0)_(FEED PK_FEED_(COPY|VALUE)|LEAF0_EACH 1)$' $g/*.cu; done
| #define MM_A_LEAF0_EACH 1
| #define MM_A_FEED PK_FEED_COPY
| #define MM_B0_LEAF0_EACH 1
| #define MM_B0_FEED PK_FEED_COPY
| #define MM_A_FEED PK_FEED_VALUE
# Two-bit elements are nothing that the template for few rows reads ahead.
$ echo 'graph g(q: u2[4, 64], s: e8m0[2, 64], w: i4[5, 64]) { return linear(dequantize(q, s, axis=0, block=2, dtype=bf16), cast(w, bf16)) }' > two.proem
$ proem emit two.proem --device cuda --arch sm_90a -o two > /dev/null; grep -h -E 'define MM_(KGROUPS|A_LEAVES) ' two/*.cu | head -n 2
| #define MM_A_LEAVES 0
| #define MM_KGROUPS 4
# Few rows of weights that lie along their columns: a template of their own.
$ proem emit pieces.proem --graph across --device cuda --arch sm_90a -o across > /dev/null; grep -h -E 'define MM_(RUN|COLS8|PARTS) ' across/*.cu | head -n 3
| #define MM_RUN 16
| #define MM_COLS8 2
| #define MM_PARTS 132
$ proem emit gpu.proem --graph bits --device cuda --arch sm_90a -o bits > /dev/null; grep 'define MM_B0_LEAF._BITS' bits/*.cu
| #define MM_B0_LEAF0_BITS 32
# Words of parts that lie side by side are read at once; others, and parts in another order, are not.
$ cat > words.proem <<'EOF'
> graph scale(x: f32[3, 64], w: u8[9, 2, 34]) {
>   d = cast(bitcast(slice(w, axis=2, stop=2), f16), f32)
>   q = cast(bitcast(slice(w, axis=2, start=2), i8), f32)
>   return linear(x, reshape(q * d, [9, 64]))
> }
> graph long(w: i8[5, 132]) {
>   return bitcast(slice(w, axis=1, start=1, stop=129), i32), bitcast(slice(w, axis=1, start=4), i64), bitcast(w, u16)
> }
> graph apart(w: u8[4, 70]) {
>   return bitcast(flip(w, axes=[1]), u16), bitcast(slice(permute(w, [1, 0]), axis=0, stop=33), i32), bitcast(concat(w, w, axis=0), i16)
> }
> graph by_hand(w: u8[70]) {
>   a = cast(slice(w, axis=0, stop=64, step=2), u32)
>   b = cast(slice(w, axis=0, start=1, stop=65, step=2), u32)
>   return cast((a << 0) | (b << 8), u16), cast((a << 8) | (b << 0), u16), cast((a << 0) | (b << 8), f32)
> }
> EOF
$ for g in scale long apart by_hand; do proem run words.proem --graph $g --seed 3 --check | grep -o " ok (.*"; done
|  ok (27 checked, 3 unbounded)
|  ok (160 checked, 0 unbounded)
|  ok (80 checked, 0 unbounded)
|  ok (330 checked, 0 unbounded)
|  ok (140 checked, 0 unbounded)
|  ok (33 checked, 0 unbounded)
|  ok (280 checked, 0 unbounded)
|  ok (32 checked, 0 unbounded)
|  ok (32 checked, 0 unbounded)
|  ok (32 checked, 0 unbounded)
$ proem emit words.proem --graph scale -o words | head -1; grep -c 'pk_ld1_f16(w' words/k0_matmul_linear_1.c
| words/k0_matmul_linear_1.c
| 1
