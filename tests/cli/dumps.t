# Every pass prints, and the print is read again.
$ proem explain small.proem --dim M=4 -d parse -d lower -d fuse --json 2>&1 > /dev/null
| # a small layer
| graph small(x: f32[M, 3], w: f32[3, 2], b: f32[2]) {
|   h = matmul(x, w) + b
|   y = relu(h)
|   return y, sum(y, axes=[1])
| }
| graph small(x: f32[M, 3], w: f32[3, 2], b: f32[2]) {
|   matmul_1 = matmul(x, w)  # f32[M, 2]
|   h = add(matmul_1, b)  # f32[M, 2]
|   y = relu(h)  # f32[M, 2]
|   sum_1 = sum(y, axes=[1])  # f32[M]
|   return y, sum_1 as out1
| }
| graph small(x: f32[M, 3], w: f32[3, 2], b: f32[2]) {
|   matmul_1 = matmul(x, w)  # f32[M, 2]
|   h = add(matmul_1, b)  # f32[M, 2]
|   y = relu(h)  # f32[M, 2]
|   sum_1 = sum(y, axes=[1])  # f32[M]
|   # kernel 0 matmul k0_matmul_y: Z = 1, M = M, N = 2, K = 3
|   #   a = x[m, k]
|   #   b0 = w[k, n]
|   #   y[m, n] = relu(add(acc0, b[n]))
|   #   reads x, w, b; 80 bytes. writes y; 32 bytes
|   # kernel 1 reduction k1_reduction_sum_1: Z = M, K = 2
|   #   acc0 = sum over k of y[z, k]
|   #   sum_1[z] = acc0 (once a row)
|   #   reads y; 32 bytes. writes sum_1; 16 bytes
|   return y, sum_1 as out1
| }
$ proem explain small.proem --dim M=4 -d lower | head -n 2
| graph small(x: f32[M, 3], w: f32[3, 2], b: f32[2]) {
|   matmul_1 = matmul(x, w)  # f32[M, 2]
$ proem explain small.proem --run-pass parse
| graph small(x: f32[M, 3], w: f32[3, 2], b: f32[2]) {
|   h = matmul(x, w) + b
|   y = relu(h)
|   return y, sum(y, axes=[1])
| }
$ proem explain small.proem --run-pass lower > lower.proem; proem explain lower.proem --run-pass lower | cmp - lower.proem && echo same
| same
$ proem explain lower.proem --run-pass fuse > fuse.proem; proem explain fuse.proem --run-pass fuse | cmp - fuse.proem && echo same
| same
$ proem explain fuse.proem --run-pass gen --dim M=4 --threads 1 | grep -c '^/. ---- k'
| 2
$ proem run small.proem --dim M=4 --dump-dir d > /dev/null; ls d | sed 's/k[01].*c$/C/'
| 00-parse.proem
| 01-lower.proem
| 02-fuse.proem
| 04-C
| 04-C
| 05-compile.txt
| 06-link.txt
$ cmp d/01-lower.proem lower.proem && echo same
| same
$ cat d/06-link.txt
| 0 k0_matmul_y(x, w, b, y)
| 1 k1_reduction_sum_1(y, sum_1)
$ proem run small.proem --dim M=4 --dump-dir small.proem
2> proem: small.proem: there is a file of that name
? 2

# A pass that the command would not need is run for its dump.
$ proem explain small.proem --dim M=4 -d link | head -n 2
| 0 k0_matmul_y(x, w, b, y)
| 1 k1_reduction_sum_1(y, sum_1)
$ proem fmt two.proem --graph second -d lower
| graph second(x: f32[N]) {
|   y = add(x, x)  # f32[N]
|   return y
| }
| graph second(x: f32[N]) {
|   # twice
|   y = x + x  # here
|   return y
| }
$ proem run small.proem --dim M=4 --device ref -d fuse | grep -c '# kernel'
| 2
# A rounding that a plan may leave out is still one after a dump is read and printed again.
$ cat > implied.proem <<'EOF'
> graph g(x: f16[2, 8]) {
>   return softmax(x) + 1
> }
> EOF
$ proem explain implied.proem --run-pass lower > a.proem; proem explain a.proem --run-pass parse > b.proem; proem explain b.proem --run-pass lower > c.proem; grep -c implied=true ?.proem
| a.proem:2
| b.proem:2
| c.proem:2
