/* SPDX-License-Identifier: MIT
 * A data error in words, the same as those of compiled programs: the operator as it is written, the
 * element in row-major order, its value, what is allowed.
 *
 *   take(x, index): index[3] is 12, but x has 8 rows along axis 0 (allowed: -8..7)
 */
#include "eval/tensor.h"

static void print_call(const struct ev *ev, enum op op, struct str *out) {
    const char *separator = "";
    str_printf(out, "%s(", op == OP_LOOKUP ? "take" : op_info(op)->name);
    for (int k = 0; k < ev->n_names; k++) {
        if (ev->in_name[k] == NULL) continue;
        str_printf(out, "%s%s", separator, ev->in_name[k]);
        separator = ", ";
    }
    str_add(out, ")");
}

static void print_position(const struct tensor *t, int64_t i, struct str *out) {
    int64_t at[MAX_RANK];
    for (int d = t->rank; d-- > 0;) {
        at[d] = t->shape[d] > 0 ? i % t->shape[d] : 0;
        i = t->shape[d] > 0 ? i / t->shape[d] : 0;
    }
    for (int d = 0; d < t->rank; d++) {
        str_printf(out, d == 0 ? "[%lld" : ", %lld", (long long)at[d]);
    }
    if (t->rank > 0) str_add(out, "]");
}

enum proem_status data_error(struct ev *ev, enum op op, int operand, const struct tensor *t,
                             int64_t i, int64_t value, const char *reason) {
    struct str text;
    str_init(&text, ev->alloc);
    print_call(ev, op, &text);
    str_printf(&text, ": %s", ev->in_name[operand]);
    if (ev->pair_i != NULL) { /* in a hook: i-th pair of one head */
        str_printf(&text, " at b, h, i, j = %lld, %lld, %lld, %lld", (long long)ev->pair_b,
                   (long long)ev->pair_h, (long long)ev->pair_i[i], (long long)ev->pair_j[i]);
    } else {
        print_position(t, i, &text);
    }
    str_printf(&text, " is %lld%s", (long long)value, reason);
    enum proem_status s =
        text.failed ? err_nomem(ev->err) : err_set(ev->err, PROEM_DATA, "%s", str_text(&text));
    str_free(&text);
    return s;
}

enum proem_status index_error(struct ev *ev, enum op op, int operand, const struct tensor *t,
                              int64_t i, int64_t value, int64_t bound, int axis) {
    const char *allowed = "";
    if (bound > 0) {
        allowed = arena_printf(&ev->scratch, " (allowed: %lld..%lld)", (long long)-bound,
                               (long long)bound - 1);
    }
    const char *reason =
        arena_printf(&ev->scratch, ", but %s has %lld rows along axis %d%s", ev->in_name[0],
                     (long long)bound, axis, allowed != NULL ? allowed : "");
    if (reason == NULL || allowed == NULL) return err_nomem(ev->err);
    return data_error(ev, op, operand, t, i, value, reason);
}
