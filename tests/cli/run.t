$ proem run small.proem --dim M=4
| y: f32[4, 2]
| out1: f32[4]
$ proem run small.proem --dim M=4 --device ref
| y: f32[4, 2]
| out1: f32[4]
$ proem run small.proem --dim M=4 --check | sed 's/max_err.*  ok/ok/'
| y: f32[4, 2]  ok (8 checked, 0 unbounded)
| out1: f32[4]  ok (4 checked, 0 unbounded)
$ proem run small.proem --dim M=4 --check --device ref | sed 's/max_err.*  ok/ok/'
| y: f32[4, 2]  ok (8 checked, 0 unbounded)
| out1: f32[4]  ok (4 checked, 0 unbounded)
$ proem run small.proem --dim M=400 --check=rows:7 | sed 's/max_err.*  ok/ok/'
| y: f32[400, 2]  ok (14 checked, 0 unbounded)
| out1: f32[400]  ok (400 checked, 0 unbounded)
$ proem run small.proem --dim M=4 --json | sed 's/"graph".*/../'
| {"version": 1, "outputs": [{"name": "y", "dtype": "f32", "shape": [4, 2], "max_err": null, "bound_ratio": null, "ok": null}, {"name": "out1", "dtype": "f32", "shape": [4], "max_err": null, "bound_ratio": null, "ok": null}], ..
$ proem run small.proem --dim M=4 --check --json | sed 's/"max_err": [^,]*/"max_err": E/g; s/"bound_ratio": [^,]*/"bound_ratio": R/g; s/"graph".*/../'
| {"version": 1, "outputs": [{"name": "y", "dtype": "f32", "shape": [4, 2], "max_err": E, "bound_ratio": R, "ok": true, "checked": 8, "unbounded": 0}, {"name": "out1", "dtype": "f32", "shape": [4], "max_err": E, "bound_ratio": R, "ok": true, "checked": 4, "unbounded": 0}], ..
$ proem run small.proem --dim M=0 --check
| y: f32[0, 2]  max_err 0  bound_ratio 0  ok (0 checked, 0 unbounded)
| out1: f32[0]  max_err 0  bound_ratio 0  ok (0 checked, 0 unbounded)
$ for p in boundary eager native; do proem run small.proem --dim M=9 --check --precision $p --fuse never --threads 1 | grep -c ok; done
| 2
| 2
| 2

# Values.
$ proem run small.proem --in '*=ones' --dim M=2 --out y=y.npy --out out1=s.npy
| y: f32[2, 2]
| out1: f32[2]
$ tail -c +129 y.npy | od -An -tf4
|                4               4               4               4
$ tail -c +129 s.npy | od -An -tf4
|                8               8
$ proem run small.proem --in x=y.npy
2> proem: x: dim 1 is 2 instead of 3
? 2
$ proem run small.proem --dim M=2 --out y=a.npy > /dev/null; proem run small.proem --dim M=2 --out y=b.npy > /dev/null; proem run small.proem --dim M=2 --seed 1 --out y=c.npy > /dev/null; cmp a.npy b.npy && ! cmp -s a.npy c.npy && echo seeds
| seeds
$ proem run small.proem --in '*=ones' --dim M=2 --device ref --out y=d.npy > /dev/null; cmp y.npy d.npy && echo same
| same

# Wrong data.
$ proem run gather.proem --dim T=5 --check
| y: f32[5, 2]  max_err 0  bound_ratio 0  ok (10 checked, 0 unbounded)
| q: i32[5]  max_err 0  bound_ratio 0  ok (5 checked, 0 unbounded)
$ proem run gather.proem --dim T=10 --in index=arange
2> proem: take(x, index): index[8] is 8, but x has 8 rows along axis 0 (allowed: -8..7)
? 2
$ proem run gather.proem --dim T=10 --in index=arange --device ref
2> proem: take(x, index): index[8] is 8, but x has 8 rows along axis 0 (allowed: -8..7)
? 2
$ proem run gather.proem --dim T=4 --in d=arange
2> proem: floordiv(100, d): d[0] is 0; an integer divisor must not be 0
? 2
$ proem run gather.proem --dim T=4 --in d=arange --device ref
2> proem: floordiv(const_2, d): d[0] is 0; an integer divisor must not be 0
? 2
$ proem run small.proem
2> proem: symbol M is not bound (x needs it): give its size, --dim M=..
? 2
$ proem run small.proem --in x=missing.npy
2> proem: missing.npy: cannot open: No such file or directory
? 2
$ proem run small.proem --dim M=2 --out y=/nonexistent/y.npy
2> proem: /nonexistent/y.npy: cannot create: No such file or directory
? 2
