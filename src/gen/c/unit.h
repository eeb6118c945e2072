/* SPDX-License-Identifier: MIT
 * What units of every language are put together with.
 */
#ifndef PROEM_UNIT_H
#define PROEM_UNIT_H

#include "gen/gen.h"

/* What a kernel's text calls it until unit_expand puts a name there: in names, and in messages. */
#define UNIT_TAG  "PKTAG"
#define UNIT_NAME "PKNAME"

/* The text of an embedded file, by its name of n characters. */
const char *unit_embedded(const char *name, size_t n);
/* A template's text; a file that it includes is written in its place. */
void unit_template(const char *file, struct str *out);
/* The prelude files of a function family, and "all" in their order (prelude/sections.def). */
const char *unit_prelude_files(const char *family, size_t n);
/* Is the word `name` of n characters in a list of words? */
bool unit_lists(const char *files, const char *name, size_t n);
/* Every node that the kernel's fns and checks reach. */
void unit_walk(struct plan *p, const struct kernel *k, fn_visit visit, void *user);
/* The kernel's arguments, and the place of each value among them, -1. */
enum proem_status unit_args(struct plan *p, struct kernel *k, struct gen_kernel *gk, int *slot,
                            struct err *e);

struct kernel_text {
    char *text;
    size_t n;
    uint64_t hash;
    int unit;
};
typedef VEC(struct kernel_text) kernel_texts;

/* The number of the text in the list, added if it is new; -1: no memory. */
int unit_intern(struct arena *a, kernel_texts *list, const struct str *s, bool share);
void unit_expand(const char *text, const char *tag, const char *name, struct str *out);

#endif
