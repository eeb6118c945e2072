/* SPDX-License-Identifier: MIT
 * The text of the prelude and the templates, embedded in the library at build time.
 */
#ifndef PROEM_EMBEDDED_H
#define PROEM_EMBEDDED_H

#include <stddef.h>

struct embedded {
    const char *name; /* file name without folder */
    const char *text; /* NUL-terminated */
    size_t n;
};

/* Ended by an entry whose name is NULL. */
extern const struct embedded proem_embedded[];

#endif
