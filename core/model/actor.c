/* Actors: texts that applications give, as bytes of owners. SipHash-2-4 (Aumasson, Bernstein,
 * "SipHash: a fast short-input PRF", 2012) with a key that is no secret: all programs need the same
 * bytes. So who wants to finds two texts with the same bytes, but hardly one for the bytes of
 * another's text. */
#include "core/model/actor.h"

#include <stdint.h>
#include <string.h>

struct sip {
    uint64_t v[4];
};

static uint64_t sip_rotated(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void sip_rounds(struct sip *s, int n)
{
    uint64_t *v = s->v;

    for (; n > 0; n--) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = sip_rotated(v[1], 13) ^ v[0];
        v[3] = sip_rotated(v[3], 16) ^ v[2];
        v[0] = sip_rotated(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = sip_rotated(v[1], 17) ^ v[2];
        v[3] = sip_rotated(v[3], 21) ^ v[0];
        v[2] = sip_rotated(v[2], 32);
    }
}

static void sip_word(struct sip *s, uint64_t word)
{
    s->v[3] ^= word;
    sip_rounds(s, 2);
    s->v[0] ^= word;
}

/* The key is that of the paper's test: the bytes 00 to 0f. */
static uint64_t sip_hash(const char *text, size_t len)
{
    const uint64_t k0 = UINT64_C(0x0706050403020100), k1 = UINT64_C(0x0f0e0d0c0b0a0908);
    struct sip s = {{UINT64_C(0x736f6d6570736575) ^ k0, UINT64_C(0x646f72616e646f6d) ^ k1,
                     UINT64_C(0x6c7967656e657261) ^ k0, UINT64_C(0x7465646279746573) ^ k1}};
    uint64_t word = 0;

    for (size_t i = 0; i < len; i++) {
        word |= (uint64_t)(unsigned char)text[i] << 8 * (i % 8);
        if (i % 8 == 7) {
            sip_word(&s, word);
            word = 0;
        }
    }
    sip_word(&s, word | (uint64_t)len << 56);
    s.v[2] ^= 0xff;
    sip_rounds(&s, 4);
    return s.v[0] ^ s.v[1] ^ s.v[2] ^ s.v[3];
}

/* Bytes of the hash, from number `from` on. */
static void sip_bytes(const void *text, size_t len, int from, int n, unsigned char *out)
{
    uint64_t hash = sip_hash(text, len);

    for (int i = 0; i < n; i++)
        out[i] = (unsigned char)(hash >> 8 * (from + i));
}

enum { MARKED = SQLOCK_OWNER_SIZE - ACTOR_MARK, DRAWN = MARKED - ACTOR_SIZE };

void actor_mark(unsigned char owner[SQLOCK_OWNER_SIZE])
{
    sip_bytes(owner, MARKED, 0, ACTOR_MARK, owner + MARKED);
}

void actor_own(const char *text, size_t len, unsigned char owner[SQLOCK_OWNER_SIZE])
{
    sip_bytes(text, len, 0, ACTOR_SIZE, owner);
    actor_mark(owner);
}

int actor_has(const unsigned char owner[SQLOCK_OWNER_SIZE])
{
    unsigned char mark[ACTOR_MARK];

    sip_bytes(owner, MARKED, 0, ACTOR_MARK, mark);
    return memcmp(mark, owner + MARKED, ACTOR_MARK) == 0;
}

int actor_same(const unsigned char *a, const unsigned char *b)
{
    return memcmp(a, b, ACTOR_SIZE) == 0 && actor_has(a) && actor_has(b);
}

/* Each try has an owner of its own, as all acquires have: a request of one that was refused may
 * come late, and must not end what the next one is granted. */
enum { FRESH = DRAWN / 2 };

void actor_succeed(unsigned char next[SQLOCK_OWNER_SIZE], const unsigned char *former)
{
    unsigned char from[MARKED + FRESH];

    memcpy(from, former, MARKED);
    memcpy(from + MARKED, next + ACTOR_SIZE, FRESH);
    memcpy(next, former, ACTOR_SIZE);
    sip_bytes(from, sizeof from, ACTOR_MARK, DRAWN - FRESH, next + ACTOR_SIZE + FRESH);
    actor_mark(next);
}

int actor_succeeds(const unsigned char *next, const unsigned char *former)
{
    unsigned char owner[SQLOCK_OWNER_SIZE];

    memcpy(owner, next, sizeof owner);
    actor_succeed(owner, former);
    return actor_has(former) && memcmp(owner, next, sizeof owner) == 0;
}
