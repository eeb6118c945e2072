/* SPDX-License-Identifier: MIT
 * The hooks and constants of one kernel, as its template's head comment asks for them.
 */
#ifndef PROEM_HOOKS_H
#define PROEM_HOOKS_H

#include "gen/c/emit.h"

/* Write the constants and hook functions of e->k to e->out, and name the template's file. few_rows:
 * for the template of few rows, of a kernel that has both. */
enum proem_status hooks_write(struct emit *e, bool few_rows, const char **template_file,
                              struct err *err);
/* A function P_NAME(PARAMS) of the hook at hand: the lanes of f; coordinates that the parameters do
 * not have are named in `missing`. */
void hooks_value(struct emit *e, const char *name, fn_id f, const char *lane, const char *params,
                 const char *missing);
/* The lanes that accumulate a product. */
const char *hooks_acc_lane(enum dtype d);
/* Do vectors of a reduction run along k, not along its rows? */
bool hooks_reduction_along(struct emit *e);
/* The check function, named <prefix>_check, if the kernel has checks. */
enum proem_status hooks_checks(struct emit *e, struct err *err);

#endif
