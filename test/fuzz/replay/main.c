/* Gives a fuzz target the files of its corpus, one after the other: linked in place of
 * libFuzzer's main. A crash is a failure of the file named last. FUZZ_FILE says its name to
 * targets that expect something of it. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path) {
    FILE *f = fopen(path, "rb");
    uint8_t *data = NULL;
    size_t size = 0;
    int rc = 1;
    if (f && fseek(f, 0, SEEK_END) == 0) {
        long end = ftell(f);
        rewind(f);
        /* exactly as large as the file, so that a sanitizer sees every byte read beyond it */
        data = end >= 0 ? malloc((size_t)end) : NULL;
        if (data || end == 0) size = fread(data, 1, (size_t)end, f);
        if (size == (size_t)end) rc = LLVMFuzzerTestOneInput(data, size);
    }
    if (f) (void)fclose(f);
    free(data);
    return rc;
}

int main(int argc, char **argv) {
    int bad = 0;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; i++) {
        struct dirent **names = NULL;
        int n = scandir(argv[i], &names, NULL, alphasort);
        for (int k = 0; k < n; k++) {
            char path[4096];
            if (names[k]->d_name[0] != '.') {
                (void)snprintf(path, sizeof path, "%s/%s", argv[i], names[k]->d_name);
                printf("[ RUN      ] %s\n", names[k]->d_name);
                (void)setenv("FUZZ_FILE", names[k]->d_name, 1);
                int failed = replay(path);
                printf("[ %s ] %s\n", failed ? " FAILED " : "      OK", names[k]->d_name);
                bad |= failed;
            }
            free(names[k]);
        }
        free(names);
    }
    return bad;
}
