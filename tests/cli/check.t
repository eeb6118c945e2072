# A compiler that gets a constant wrong: the check finds it, and says where.
$ cat > wrong-cc <<'END'
> #!/bin/sh
> for a; do case $a in *.c) sed -i 's/(float)37\.0/(float)38.0/' "$a" ;; esac; done
> exec cc "$@"
> END
$ chmod +x wrong-cc; printf 'graph g(x: f32[2, 3]) {\n  y = x * 37\n  return y, x + 1\n}\n' > g.proem
$ CC=$PWD/wrong-cc PROEM_CACHE_DIR= proem run g.proem --in x=arange
| y: f32[2, 3]
| out1: f32[2, 3]
$ CC=$PWD/wrong-cc PROEM_CACHE_DIR= proem run g.proem --in x=arange --check
| y: f32[2, 3]  max_err 5  bound_ratio inf  FAILED (6 checked, 0 unbounded), worst at [0, 1]
| out1: f32[2, 3]  max_err 0  bound_ratio 0  ok (6 checked, 0 unbounded)
? 1
$ CC=$PWD/wrong-cc PROEM_CACHE_DIR= proem run g.proem --in x=zeros --check
| y: f32[2, 3]  max_err 0  bound_ratio 0  ok (6 checked, 0 unbounded)
| out1: f32[2, 3]  max_err 0  bound_ratio 0  ok (6 checked, 0 unbounded)
$ CC=$PWD/wrong-cc PROEM_CACHE_DIR= proem run g.proem --in x=arange --check --json > out.json; echo $?; sed 's/, "graph".*//' out.json
| 1
| {"version": 1, "outputs": [{"name": "y", "dtype": "f32", "shape": [2, 3], "max_err": 5.0, "bound_ratio": null, "ok": false, "checked": 6, "unbounded": 0}, {"name": "out1", "dtype": "f32", "shape": [2, 3], "max_err": 0.0, "bound_ratio": 0.0, "ok": true, "checked": 6, "unbounded": 0}]
$ CC=$PWD/wrong-cc PROEM_CACHE_DIR= proem run g.proem --in x=arange --check=rows:1
| y: f32[2, 3]  max_err 5  bound_ratio inf  FAILED (3 checked, 0 unbounded), worst at [1, 0]
| out1: f32[2, 3]  max_err 0  bound_ratio 0  ok (3 checked, 0 unbounded)
? 1
$ proem run g.proem --in x=arange --check
| y: f32[2, 3]  max_err 0  bound_ratio 0  ok (6 checked, 0 unbounded)
| out1: f32[2, 3]  max_err 0  bound_ratio 0  ok (6 checked, 0 unbounded)

# A compiler that fails.
$ printf '#!/bin/sh\ncase $1 in --version) echo bad 1 ;; *) echo broken >&2; exit 3 ;; esac\n' > bad-cc; chmod +x bad-cc; CC=$PWD/bad-cc PROEM_CACHE_DIR= proem run g.proem 2>&1 | sed "s#$PWD#DIR#g; s#/tmp/[^ ]*/##g"
| proem: the C compiler 'DIR/bad-cc' failed (exit 3) on unit 'k0_pointwise_y': broken
$ CC=$PWD/bad-cc PROEM_CACHE_DIR= proem run g.proem 2> /dev/null
? 4

# Offsets that a reduction computes and only its own kernel needs: the check of data reads them.
$ printf 'graph g(x: f32[1, 64], id: i64[4, 2], v: f32[4, 64, 32]) { return grouped_matmul(x, v, cast(sum(id, axes=[1]), i32)) }' >offsets.proem
$ proem run offsets.proem --in id=zeros --check | sed 's/max_err.*  ok/ok/'
| out0: f32[1, 32]  ok (32 checked, 0 unbounded)
$ proem run offsets.proem --in id=ones
2> proem: grouped_matmul(x, v, cast_1): cast_1[0] is 2; offsets must not decrease and are at most the 1 rows of x
? 2
