#include "sums.h"

#include <string.h>

uint32_t crc32_add(uint32_t sum, const uint8_t *bytes, size_t count) {
    static uint32_t table[256];
    if (!table[1]) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t value = i;
            for (int bit = 0; bit < 8; bit++) value = value >> 1 ^ (value & 1 ? 0xedb88320 : 0);
            table[i] = value;
        }
    }
    sum = ~sum;
    for (size_t i = 0; i < count; i++) sum = sum >> 8 ^ table[(sum ^ bytes[i]) & 0xff];
    return ~sum;
}

uint64_t fnv1a_add(uint64_t sum, const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
    return sum;
}

static const uint32_t ROUNDS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turn(uint32_t value, int by) {
    return value >> by | value << (32 - by);
}

static void block(sha256 *sum) {
    uint32_t words[64];
    for (int i = 0; i < 16; i++) {
        const uint8_t *at = sum->block + 4 * i;
        words[i] = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
    }
    for (int i = 16; i < 64; i++) {
        uint32_t a = words[i - 15], b = words[i - 2];
        uint32_t low = turn(a, 7) ^ turn(a, 18) ^ a >> 3, high = turn(b, 17) ^ turn(b, 19) ^ b >> 10;
        words[i] = words[i - 16] + low + words[i - 7] + high;
    }
    uint32_t s[8];
    memcpy(s, sum->state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]), most = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        uint32_t one = s[7] + (turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25)) + choice + ROUNDS[i] + words[i];
        uint32_t two = (turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22)) + most;
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (int i = 0; i < 8; i++) sum->state[i] += s[i];
}

void sha256_start(sha256 *sum) {
    *sum = (sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab,
                              0x5be0cd19}};
}

void sha256_add(sha256 *sum, const uint8_t *bytes, size_t count) {
    while (count) {
        size_t place = sum->length % 64, room = 64 - place, taken = count < room ? count : room;
        memcpy(sum->block + place, bytes, taken);
        sum->length += taken;
        bytes += taken;
        count -= taken;
        if (taken == room) block(sum);
    }
}

void sha256_end(sha256 *sum, uint8_t digest[32]) {
    uint64_t bits = 8 * sum->length;
    sha256_add(sum, (const uint8_t *)"\x80", 1);
    while (sum->length % 64 != 56) sha256_add(sum, (const uint8_t *)"", 1);
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_add(sum, length, sizeof length);
    for (int i = 0; i < 32; i++) digest[i] = (uint8_t)(sum->state[i / 4] >> (24 - 8 * (i % 4)));
}
