/* SPDX-License-Identifier: MIT
 * The command: options, a session (context, program, inputs), one function for each subcommand.
 * Only here are things printed, and the environment read. Diagnostics go to stderr as one line,
 * results to stdout.
 */
#ifndef PROEM_CLI_H
#define PROEM_CLI_H

#include <jansson.h>
#include <stdio.h>

#include "driver/driver.h"
#include "front/front.h"

enum command {
    CMD_NONE,
    CMD_RUN = 1,
    CMD_EXPLAIN = 2,
    CMD_EMIT = 4,
    CMD_BENCH = 8,
    CMD_FMT = 16,
    CMD_DOCTOR = 32,
    CMD_CACHE = 64,
    CMD_CONVERT = 128
};

enum cli_device { CLI_CPU, CLI_CUDA, CLI_REF };

/* NAME=TEXT */
struct pair {
    const char *name, *text;
};

struct cli {
    struct arena *arena;
    enum command command;
    const char *file;    /* the graph's file; "stat" or "clear" of cache */
    VEC(struct pair) in; /* in order; the name may be "*" */
    const char *weights;
    uint64_t seed;
    VEC(struct pair) out;
    VEC(struct pair) dims;
    const char *graph;
    enum precision precision;
    int threads;
    enum fuse_policy fuse;
    VEC(struct pair) force; /* name: FROM:TO, text: always or never */
    bool assume_bandwidth, tune, tune_order, strict;
    VEC(const char *) dump;
    const char *dump_dir, *run_pass;
    enum cli_device device;
    const char *arch;
    bool check, json, vs_unfused, version, help;
    int64_t rows;     /* of --check; 0: all */
    const char *onnx; /* of explain: where the model with kernels as functions goes */
    const char *dir;  /* of -o: emit's folder, convert's file */
};

enum proem_status cli_parse(struct cli *o, int argc, char **argv, struct err *e);
void cli_usage(FILE *to);

/* ---- sessions (session.c) -------------------------------------------------------------------- */

struct input {
    struct array array; /* loaded; data NULL before */
    struct src src;     /* where from; random if not given */
    bool given;
    struct random_rule rule; /* of a random one */
    int64_t shape[MAX_RANK]; /* of its file, if that tells */
    bool shape_known;
};

struct session {
    const struct cli *o;
    struct arena arena;
    proem_context *c;
    proem_program *p;
    struct src_files files;
    struct input *in; /* by parameter */
    size_t n_in;
    struct str text;         /* of the file */
    double started_us;       /* on now_us()'s clock */
    struct err not_compiled; /* explain, for a GPU: why the compiler was not asked */
};

/* Read the file and run the first pass. Close it whether or not it succeeds. */
enum proem_status session_open(struct session *s, const struct cli *o, struct err *e);
void session_close(struct session *s);
/* A context alone, for doctor and cache. */
enum proem_status session_context(struct session *s, const struct cli *o, struct err *e);
/* Another program for the same graph (bench), parsed and bound alike. */
enum proem_status session_program(struct session *s, enum fuse_policy fuse, proem_program **out,
                                  struct err *e);
/* The last pass to run: at least `last`, further if -d asks for a later one. */
enum pass_id session_last(const struct session *s, enum pass_id last);
/* Is this the file of an ONNX model? (onnx.c) */
bool is_onnx(const char *path);
/* The session's file, a model, as graph text. */
enum proem_status session_import(struct session *s, struct err *e);
/* explain --onnx: the session's model, planned, with its kernels as functions, to a file. */
enum proem_status session_export(struct session *s, struct err *e);
/* --run-pass: print what the pass makes of the file. */
enum proem_status session_run_pass(struct session *s, struct err *e);

/* ---- inputs (inputs.c, rules.c) -------------------------------------------------------------- */

/* Find each parameter's source and bind sizes by --dim and files' shapes. */
enum proem_status inputs_bind(struct session *s, struct err *e);
/* Every symbol has a value now. Load files, make random values. */
enum proem_status inputs_load(struct session *s, struct err *e);
/* What the uses of integer parameters demand of random values. */
enum proem_status inputs_rules(struct session *s, struct err *e);

/* ---- runs (execute.c) ------------------------------------------------------------------------ */

double now_us(void); /* of a clock that is never set */

/* A program bound to the session's inputs. Zero it before; close it in any case. */
struct bound_run {
    proem_program *p;
    proem_execution *x;
    size_t n_in, n_out;
    DLTensor *in_tensor, *out_tensor;
    const DLTensor **in_ptr;
    DLTensor **out_ptr;
    struct array *out;
    double ready_ms, first_run_ms; /* from the command's start, and of the run after that */
};

enum proem_status bound_run_open(struct session *s, proem_program *p, struct bound_run *r,
                                 struct err *e);
enum proem_status bound_run_once(struct bound_run *r, struct err *e);
void bound_run_close(struct bound_run *r);

/* Times of runs, in microseconds. */
struct bench_series {
    double *us;
    int n, cap;
};

/* Measure n bound programs against each other on the GPU (bench_cuda.c). */
enum proem_status bench_cuda(struct session *s, struct bound_run *r, struct bench_series *out,
                             int n, struct err *e);

/* ---- output ---------------------------------------------------------------------------------- */

/* Print `FILE:LINE:COL: error: TEXT` or `proem: TEXT`; returns the exit status. */
int print_error(const char *file, const struct err *e);
/* One JSON object and a newline on stdout; frees it. */
enum proem_status stdout_failed(struct err *e); /* by errno */
enum proem_status print_json(json_t *root, struct err *e);
json_t *json_real_or_null(double v); /* null if it is not finite */
/* The parameter's name of the consumer's operand, its position if it has none. */
const char *edge_input(struct arena *a, const struct graph *g, const struct plan_edge *edge);
const char *verdict_name(enum verdict v);
const char *precision_name(enum precision p);
const char *device_name(enum cli_device d);

/* Write text to a file; PROEM_IO names it. */
enum proem_status write_text(const char *path, const char *text, size_t n, struct err *e);
/* With its parents; one that is there is fine. */
enum proem_status make_dir(struct arena *a, const char *path, struct err *e);

/* ---- subcommands ----------------------------------------------------------------------------- */

enum proem_status cmd_run(struct session *s, struct err *e);
enum proem_status cmd_explain(struct session *s, struct err *e);
enum proem_status cmd_emit(struct session *s, struct err *e);
enum proem_status cmd_bench(struct session *s, struct err *e);
enum proem_status cmd_fmt(struct session *s, struct err *e);
enum proem_status cmd_doctor(struct session *s, struct err *e);
enum proem_status cmd_cache(struct session *s, struct err *e);
enum proem_status cmd_convert(struct session *s, struct err *e);

/* Explain's two forms. */
enum proem_status explain_json(struct session *s, struct err *e);
enum proem_status explain_text(struct session *s, struct err *e);

#endif
