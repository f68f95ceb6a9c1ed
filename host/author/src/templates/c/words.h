// Counts words. Plain C: `make test` tests it without a component.

#ifndef WORDS_H
#define WORDS_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *word; // in lower case, allocated, not ended by a zero
    size_t length;
    uint32_t times;
} word_count;

// Finds the words of a text, the most frequent first, equally frequent ones in alphabetical order.
// Gives how many there are; `*words` and the words in it are the caller's to free.
size_t count_words(const char *text, size_t length, word_count **words);

#endif
