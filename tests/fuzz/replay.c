/* SPDX-License-Identifier: MIT
 * Runs a fuzz target on every file of a folder, in order of name, so that ordinary tests replay
 * what fuzzing found: fuzz_x_replay FOLDER. An empty or missing folder is a failure.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int is_input(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

int main(int argc, char **argv) {
    struct dirent **names;
    int n = argc == 2 ? scandir(argv[1], &names, is_input, alphasort) : -1;
    if (n <= 0) {
        fprintf(stderr, "usage: replay FOLDER (which holds at least one file)\n");
        return 1;
    }
    for (int i = 0; i < n; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[1], names[i]->d_name);
        FILE *f = fopen(path, "rb");
        long size = f != NULL && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
        uint8_t *data = size >= 0 ? malloc((size_t)size + (size == 0)) : NULL;
        if (data == NULL || fseek(f, 0, SEEK_SET) != 0 ||
            fread(data, 1, (size_t)size, f) != (size_t)size) {
            fprintf(stderr, "%s: cannot read\n", path);
            return 1;
        }
        fclose(f);
        LLVMFuzzerTestOneInput(data, (size_t)size);
        free(data);
        free(names[i]);
    }
    free(names);
    printf("%d inputs replayed\n", n);
    return 0;
}
