// Ways to fail in C.

#include "tools.h"

#include <assert.h>
#include <stdlib.h>

typedef struct {
    const char *word;
    uint32_t times;
} entry;

static entry *find(uint32_t index) {
    static entry *entries[4];
    return index < 4 ? entries[index] : NULL;
}

void exports_local_faults_ways_null_dereference(uint32_t index, tools_string_t *ret) {
    static entry first;
    entry *found = find(index), *other = index ? &first : NULL;
    other->times = index; // a check that passes, beside the one that does not
    tools_string_dup(ret, found->word); // fault: null-dereference
}

static uint32_t twice(uint32_t number) { return 2 * number; }

typedef const char *(*lookup)(const char *, const char *);

static void *volatile function = (void *)twice;

void exports_local_faults_ways_wrong_type(uint32_t index, exports_local_faults_ways_list_word_count_t *ret) {
    lookup look = (lookup)function;
    ret->len = 0;
    ret->ptr = (void *)look(index ? "a" : "b", "c"); // fault: wrong-type
}

bool exports_local_faults_ways_uncaught(uint32_t index, tools_string_t *ret, tools_string_t *err) {
    (void)ret, (void)err;
    assert(index > 100); // fault: uncaught
    return true;
}

uint32_t exports_local_faults_ways_out_of_memory(uint32_t index) {
    for (uint32_t taken = 0;; taken++) {
        char *more = malloc(1 << 20);
        more[taken % 4096] = (char)index; // fault: out-of-memory
        if (taken > 1 << 20) return (uint32_t)more[1];
    }
}
