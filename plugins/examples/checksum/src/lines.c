#include "lines.h"

static bool is_blank(uint8_t byte) {
    return byte == ' ' || byte == '\t';
}

void lines_start(line_count *lines) {
    *lines = (line_count){.only_blanks = true, .is_text = true};
}

// Ends the line at hand, the last byte of which is `last`.
static void line(line_count *lines, uint64_t length, uint8_t last) {
    lines->count++;
    if (lines->only_blanks) lines->blank++;
    else if (is_blank(last)) lines->trailing++;
    if (length > lines->longest) lines->longest = length;
    lines->length = 0;
    lines->only_blanks = true;
}

// Well-formed UTF-8, by the table of the Unicode standard: no overlong forms, no surrogates.
static bool letter(line_count *lines, uint8_t byte) {
    if (lines->missing) {
        bool is_next = byte >= lines->least && byte <= lines->most;
        lines->missing--;
        lines->least = 0x80;
        lines->most = 0xbf;
        return is_next;
    }
    lines->missing = byte < 0x80 ? 0 : byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    lines->least = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
    lines->most = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
    return byte && (byte < 0x80 || (byte >= 0xc2 && byte <= 0xf4));
}

void lines_add(line_count *lines, const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++, lines->at++) {
        uint8_t byte = bytes[i];
        if (lines->is_text && !letter(lines, byte)) {
            lines->is_text = false;
            lines->not_text = lines->at;
        }
        if (byte == '\n') {
            bool is_windows = lines->length && lines->last == '\r';
            lines->windows += is_windows;
            line(lines, lines->length - is_windows, is_windows ? lines->last_but_one : lines->last);
            lines->complete = true;
            lines->last = lines->last_but_one = 0;
            continue;
        }
        lines->complete = false;
        lines->length++;
        if (!is_blank(byte) && byte != '\r') lines->only_blanks = false;
        lines->last_but_one = lines->last;
        lines->last = byte;
    }
}

void lines_end(line_count *lines) {
    if (lines->is_text && lines->missing) {
        lines->is_text = false;
        lines->not_text = lines->at;
    }
    if (lines->length) line(lines, lines->length, lines->last);
}
