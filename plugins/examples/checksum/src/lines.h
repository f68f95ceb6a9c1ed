// Lines of a file, counted one piece after the other.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t count, blank, trailing, longest, windows;
    bool complete;
    bool is_text;
    uint64_t not_text; // the first byte that is not UTF-8, where it is not text

    // Of the line at hand, and of the letter.
    uint64_t length, at;
    bool only_blanks;
    uint8_t last, last_but_one;
    int missing;
    uint8_t least, most;
} line_count;

void lines_start(line_count *lines);
void lines_add(line_count *lines, const uint8_t *bytes, size_t count);
void lines_end(line_count *lines);
