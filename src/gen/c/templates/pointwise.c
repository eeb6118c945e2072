/* SPDX-License-Identifier: MIT
 *
 * out_j[z, n] = f_j(z, n): rows z of N elements, PK_W at a time.
 *
 * The generator writes this file behind kernel_abi.h, the vector prelude, and, for each kernel:
 *
 *   #define PK_KERNEL k0           prefix: PW(x) is k0_x; undefined at the end, as every PW_*
 *   #define PW_NAME "..."
 *   struct PW(shape) { pk_i64 Z, N; };
 *   struct PW(shape) PW(get_shape)(const struct pk_args *g);
 *   struct PW(c_row) { .. };       what does not depend on n
 *   struct PW(c_row) PW(c_row_init)(const struct pk_args *g, pk_i64 z);
 *   void PW(c_store)(const struct pk_args *g, const struct PW(c_row) *r, pk_i64 z, pk_i64 n,
 *                    int cnt);     elements (z, n .. n+cnt-1), n a multiple of PK_W; the fast call
 *                                  passes cnt = PK_W as a literal
 *
 * What comes out: static const struct pk_kernel PW(kernel).
 */

#define PW_CAT2(a, b) a##_##b
#define PW_CAT1(a, b) PW_CAT2(a, b)
#define PW(x)         PW_CAT1(PK_KERNEL, x)
#define PW_CHUNK      8192 /* elements of a task, about; a multiple of PK_W */

/* A task is a piece of a row when rows are long, else some whole rows. */
struct PW(cut) {
    pk_i64 Z, N, pieces, rows;
};

static struct PW(cut) PW(make_cut)(const struct pk_args *g) {
    struct PW(shape) s = PW(get_shape)(g);
    struct PW(cut) c = {s.Z, s.N, 1, 1};
    if (s.Z <= 0 || s.N <= 0)
        c.Z = 0;
    else if (s.N >= PW_CHUNK)
        c.pieces = (s.N + PW_CHUNK - 1) / PW_CHUNK;
    else
        c.rows = (PW_CHUNK + s.N - 1) / s.N;
    return c;
}

static pk_i64 PW(none)(const struct pk_args *g) {
    (void)g;
    return 0;
}

static pk_i64 PW(tasks)(const struct pk_args *g, int phase) {
    struct PW(cut) c = PW(make_cut)(g);
    (void)phase;
    return c.pieces > 1 ? c.Z * c.pieces : (c.Z + c.rows - 1) / c.rows;
}

static void PW(piece)(const struct pk_args *g, pk_i64 z, pk_i64 n, pk_i64 end) {
    const struct PW(c_row) r = PW(c_row_init)(g, z);
    for (; n + PK_W <= end; n += PK_W)
        PW(c_store)(g, &r, z, n, PK_W);
    if (n < end) PW(c_store)(g, &r, z, n, (int)(end - n));
}

static void PW(run)(const struct pk_args *g, int phase, pk_i64 task) {
    struct PW(cut) c = PW(make_cut)(g);
    (void)phase;
    if (c.pieces > 1) {
        pk_i64 n = task % c.pieces * PW_CHUNK;
        PW(piece)(g, task / c.pieces, n, n + PW_CHUNK < c.N ? n + PW_CHUNK : c.N);
        return;
    }
    pk_i64 end = (task + 1) * c.rows < c.Z ? (task + 1) * c.rows : c.Z;
    for (pk_i64 z = task * c.rows; z < end; z++)
        PW(piece)(g, z, 0, c.N);
}

static const struct pk_kernel PW(kernel) = {
    .name = PW_NAME,
    .phases = 1,
    .shared_bytes = PW(none),
    .local_bytes = PW(none),
    .tasks = PW(tasks),
    .run = PW(run),
    .check = PK_CHECK,
};

#undef PW_CAT2
#undef PW_CAT1
#undef PW
#undef PW_CHUNK
#undef PW_NAME
#undef PK_KERNEL
#undef PK_CHECK
