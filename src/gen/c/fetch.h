/* SPDX-License-Identifier: MIT
 * Prefetches of what a product's results are combined with and stored to, while the product runs.
 */
#ifndef PROEM_FETCH_H
#define PROEM_FETCH_H

#include "gen/c/emit.h"

/* Is there anything worth fetching: a tensor read, or written, element by element with the result?
 */
int fetch_count(struct emit *e, sx row, sx along); /* of how many tensors */
bool fetch_needed(struct emit *e, sx row, sx along);
/* MM(c_fetch), within the hook of the results (emit_hook was called for it). */
void fetch_write(struct emit *e, sx row, sx along, const char *row_name, const char *along_name);

#endif
