// The tools of my-plugin: the functions that wit/world.wit describes, as build/bindings/tools.h
// declares them. `haft plugin build` makes that file.

#include "tools.h"
#include "words.h"

#include <stdlib.h>

bool exports_local_my_plugin_text_top_words(tools_string_t *text, uint32_t *maybe_limit,
                                            exports_local_my_plugin_text_list_word_count_t *ret,
                                            tools_string_t *err) {
    uint32_t limit = maybe_limit ? *maybe_limit : 10;
    if (limit == 0) {
        tools_string_dup(err, "`limit` must be at least 1");
        return false;
    }
    word_count *words;
    size_t found = count_words((const char *)text->ptr, text->len, &words);
    size_t given = found < limit ? found : limit;
    ret->len = given;
    ret->ptr = calloc(given ? given : 1, sizeof *ret->ptr);
    if (!ret->ptr) abort();
    for (size_t i = 0; i < given; i++) {
        // The bindings free the words when they have been handed over.
        ret->ptr[i].word = (tools_string_t){(uint8_t *)words[i].word, words[i].length};
        ret->ptr[i].times = words[i].times;
    }
    for (size_t i = given; i < found; i++) free(words[i].word);
    free(words);
    tools_string_free(text);
    return true;
}
