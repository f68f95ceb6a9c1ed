// `make test`: the functions as plain C, without a component.

#undef NDEBUG
#include "../src/words.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(const char *text, size_t place, const char *word, uint32_t times) {
    word_count *words;
    size_t found = count_words(text, strlen(text), &words);
    assert(place < found);
    assert(words[place].length == strlen(word) && memcmp(words[place].word, word, strlen(word)) == 0);
    assert(words[place].times == times);
    for (size_t i = 0; i < found; i++) free(words[i].word);
    free(words);
}

int main(void) {
    expect("the cat and The hat", 0, "the", 2);
    expect("the cat and The hat", 1, "and", 1);
    word_count *words;
    assert(count_words(" ,;", 3, &words) == 0);
    puts("all tests passed");
    return 0;
}
