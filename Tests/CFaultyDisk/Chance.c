// OpenSSL 3 calls this way of giving random bytes old, and has no other one for a whole process.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "CFaultyDisk.h"

#include <openssl/rand.h>

static _Thread_local int is_seeded;
static _Thread_local uint64_t state;

static uint64_t next(void) {
    state += 0x9E3779B97F4A7C15;
    uint64_t bits = state;
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9;
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB;
    return bits ^ bits >> 31;
}

static int bytes(unsigned char *to, int count) {
    if (!is_seeded) return RAND_OpenSSL()->bytes(to, count);
    for (int place = 0; place < count; place += 8) {
        uint64_t chance = next();
        for (int byte = 0; byte < 8 && place + byte < count; byte++) to[place + byte] = (unsigned char)(chance >> 8 * byte);
    }
    return 1;
}

static int status(void) { return 1; }

static RAND_METHOD method = {.bytes = bytes, .pseudorand = bytes, .status = status};

void onym_chance_begin(uint64_t seed) {
    state = seed;
    is_seeded = 1;
    RAND_set_rand_method(&method);
}
