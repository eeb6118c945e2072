# The canonical form; comments stay.
$ proem fmt linear.proem
| # a linear layer on int8 weights with one scale per output row
| graph linear_int8(
|   x: bf16[M, 4096],
|   const w: i8[14336, 4096],
|   const s: f32[14336],
|   const b: bf16[14336]
| ) {
|   wd = cast(cast(w, f32) * unsqueeze(s, 1), bf16)  # dequantize
|   h = matmul(x, permute(wd, [1, 0])) + b  # [M, 14336]
|   y = silu(h)
|   return y
| }
$ proem fmt two.proem
| graph first(x: f32[N]) {
|   return x * 2
| }
|
| graph second(x: f32[N]) {
|   # twice
|   y = x + x  # here
|   return y
| }
$ proem fmt two.proem --graph second
| graph second(x: f32[N]) {
|   # twice
|   y = x + x  # here
|   return y
| }
$ proem fmt linear.proem > once.proem; proem fmt once.proem | cmp - once.proem && echo same
| same
$ proem fmt - < small.proem
| # a small layer
| graph small(x: f32[M, 3], w: f32[3, 2], b: f32[2]) {
|   h = matmul(x, w) + b
|   y = relu(h)
|   return y, sum(y, axes=[1])
| }

# What is wrong.
$ proem fmt two.proem --graph third
2> proem: there is no graph 'third'; the first is 'first'
? 2
$ proem fmt missing.proem
2> proem: missing.proem: No such file or directory
? 2
$ printf 'graph g(x: f32[2]) {\n  y = foo(x)\n  return y\n}\n' > bad.proem; proem fmt bad.proem
2> bad.proem:2:7: error: there is no operator `foo`
? 2
$ printf 'graph g(x: f32[2, 3]) {\n  y = matmul(x, x)\n  return y\n}\n' > bad.proem; proem fmt bad.proem
2> bad.proem:2:7: error: matmul: x f32[2, 3] and x f32[2, 3]: the inner dims are 3 and 2; they must be equal (permute or slice one of them)
? 2
$ printf '' > empty.proem; proem fmt empty.proem
2> empty.proem:1:1: error: expected `graph NAME(..) {`, found the end of the text
? 2
