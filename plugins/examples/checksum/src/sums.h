// Checksums, fed with one piece after the other.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t state[8];
    uint64_t length;
    uint8_t block[64];
} sha256;

uint32_t crc32_add(uint32_t sum, const uint8_t *bytes, size_t count); // begins with 0

#define FNV1A_START UINT64_C(0xcbf29ce484222325)
uint64_t fnv1a_add(uint64_t sum, const uint8_t *bytes, size_t count);

void sha256_start(sha256 *sum);
void sha256_add(sha256 *sum, const uint8_t *bytes, size_t count);
void sha256_end(sha256 *sum, uint8_t digest[32]);
