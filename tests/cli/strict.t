# Fallbacks: explain lists them, and --strict refuses them in every command.
$ cat > strict.proem <<'EOF'
> graph heads(q: f32[1, 2, S, 16], k: f32[1, 2, L, 16], v: f32[1, 2, L, 16]) {
>   o = attention(q, k, v)
>   return o
> }
> graph two(x: f32[8, 8], w: f32[8, 8]) {
>   h = relu(matmul(x, w))
>   s = sum(h, axes=[1])
>   return h, s
> }
> EOF
$ proem explain strict.proem --dim S=4 --dim L=5 | grep fallback
| fallback: o: attention runs as 2 products, and what is between them is stored; no template does it in one kernel here
$ proem explain strict.proem --dim S=4 --dim L=5 --json | grep -o '"fallbacks.*'
| "fallbacks": [{"what": "o", "why": "attention runs as 2 products, and what is between them is stored; no template does it in one kernel here"}]}
$ proem explain strict.proem --dim S=4 --dim L=5 --strict
2> proem: o: attention runs as 2 products, and what is between them is stored; no template does it in one kernel here (--strict)
? 3
$ proem run strict.proem --dim S=4 --dim L=5 --strict
2> proem: o: attention runs as 2 products, and what is between them is stored; no template does it in one kernel here (--strict)
? 3
$ proem emit strict.proem --dim S=4 --dim L=5 --strict -o strict.d; ls strict.d
2> proem: o: attention runs as 2 products, and what is between them is stored; no template does it in one kernel here (--strict)
2> ls: cannot access 'strict.d': No such file or directory
? 2
$ proem run strict.proem --dim S=4 --dim L=5 > /dev/null; echo $?
| 0
# The interpreter has no plan.
$ proem run strict.proem --dim S=4 --dim L=5 --strict --device ref
| o: f32[1, 2, 4, 16]

# An edge that cannot be fused; one that is.
$ proem explain strict.proem --graph two --fuse h:s=always | grep fallback
| fallback: edge h -> s: it is to be fused, but it is stored (output): it is an output of the graph
$ proem run strict.proem --graph two --fuse h:s=always --strict
2> proem: edge h -> s: it is to be fused, but it is stored (output): it is an output of the graph (--strict)
? 3
$ proem run strict.proem --graph two --fuse matmul_1:h=always --strict
| h: f32[8, 8]
| s: f32[8]
$ proem run strict.proem --graph two --fuse never --strict
| h: f32[8, 8]
| s: f32[8]
$ proem explain strict.proem --graph two --json | grep -c fallbacks
| 0
? 1
