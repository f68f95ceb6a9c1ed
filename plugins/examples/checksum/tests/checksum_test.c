// `make test`: sums and lines as plain C, without a component.

#undef NDEBUG
#include "../src/lines.h"
#include "../src/sums.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static void expect_sha256(const char *text, const char *expected) {
    sha256 sum;
    uint8_t digest[32];
    char shown[65];
    sha256_start(&sum);
    for (size_t i = 0; i < strlen(text); i++) sha256_add(&sum, (const uint8_t *)text + i, 1);
    sha256_end(&sum, digest);
    for (int i = 0; i < 32; i++) snprintf(shown + 2 * i, 3, "%02x", digest[i]);
    assert(strcmp(shown, expected) == 0);
}

static line_count lines_of(const char *text) {
    line_count lines;
    lines_start(&lines);
    lines_add(&lines, (const uint8_t *)text, strlen(text));
    lines_end(&lines);
    return lines;
}

static void sums(void) {
    const uint8_t *digits = (const uint8_t *)"123456789";
    assert(crc32_add(0, digits, 9) == 0xcbf43926);
    assert(crc32_add(crc32_add(0, digits, 4), digits + 4, 5) == 0xcbf43926);
    assert(fnv1a_add(FNV1A_START, (const uint8_t *)"a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
    expect_sha256("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect_sha256("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect_sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void lines(void) {
    line_count text = lines_of("one \r\n\n  \nfour");
    assert(text.count == 4 && text.blank == 2 && text.trailing == 1 && text.windows == 1);
    assert(text.longest == 4 && !text.complete && text.is_text);
    assert(lines_of("").count == 0 && lines_of("a\n").complete);
    for (const char *const *wrong = (const char *[]){"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc3", NULL};
         *wrong; wrong++) {
        assert(!lines_of(*wrong).is_text);
    }
    assert(lines_of("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\n").is_text);
    assert(lines_of("ab\xff").not_text == 2);
}

int main(void) {
    sums();
    lines();
    puts("all tests passed");
    return 0;
}
