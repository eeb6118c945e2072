# The source of every kernel compiles by hand, without the library.
$ proem emit small.proem -o k/l --arch generic | sed 's/ -.* / .. /'
| k/l/k0_matmul_y.c
| k/l/k1_reduction_sum_1.c
| compile each with: cc .. FILE.so
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
$ proem emit small.proem --device cuda -o k
2> proem: device cuda is not supported: this version of proem plans for CPUs only
? 3
