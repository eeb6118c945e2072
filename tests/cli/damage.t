# Files that are cut short, corrupt or not what their name says: one line, and exit status 2.
$ cat > id.proem <<'END'
> graph id(x: f32[2, 3]) { return x + 0 }
> END
$ proem run id.proem --in x=arange --out out0=x.npy
| out0: f32[2, 3]
$ head -c 100 x.npy > cut.npy; proem run id.proem --in x=cut.npy
2> proem: cut.npy: truncated: the header needs 118 bytes, 90 are left
? 2
$ head -c 140 x.npy > cut.npy; proem run id.proem --in x=cut.npy
2> proem: cut.npy: truncated: the data needs 24 bytes, 12 are left
? 2
$ head -c 5 x.npy > cut.npy; proem run id.proem --in x=cut.npy
2> proem: cut.npy: truncated: the magic needs 8 bytes, 5 are left
? 2
$ : > empty.npy; proem run id.proem --in x=empty.npy
2> proem: empty.npy: truncated: the magic needs 8 bytes, 0 are left
? 2
$ (cat x.npy; printf tail) > long.npy; proem run id.proem --in x=long.npy
| out0: f32[2, 3]
$ proem run id.proem --in x=id.proem
2> proem: 'id.proem' is no source; expected x.npy, m.npz:KEY, m.safetensors:KEY, m.gguf:KEY, m.onnx:KEY, zeros, ones, arange, randn, rand, randint:LO:HI or a number
? 2
$ mkdir dir.npy; proem run id.proem --in x=dir.npy
2> proem: dir.npy: not a regular file
? 2
$ printf '\x93NUMPY\x01\x00\xff\xff' > huge.npy; proem run id.proem --in x=huge.npy
2> proem: huge.npy: truncated: the header needs 65535 bytes, 0 are left
? 2
$ printf "\x93NUMPY\x01\x00\x76\x00%-117s\n" "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8), }" > wide.npy; proem run id.proem --in x=wide.npy
2> proem: x: dim 0 is 4611686018427387904 instead of 2
? 2
$ printf "\x93NUMPY\x01\x00\x76\x00%-117s\n" "{'descr': '|O', 'fortran_order': False, 'shape': (2, 3), }" > object.npy; proem run id.proem --in x=object.npy
2> proem: object.npy: NumPy dtype '|O' is not supported; expected bool, an integer, f2, f4 or f8 (save bf16 as uint16, f8 as uint8)
? 3
$ printf '\xff\xff\xff\xff\xff\xff\xff\x7f{}' > huge.safetensors; proem run id.proem --weights huge.safetensors
2> proem: huge.safetensors: the header says it is 9223372036854775807 bytes long; the most is 100000000
? 2
$ printf '\x02\x00\x00' > cut.safetensors; proem run id.proem --weights cut.safetensors
2> proem: cut.safetensors: truncated: 8 bytes from offset 0 are needed, the file has 3
? 2
$ printf '\x08\x00\x00\x00\x00\x00\x00\x00{"x": {{' > bad.safetensors; proem run id.proem --weights bad.safetensors
2> proem: bad.safetensors: the header is not valid JSON: string or '}' expected near '{'
? 2
$ printf '\x50\0\0\0\0\0\0\0%-80s' '{"x": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}' | head -c 88 > none.safetensors; proem run id.proem --weights none.safetensors
2> proem: none.safetensors: key 'x': data ends at 24, the file has 0 bytes of data
? 2
$ printf '\x50\0\0\0\0\0\0\0%-80s123456789012345678901234' '{"x": {"dtype": "F32", "shape": [2, 3], "data_offsets": [24, 0]}}' > turned.safetensors; proem run id.proem --weights turned.safetensors
2> proem: turned.safetensors: key 'x': 'data_offsets' must be [begin, end], 0 <= begin <= end
? 2
$ printf 'PK\x03\x04garbage' > bad.npz; proem run id.proem --in x=bad.npz:x
2> proem: bad.npz: cannot read the zip archive: Not a zip archive
? 2
$ head -c 20 id.proem > cut.proem; proem run cut.proem
2> cut.proem:1:21: error: expected `]` after the list, found the end of the text
? 2
$ : > empty.proem; proem run empty.proem
2> empty.proem:1:1: error: expected `graph NAME(..) {`, found the end of the text
? 2
$ printf 'graph g(x: f32[2]) { return x + \xff }' > bytes.proem; proem fmt bytes.proem
2> bytes.proem:1:33: error: the text is not UTF-8
? 2
$ printf 'graph g(x: f32[2]) { return x + 0 }\0more' > zero.proem; proem fmt zero.proem
2> zero.proem:1:36: error: the text has a control character (0x00); remove it
? 2
$ proem fmt x.npy
2> x.npy:1:1: error: the text is not UTF-8
? 2
$ proem fmt dir.npy
2> proem: dir.npy: Is a directory
? 2
$ (printf 'graph g(x: f32[2]) { return '; head -c 100000 /dev/zero | tr '\0' '('; echo ' }') > deep.proem; proem fmt deep.proem
2> deep.proem:1:284: error: brackets are nested more than 256 deep; bind parts of the expression to names
? 2
$ (printf 'graph g(x: f32[99999999999999999999]) { return x }') > large.proem; proem fmt large.proem
2> large.proem:1:16: error: 99999999999999999999 is too large for any integer dtype; write a float, as in 1e20
? 2
$ printf 'graph g(x: f32[4000000000, 4000000000]) { return x + 0 }' > sizes.proem; proem run sizes.proem
2> sizes.proem:1:9: error: x: f32[4000000000, 4000000000] has too many elements; make its dimensions smaller
? 2
$ printf 'graph g(x: f32[1000000, 1000000, 1000]) { return x + 0 }' > memory.proem; proem run memory.proem
2> proem: x: no room for 4000000000000000 bytes; use smaller dims
? 4
$ proem run id.proem --in x=zeros --out out0=/nowhere/y.npy
2> proem: /nowhere/y.npy: cannot create: No such file or directory
? 2
$ proem run id.proem --in x=zeros --out out0=dir.npy
2> proem: dir.npy: cannot create: Is a directory
? 2
$ ln -s /dev/full full.npy; proem run id.proem --in x=zeros --out out0=full.npy
2> proem: full.npy: cannot write: No space left on device
? 4
$ proem explain id.proem > /dev/full
2> proem: standard output: cannot be written
? 4
$ proem explain id.proem --json > /dev/full
2> proem: standard output: cannot be written
? 4
$ proem fmt id.proem > /dev/full
2> proem: standard output: cannot be written
? 4
$ proem fmt id.proem >&-
2> proem: standard output: cannot be written
? 2
$ mkdir -p room; ln -s /dev/full room/00-parse.proem; proem explain id.proem --dump-dir room > /dev/null
2> proem: room/00-parse.proem: cannot write: No space left on device
? 4
# What a file says is quoted on one line, without control characters.
$ printf '\223NUMPY\1\0\46\0{\47a\33[31m\177\47: \47<f4\47, \47shape\47: (1,)     }\n' > keys.npy; proem run id.proem --in x=keys.npy
2> proem: keys.npy: bad .npy header: key 'a?[31m?' is unknown; expected descr, fortran_order and shape, once each
? 2

# An output may take the place of an input, which is mapped; a link and the file's mode stay.
$ echo 'graph same(x: f32[M]) { return x }' > same.proem
$ python3 -c 'import struct; h = "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (524288,), }".ljust(117) + "\n"; open("t.npy", "wb").write(b"\x93NUMPY\1\0" + struct.pack("<H", len(h)) + h.encode() + struct.pack("<524288f", *range(524288)))'
$ chmod 600 t.npy; ln -s t.npy l.npy; cp t.npy u.npy; proem run same.proem --in x=t.npy --out x=l.npy; tail -c 2097152 u.npy > u; tail -c 2097152 t.npy | cmp - u; stat -c '%F %a' l.npy t.npy
| x: f32[524288]
| symbolic link 777
| regular file 600
