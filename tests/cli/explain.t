# The contract's example.
$ proem explain linear.proem --dim M=16 --arch avx2 | grep -v '^  packed\|^  few rows\|^  order'
| linear_int8 on cpu (avx2), precision boundary, M = 16
| 1 kernel; moves 59.4 MB, a kernel an operator 1235.6 MB
|
| kernel 0, matmul: k0_matmul_y
|   computed in the loads of b: cast_1, unsqueeze_1, mul_1, wd, permute_1
|   computed on the result: h, y
|   reads 58.9 MB: x, w, s, b
|   writes 0.5 MB: y
|
| edges
|   cast_1 -> mul_1 (a): fused, bytes: reads 58.7 MB instead of 234.8 MB
|   mul_1 -> wd (x): fused, bytes: reads 58.7 MB instead of 234.8 MB
|   wd -> matmul_1 (b): fused, bytes: reads 58.7 MB instead of 117.4 MB
|   matmul_1 -> h (a): fused, epilogue: follows the product element by element, in registers
|   h -> y (x): fused, epilogue: follows the product element by element, in registers
$ proem explain linear.proem --dim M=16 --arch avx2 --json | sed 's/"config": {"packed[^}]*}/"config": {..}/'
| {"version": 1, "graph": "linear_int8", "device": "cpu", "dims": {"M": 16}, "kernels": [{"id": 0, "template": "matmul", "name": "k0_matmul_y", "prologue": {"a": [], "b": ["cast_1", "unsqueeze_1", "mul_1", "wd", "permute_1"]}, "epilogue": ["h", "y"], "reads": 58937344, "writes": 458752, "config": {..}}], "edges": [{"from": "cast_1", "to": "mul_1", "input": "a", "verdict": "fused", "rule": "bytes", "why": "reads 58.7 MB instead of 234.8 MB"}, {"from": "mul_1", "to": "wd", "input": "x", "verdict": "fused", "rule": "bytes", "why": "reads 58.7 MB instead of 234.8 MB"}, {"from": "wd", "to": "matmul_1", "input": "b", "verdict": "fused", "rule": "bytes", "why": "reads 58.7 MB instead of 117.4 MB"}, {"from": "matmul_1", "to": "h", "input": "a", "verdict": "fused", "rule": "epilogue", "why": "follows the product element by element, in registers"}, {"from": "h", "to": "y", "input": "x", "verdict": "fused", "rule": "epilogue", "why": "follows the product element by element, in registers"}], "bytes": {"unfused": 1235636224, "fused": 59396096}}
$ proem explain linear.proem --arch avx2 | head -n 8
| linear_int8 on cpu (avx2), precision boundary, M not bound
| 1 kernel; moves ? bytes, a kernel an operator ? bytes
|
| kernel 0, matmul: k0_matmul_y
|   computed in the loads of b: cast_1, unsqueeze_1, mul_1, wd, permute_1
|   computed on the result: h, y
|   reads ? bytes: x, w, s, b
|   writes ? bytes: y
$ proem explain linear.proem --arch avx2 --json | grep -o '"dims.*"kernels"\|"reads.*config\|"bytes": {.*'
| "dims": {}, "kernels"
| "reads": null, "writes": null, "config
| "bytes": {"unfused": null, "fused": null}}

# Sizes from a file's shape.
$ proem run small.proem --dim M=5 --in x=ones --out y=y.npy > /dev/null
$ printf 'graph g(x: f32[M, 2]) { return x * 2 }' > g.proem; proem explain g.proem --in x=y.npy --json | grep -o '"dims": {[^}]*}'
| "dims": {"M": 5}

# Choices.
$ proem explain small.proem --dim M=64 --fuse never --arch avx2 | grep -v '^  packed\|^  few rows\|^  order'
| small on cpu (avx2), precision boundary, M = 64
| 4 kernels; moves 4.1 kB, a kernel an operator 4.1 kB
|
| kernel 0, matmul: k0_matmul_matmul_1
|   reads 792 bytes: x, w
|   writes 512 bytes: matmul_1
|   operands exchanged
|
| kernel 1, pointwise: k1_pointwise_h
|   computes: h
|   reads 520 bytes: b, matmul_1
|   writes 512 bytes: h
|
| kernel 2, pointwise: k2_pointwise_y
|   computes: y
|   reads 512 bytes: h
|   writes 512 bytes: y
|
| kernel 3, reduction: k3_reduction_sum_1
|   reads 512 bytes: y
|   writes 256 bytes: sum_1
|
| edges
|   matmul_1 -> h (a): stored, never: fusing was ruled out by option
|   h -> y (x): stored, never: fusing was ruled out by option
|   y -> sum_1 (x): stored, output: it is an output of the graph
$ proem explain small.proem --dim M=64 --fuse h:y=never --arch avx2 | sed -n '/^edges/,$p'
| edges
|   matmul_1 -> h (a): fused, epilogue: follows the product element by element, in registers
|   h -> y (x): stored, forced: fusing was ruled out by option
|   y -> sum_1 (x): stored, output: it is an output of the graph
$ proem explain small.proem --dim M=64 --fuse always --assume bandwidth --precision eager --arch avx2 | head -n 2
| small on cpu (avx2), precision eager, M = 64
| 2 kernels; moves 2.1 kB, a kernel an operator 4.1 kB
$ proem explain small.proem --dim M=64 --tune --tune=order --strict --threads 1 --seed 4 --arch generic | head -n 1
| small on cpu (generic), precision boundary, M = 64

# A GPU is planned for by name anywhere; running needs one.
$ proem explain small.proem --dim M=64 --device cuda --arch sm_90a | head -n 2
| small on cuda (sm_90a), precision boundary, M = 64
| 2 kernels; moves 2.1 kB, a kernel an operator 4.1 kB
$ proem explain small.proem --dim M=64 --device cuda --arch sm_80 --json | grep -o '"device": "[a-z]*"'
| "device": "cuda"
$ PROEM_NVRTC=/nonexistent/libnvrtc.so proem explain small.proem --dim M=64 --device cuda --arch sm_90a | grep -c '^not compiled: no CUDA compiler: '
| 1
$ PROEM_CUDA=/nonexistent/libcuda.so.1 proem explain small.proem --device cuda
2> proem: no CUDA device: the driver's library cannot be opened; looked for /nonexistent/libcuda.so.1; with --arch sm_90a it plans without one
? 4
$ PROEM_CUDA=/nonexistent/libcuda.so.1 proem run small.proem --device cuda
2> proem: no CUDA device: the driver's library cannot be opened; looked for /nonexistent/libcuda.so.1
? 4
$ PROEM_CUDA=/nonexistent/libcuda.so.1 proem bench small.proem --device cuda --arch sm_90a
2> proem: no CUDA device: the driver's library cannot be opened; looked for /nonexistent/libcuda.so.1
? 4
$ proem explain small.proem --device cuda --arch sm_70
2> proem: --arch: arch 'sm_70' is no GPU that is known; expected sm_80, sm_90, sm_90a or sm_100a
? 2
$ proem explain small.proem --device cuda --arch avx2
2> proem: --arch: arch 'avx2' is no GPU that is known; expected sm_80, sm_90, sm_90a or sm_100a
? 2

# What a value broadcasts may come later in the text than what it follows.
$ proem explain order.proem --graph left --dim M=4 | grep -e '^kernel' -e '->'
| kernel 0, reduction: k0_reduction_sum_1
| kernel 1, matmul: k1_matmul_y
|   matmul_1 -> y (a): fused, epilogue: follows the product element by element, in registers
|   sum_1 -> y (b): stored, result: another kernel reads the finished result
$ proem explain order.proem --graph right --dim M=4 | grep -e '^kernel' -e '->'
| kernel 0, reduction: k0_reduction_sum_1
| kernel 1, matmul: k1_matmul_y
|   sum_1 -> y (a): stored, result: another kernel reads the finished result
|   matmul_1 -> y (b): fused, epilogue: follows the product element by element, in registers
# Sizes that a graph cannot have are an error for whoever asks.
$ cat > sizes.proem <<'EOF'
> graph part(x: f32[M, 8]) {
>   return slice(x, axis=0, start=5) * 2
> }
> graph less(x: f32[M - 5, 8], w: f32[M, 4]) {
>   return relu(x), w + 1
> }
> EOF
$ for g in part less; do proem explain sizes.proem --graph $g --dim M=3; proem emit sizes.proem --graph $g --dim M=3 -o none; done
2> sizes.proem:2:10: error: 5 may not be larger than M, 3
2> sizes.proem:2:10: error: 5 may not be larger than M, 3
2> proem: x: dim 0, M - 5, is negative: -2
2> proem: x: dim 0, M - 5, is negative: -2
? 2
$ proem explain sizes.proem --graph less --dim M=7 | head -2
| less on cpu (native), precision boundary, M = 7
| 2 kernels; moves 352 bytes, a kernel an operator 352 bytes
# A load of more bytes than the value has is worth it where the value is not written and read; what a
# reduction holds follows the reduction.
$ cat > why.proem <<'EOF'
> graph why(x: f32[M, 64], y: f32[M, 64], w: f32[8, 64]) {
>   return linear(x * y, w), exp(max(x, axes=[1]))
> }
> EOF
$ proem explain why.proem --dim M=100 | grep -e '->'
|   mul_1 -> linear_1 (x): fused, bytes: reads 51.2 kB, where 25.6 kB would be written and read
|   max_1 -> exp_1 (x): fused, epilogue: follows the reduction element by element, in registers
$ proem explain why.proem --dim M=100 --fuse max_1:exp_1=never | grep -e '->'; proem explain why.proem --dim M=100 --fuse never | grep -e '->'
|   mul_1 -> linear_1 (x): fused, bytes: reads 51.2 kB, where 25.6 kB would be written and read
|   max_1 -> exp_1 (x): stored, forced: fusing was ruled out by option
|   mul_1 -> linear_1 (x): stored, never: fusing was ruled out by option
|   max_1 -> exp_1 (x): stored, never: fusing was ruled out by option

# Graphs of any depth, on a small stack.
$ awk 'BEGIN { print "graph g(x: f32[64]) {\n v0 = sin(x)"; for (i = 1; i < 50000; i++) printf " v%d = sin(v%d)\n", i, i - 1; print " return v49999\n}" }' > deep.proem; (ulimit -s 1024; proem explain deep.proem --arch avx2 > deep.txt); echo $?; grep -c 'stored, size:' deep.txt
| 0
| 260
$ awk 'BEGIN { printf "graph g(x: f32[64]) { return x"; for (i = 1; i < 50000; i++) printf " + x"; print " }" }' > deep.proem; (ulimit -s 1024; proem explain deep.proem --arch avx2 > deep.txt); echo $?; grep -c 'stored, size:' deep.txt
| 0
| 260
$ awk 'BEGIN { print "graph g(x: f32[8, 8]) {\n v0 = sin(x)"; for (i = 1; i < 20000; i++) printf " v%d = transpose(v%d)\n", i, i - 1; print " return sin(v19999)\n}" }' > deep.proem; (ulimit -s 1024; proem explain deep.proem --arch avx2 > /dev/null); echo $?
| 0
