# Models stand where a graph's file stands.
$ for kind in layer outside nowhere large_nowhere wide escaping short shaped lacking unnamed; do python3 onnx_model.py $kind $kind.onnx; done
$ proem run layer.onnx --in x=ones --dim batch=2 --out y=y.npy --check | sed 's/max_err.*  ok/ok/'
| y: f32[2, 2]  ok (4 checked, 0 unbounded)
$ python3 -c 'import struct; print(struct.unpack("<4f", open("y.npy", "rb").read()[-16:]))'
| (9.0, 12.0, 9.0, 12.0)
$ proem run layer.onnx --dim batch=3 --device ref
| y: f32[3, 2]
$ proem run layer.onnx
2> proem: symbol batch is not bound (x needs it): give its size, --dim batch=..
? 2
$ proem explain layer.onnx --dim batch=4 | head -2
| layer on cpu (native), precision boundary, batch = 4
| 1 kernel; moves 104 bytes, a kernel an operator 168 bytes
$ proem emit layer.onnx --dim batch=4 -o out | sed 's/compile each.*/../'
| out/k0_matmul_y.c
| ..
$ proem explain layer.onnx --run-pass parse
| graph layer(x: f32[batch, 3], const w: f32[3, 2] = "layer.onnx:w") {
|   `/layer/MatMul_output_0` = matmul(x, w)
|   y = relu(`/layer/MatMul_output_0`)
|   return y
| }
$ proem fmt layer.onnx
| graph layer(x: f32[batch, 3], const w: f32[3, 2] = "layer.onnx:w") {
|   `/layer/MatMul_output_0` = matmul(x, w)
|   y = relu(`/layer/MatMul_output_0`)
|   return y
| }

# Written again with each kernel as a function, a model means the same; the same kernels come of it.
$ proem explain layer.onnx --dim batch=2 --onnx kernels.onnx | head -2; grep -ac proem.kernel kernels.onnx
| layer on cpu (native), precision boundary, batch = 2
| 1 kernel; moves 64 bytes, a kernel an operator 96 bytes
| 3
$ proem explain kernels.onnx --dim batch=2 | sed -n 2p
| 1 kernel; moves 64 bytes, a kernel an operator 96 bytes
$ proem run layer.onnx --in x=ones --dim batch=2 --out y=y.npy && proem run kernels.onnx --in x=ones --dim batch=2 --out y=k.npy && cmp y.npy k.npy
| y: f32[2, 2]
| y: f32[2, 2]
$ proem explain kernels.onnx --dim batch=2 --onnx twice.onnx > /dev/null; grep -ao 'k0_matmul_y[_0-9]*\|proem.kernel' twice.onnx | sort | uniq -c | sed 's/^ *//'; proem run twice.onnx --in x=ones --dim batch=2 --out y=k.npy && cmp y.npy k.npy
| 3 k0_matmul_y
| 3 k0_matmul_y_2
| 6 proem.kernel
| y: f32[2, 2]
$ proem explain layer.onnx --dim batch=2 --onnx kernels/x.onnx
2> proem: kernels/x.onnx: cannot create: No such file or directory
? 2
$ echo 'graph g(x: f32[2]) { return x }' > g.proem && proem explain g.proem --onnx g.onnx
2> proem: --onnx: g.proem is no ONNX model
? 2

# Tensors outside lie in the model's folder, wherever that is.
$ mkdir data && python3 -c 'import struct; open("data/w.bin", "wb").write(struct.pack("<8f", 0, 0, 1, 2, 3, 4, 5, 6))'
$ proem run outside.onnx --in x=ones --dim batch=1 --out y=y.npy
| y: f32[1, 2]
$ proem explain outside.onnx --dim batch=1 --onnx again.onnx > /dev/null && proem run again.onnx --in x=ones --dim batch=1
| y: f32[1, 2]
$ proem explain outside.onnx --dim batch=1 --onnx data/outside.onnx
2> proem: --onnx: the model has external data, which are found beside it: expected a file in the same folder, not 'data/outside.onnx'
? 2
$ proem explain data/../outside.onnx --dim batch=1 --onnx ./again.onnx > /dev/null && proem explain outside.onnx --dim batch=1 --onnx "$PWD/again.onnx" > /dev/null
$ proem explain outside.onnx --dim batch=1 --onnx ./outside.onnx
2> proem: --onnx: './outside.onnx' is a file of the model itself; choose another name
? 2
$ for kind in nowhere large_nowhere; do proem run $kind.onnx --dim batch=1; done
2> proem: nowhere.onnx: tensor 'w': external data in '', which is not inside the model's folder
2> proem: large_nowhere.onnx: tensor 'w': external data in '', which is not inside the model's folder
? 2
$ cd data && proem run ../outside.onnx --in x=ones --dim batch=1 --check | sed 's/max_err.*  ok/ok/'
| y: f32[1, 2]  ok (2 checked, 0 unbounded)
$ proem run escaping.onnx --dim batch=1
2> proem: escaping.onnx: tensor 'w': external data in '../w.bin', which is not inside the model's folder
? 2
$ truncate -s 20 data/w.bin && proem run outside.onnx --dim batch=1
2> proem: outside.onnx: tensor 'w': ./data/w.bin ends before its bytes 8 to 32
? 2

# Shapes from values.
$ proem run shaped.onnx
2> proem: shaped.onnx: node 'node of y' (Reshape): shapes depend on its input 'shape'; that must be known when the model is read, as an input's values are if --in gives them from a file
? 3
$ python3 -c 'import struct; h = "{\"descr\": \"<i8\", \"fortran_order\": False, \"shape\": (2,), }".ljust(117) + "\n"; open("s.npy", "wb").write(b"\x93NUMPY\1\0" + struct.pack("<H", len(h)) + h.encode() + struct.pack("<2q", 4, -1))'
$ proem run shaped.onnx --in shape=s.npy
| y: f32[4, 3]

# What is wrong is one line.
$ proem run lacking.onnx
2> proem: lacking.onnx: operators that are not supported: Conv-21 (node 'node of a'), com.example.Gizmo-1 (node 'node of b')
? 3
$ proem run short.onnx --dim batch=1
2> proem: short.onnx: tensor 'w': 20 bytes at most where its dims need 24
? 2
$ proem run unnamed.onnx
2> proem: unnamed.onnx: node 'node of /layer/MatMul_output_0' (MatMul): its input 'w' is no input, initializer or earlier result
? 2
$ head -c 99 layer.onnx >cut.onnx; proem run cut.onnx
2> proem: cut.onnx: byte 2, in ModelProto: a length runs past the end
? 2
$ proem run none.onnx
2> proem: none.onnx: cannot open: No such file or directory
? 2
$ printf 'graph g() {}' >text.onnx; proem run text.onnx
2> proem: text.onnx: byte 0, in ModelProto: a key has a kind that the format lacks
? 2

# Convert.
$ proem convert layer.onnx -o sub.proem && cat sub.proem
| graph layer(x: f32[batch, 3], const w: f32[3, 2] = "sub.safetensors:w") {
|   `/layer/MatMul_output_0` = matmul(x, w)
|   y = relu(`/layer/MatMul_output_0`)
|   return y
| }
$ proem run sub.proem --dim batch=2 --in x=ones --check | sed 's/max_err.*  ok/ok/'
| y: f32[2, 2]  ok (4 checked, 0 unbounded)
$ proem convert layer.onnx
2> proem: proem convert needs -o FILE
? 2
$ proem convert sub.proem -o x.proem
2> proem: proem convert: sub.proem: expected a file named .onnx
? 2
$ proem convert layer.onnx -o x.safetensors
2> proem: -o: 'x.safetensors' is wrong; expected the name of a graph's file
? 2
$ for out in layer.onnx x.npz x.npy x.gguf .onnx; do proem convert layer.onnx -o $out; done
2> proem: -o: 'layer.onnx' is wrong; expected the name of a graph's file
2> proem: -o: 'x.npz' is wrong; expected the name of a graph's file
2> proem: -o: 'x.npy' is wrong; expected the name of a graph's file
2> proem: -o: 'x.gguf' is wrong; expected the name of a graph's file
2> proem: -o: '.onnx' is wrong; expected the name of a graph's file
? 2
$ proem convert layer.onnx -o . ; proem convert layer.onnx -o /dev/full; ls -d .safetensors /dev/full.safetensors
2> proem: .: cannot create: Is a directory
2> proem: -o: '/dev/full' is no regular file: the weights are written beside it
2> ls: cannot access '.safetensors': No such file or directory
2> ls: cannot access '/dev/full.safetensors': No such file or directory
? 2
$ ln layer.onnx link.txt; proem convert layer.onnx -o link.txt
2> proem: -o: 'link.txt' is a file of the model itself; choose another name
? 2

# The files of a model stay as they are, whatever the new one is called.
$ python3 -c 'import struct; open("wide.safetensors", "wb").write(struct.pack("<65536f", *range(65536)))'; cp wide.safetensors w.bin
$ proem convert wide.onnx -o wide.proem; proem explain wide.onnx --dim batch=1 --onnx wide.safetensors; cmp wide.safetensors w.bin; ls wide.*
| wide.onnx
| wide.safetensors
2> proem: -o: 'wide.safetensors' is a file of the model itself; choose another name
2> proem: --onnx: 'wide.safetensors' is a file of the model itself; choose another name
$ proem convert wide.onnx -o w.proem; tail -c 262144 w.safetensors | cmp - w.bin; proem run w.proem --dim batch=1 --check | sed 's/max_err.*  ok/ok/'
| y: f32[1, 256]  ok (256 checked, 0 unbounded)
# One that cannot be written leaves the old one, and nothing else.
$ cp w.safetensors old; (trap '' XFSZ; ulimit -f 8; proem convert wide.onnx -o w.proem); cmp w.safetensors old; ls -A | grep tmp
2> proem: w.safetensors: cannot write: File too large
? 1

# Convert takes values that shapes are computed from, and says what it would pass over.
$ proem convert shaped.onnx --in shape=s.npy -o shaped.proem && grep -c graph shaped.proem
| 1
$ proem convert layer.onnx --in x=zeros -o x.proem; proem convert layer.onnx --in z=s.npy -o x.proem; proem convert layer.onnx --in '*=zeros' -o x.proem; proem convert layer.onnx --dim batch=2 -o x.proem
2> proem: --in: 'x=zeros' says nothing to convert: expected values in a file, which shapes are computed from
2> proem: --in: the model has no input 'z'
2> proem: --in: the model has no input '*'
2> proem: --dim is no option of proem convert
? 2
