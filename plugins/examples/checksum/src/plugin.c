// The tools of checksum: the functions that wit/world.wit describes, as build/bindings/tools.h
// declares them. `haft plugin build` makes that file.

#include "lines.h"
#include "sums.h"
#include "tools.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CHUNK 65536 // bytes of one reading: as many as haft gives at once

typedef void piece(void *state, const uint8_t *bytes, size_t count);

static void fail(tools_string_t *err, const char *file, const char *why) {
    char message[512];
    snprintf(message, sizeof message, "cannot read `%.400s`: %s", file, why);
    tools_string_dup(err, message);
}

// Hands a file over piece by piece; false, with a message, where it cannot be read.
static bool read_file(tools_string_t *path, piece *take, void *state, tools_string_t *err) {
    static uint8_t buffer[CHUNK];
    char name[4096];
    if (path->len >= sizeof name || memchr(path->ptr, 0, path->len)) {
        tools_string_dup(err, "`file` is no path");
        return false;
    }
    memcpy(name, path->ptr, path->len);
    name[path->len] = 0;
    FILE *file = fopen(name, "rb");
    if (!file) {
        fail(err, name, strerror(errno));
        return false;
    }
    size_t count;
    while ((count = fread(buffer, 1, sizeof buffer, file))) take(state, buffer, count);
    bool is_read = !ferror(file);
    if (!is_read) fail(err, name, strerror(errno));
    fclose(file);
    return is_read;
}

typedef struct {
    exports_examples_checksum_checksum_kinds_t kinds;
    uint64_t size, fnv1a;
    uint32_t crc32;
    sha256 sha256;
} sums;

static void take_sums(void *state, const uint8_t *bytes, size_t count) {
    sums *all = state;
    all->size += count;
    if (all->kinds & EXPORTS_EXAMPLES_CHECKSUM_CHECKSUM_KINDS_CRC32) all->crc32 = crc32_add(all->crc32, bytes, count);
    if (all->kinds & EXPORTS_EXAMPLES_CHECKSUM_CHECKSUM_KINDS_FNV1A) all->fnv1a = fnv1a_add(all->fnv1a, bytes, count);
    if (all->kinds & EXPORTS_EXAMPLES_CHECKSUM_CHECKSUM_KINDS_SHA256) sha256_add(&all->sha256, bytes, count);
}

bool exports_examples_checksum_checksum_sums(tools_string_t *file, exports_examples_checksum_checksum_kinds_t kinds,
                                             exports_examples_checksum_checksum_checksums_t *ret, tools_string_t *err) {
    sums all = {.kinds = kinds, .fnv1a = FNV1A_START};
    sha256_start(&all.sha256);
    bool is_read = read_file(file, take_sums, &all, err);
    tools_string_free(file);
    if (!is_read) return false;
    *ret = (exports_examples_checksum_checksum_checksums_t){.size = all.size};
    if (kinds & EXPORTS_EXAMPLES_CHECKSUM_CHECKSUM_KINDS_CRC32) {
        char text[9];
        snprintf(text, sizeof text, "%08" PRIx32, all.crc32);
        ret->crc32.is_some = true;
        tools_string_dup(&ret->crc32.val, text);
    }
    if (kinds & EXPORTS_EXAMPLES_CHECKSUM_CHECKSUM_KINDS_FNV1A) {
        ret->fnv1a.is_some = true;
        ret->fnv1a.val = all.fnv1a;
    }
    if (kinds & EXPORTS_EXAMPLES_CHECKSUM_CHECKSUM_KINDS_SHA256) {
        uint8_t digest[32];
        char text[65];
        sha256_end(&all.sha256, digest);
        for (int i = 0; i < 32; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
        ret->sha256.is_some = true;
        tools_string_dup(&ret->sha256.val, text);
    }
    return true;
}

static void take_lines(void *state, const uint8_t *bytes, size_t count) {
    lines_add(state, bytes, count);
}

bool exports_examples_checksum_checksum_lines(tools_string_t *file, exports_examples_checksum_checksum_line_statistics_t *ret,
                                              tools_string_t *err) {
    line_count lines;
    lines_start(&lines);
    bool is_read = read_file(file, take_lines, &lines, err);
    tools_string_free(file);
    if (!is_read) return false;
    lines_end(&lines);
    uint64_t ended = lines.count - (lines.count && !lines.complete);
    *ret = (exports_examples_checksum_checksum_line_statistics_t){
        .count = lines.count,
        .blank = lines.blank,
        .trailing = lines.trailing,
        .longest = lines.longest,
        .ends = !ended                   ? EXPORTS_EXAMPLES_CHECKSUM_CHECKSUM_ENDS_NONE
                : !lines.windows         ? EXPORTS_EXAMPLES_CHECKSUM_CHECKSUM_ENDS_UNIX
                : lines.windows == ended ? EXPORTS_EXAMPLES_CHECKSUM_CHECKSUM_ENDS_WINDOWS
                                         : EXPORTS_EXAMPLES_CHECKSUM_CHECKSUM_ENDS_MIXED,
        .complete = lines.complete,
        .not_text = {.is_some = !lines.is_text, .val = lines.not_text},
    };
    return true;
}
