# The source of every kernel compiles by hand, without the library.
$ proem emit small.proem -o k/l --arch generic | sed 's/ -.* / .. /'
| k/l/k0_matmul_y.c
| k/l/k1_reduction_sum_1.c
| compile each with: cc .. -lm
$ proem emit small.proem -o k/l --arch generic | sed -n 's/^compile each with: //p' | sed 's,FILE,k/l/k0_matmul_y,g' | sh && nm -D k/l/k0_matmul_y.so | grep -c proem_unit
| 1
$ for f in k/l/*.c; do cc -std=gnu11 -O1 -w -Wno-psabi -fPIC -shared -nostartfiles "$f" -o "${f%.c}.so" || exit; done; ls k/l
| k0_matmul_y.c
| k0_matmul_y.so
| k1_reduction_sum_1.c
| k1_reduction_sum_1.so
$ nm -D --defined-only k/l/*.so | grep -c proem_unit
| 2
$ proem emit small.proem -o small.proem
2> proem: small.proem: there is a file of that name
? 2
$ proem emit small.proem --device cuda --arch sm_90a -o g
| g/k0_matmul_y.cu
| g/k1_reduction_sum_1.cu
$ head -n 2 g/k0_matmul_y.cu
| /* NVRTC: --gpu-architecture=sm_90a --std=c++17 --fmad=false --ptxas-options=-v
|  * nvcc -cubin -arch=sm_90a -std=c++17 -fmad=false k0_matmul_y.cu -o k0_matmul_y.cubin */
$ PROEM_NVRTC=/nonexistent/libnvrtc.so proem emit small.proem --device cuda --arch sm_90a -o g -d compile
2> proem: no CUDA compiler: libnvrtc cannot be opened; looked for /nonexistent/libnvrtc.so
? 4

# Squares and cubes are products, in every precision within the bounds of the power.
$ printf 'graph c(x: f32[9, 5]) { return pow(x, 2) + pow(x, 3) }' > cube.proem
$ proem emit cube.proem -o cube > /dev/null; sed -n 's/.* = pk_pow_vf32(v.*/pow/p' cube/k0*.c
$ for m in boundary eager native; do proem run cube.proem --in x=randn --precision $m --check | grep -o ' ok (.*'; done
|  ok (45 checked, 0 unbounded)
|  ok (45 checked, 0 unbounded)
|  ok (45 checked, 0 unbounded)
