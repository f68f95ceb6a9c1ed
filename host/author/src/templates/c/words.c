#include "words.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// Letters beyond ASCII are several bytes, each of them above 127.
static bool is_letter(char c) {
    return (unsigned char)c > 127 || isalnum((unsigned char)c);
}

static int by_word(const void *a, const void *b) {
    const word_count *one = a, *other = b;
    size_t common = one->length < other->length ? one->length : other->length;
    int order = memcmp(one->word, other->word, common);
    return order ? order : (one->length > other->length) - (one->length < other->length);
}

static int by_times(const void *a, const void *b) {
    const word_count *one = a, *other = b;
    return one->times != other->times ? (one->times < other->times ? 1 : -1) : by_word(a, b);
}

static void *must(void *memory) {
    if (!memory) abort(); // ends this call alone
    return memory;
}

static char *lower_case(const char *text, size_t length) {
    char *copy = must(malloc(length));
    for (size_t i = 0; i < length; i++) copy[i] = (char)tolower((unsigned char)text[i]);
    return copy;
}

// Every word of the text, one after the other, each once.
static size_t split(const char *text, size_t length, word_count **words) {
    size_t found = 0, room = 0;
    *words = NULL;
    for (size_t at = 0; at < length;) {
        size_t start = at;
        while (at < length && is_letter(text[at])) at++;
        if (at == start) {
            at++;
            continue;
        }
        if (found == room) {
            room = room ? 2 * room : 64;
            *words = must(realloc(*words, room * sizeof **words));
        }
        (*words)[found++] = (word_count){lower_case(text + start, at - start), at - start, 1};
    }
    return found;
}

size_t count_words(const char *text, size_t length, word_count **words) {
    size_t found = split(text, length, words), kept = 0;
    if (!found) return 0;
    qsort(*words, found, sizeof **words, by_word);
    for (size_t i = 1; i < found; i++) {
        if (by_word(&(*words)[kept], &(*words)[i]) == 0) {
            (*words)[kept].times++;
            free((*words)[i].word);
        } else {
            (*words)[++kept] = (*words)[i];
        }
    }
    qsort(*words, kept + 1, sizeof **words, by_times);
    return kept + 1;
}
