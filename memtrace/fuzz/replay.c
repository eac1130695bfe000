/* replay.c - a main function for fuzz targets without a fuzzer: runs them on files and folders of files.
 *
 * usage: fuzz_TARGET FILE|FOLDER...
 *
 * Prints how many inputs it ran. To fuzz, omit this file and let clang provide the engine, for example
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -std=gnu11 -I. \
 *       memtrace/fuzz/fuzz_reader.c memtrace/{base,format,blocks,read,write,ops}/[a-z]*.c -lzstd -lxxhash -o fuzz_reader
 *   ./fuzz_reader -max_total_time=60 CORPUS
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int failed;
static unsigned long inputs;

static void complain(const char *path)
{
    fprintf(stderr, "fuzz: %s: %s\n", path, strerror(errno));
    failed = 1;
}

static void run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = NULL;
    size_t size = 0, got;
    if (!file) {
        complain(path);
        return;
    }
    do {
        data = realloc(data, size + 65536);
        if (!data)
            abort();
        got = fread(data + size, 1, 65536, file);
        size += got;
    } while (got);
    if (ferror(file))
        complain(path);
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
    inputs++;
    free(data);
}

static void run_folder(const char *path, DIR *folder)
{
    char name[4096];
    const struct dirent *entry;
    while ((entry = readdir(folder))) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        run_file(name);
    }
    closedir(folder);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s FILE|FOLDER...\n", argv[0]);
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        if (folder)
            run_folder(argv[i], folder);
        else
            run_file(argv[i]);
    }
    printf("%lu inputs\n", inputs);
    return failed;
}
