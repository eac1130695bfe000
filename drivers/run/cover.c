/* cover.c - keeps which addresses are covered by live blocks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/run/cover.h"
#include "drivers/heap/raw_syscalls.h"

#include <stddef.h>

enum { PIECE_SHIFT = 30, ADDRESS_BITS = 47, WORD = 64, UNIT = 8 };
static const uint64_t PIECES = (uint64_t)1 << (ADDRESS_BITS - PIECE_SHIFT);
static const uint64_t PIECE_WORDS = ((uint64_t)1 << PIECE_SHIFT) / UNIT / WORD;

bool cover_open(struct cover *c)
{
    c->pieces = raw_map(PIECES * sizeof *c->pieces);
    return c->pieces;
}

/* The word that contains a bit, allocated if necessary; NULL when out of memory, or if no program has such an
 * address. */
static uint64_t *word_of(struct cover *c, uint64_t bit)
{
    uint64_t word = bit / WORD, piece = word / PIECE_WORDS;
    if (piece >= PIECES)
        return NULL;
    if (!c->pieces[piece])
        c->pieces[piece] = raw_map(PIECE_WORDS * sizeof(uint64_t));
    return c->pieces[piece] ? c->pieces[piece] + word % PIECE_WORDS : NULL;
}

/* A mask of those bits of from..to that are in the word of `from`. */
static uint64_t mask_of(uint64_t from, uint64_t to)
{
    uint64_t last = from | (WORD - 1);
    uint64_t n = (to < last ? to : last) - from + 1;
    return (n == WORD ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1) << from % WORD;
}

static uint64_t first_bit(const void *address)
{
    return (uint64_t)(uintptr_t)address / UNIT;
}

static uint64_t last_bit(const void *address, uint64_t bytes)
{
    return ((uint64_t)(uintptr_t)address + bytes - (bytes != 0)) / UNIT;
}

enum cover_answer cover_take(struct cover *c, const void *address, uint64_t bytes)
{
    enum cover_answer answer = COVER_FREE;
    uint64_t last = last_bit(address, bytes);
    for (uint64_t bit = first_bit(address); bit <= last; bit = (bit | (WORD - 1)) + 1) {
        uint64_t mask = mask_of(bit, last), *word = word_of(c, bit);
        if (!word)
            return COVER_NO_MEMORY;
        if (*word & mask)
            answer = COVER_TAKEN;
        *word |= mask;
    }
    return answer;
}

void cover_drop(struct cover *c, const void *address, uint64_t bytes)
{
    uint64_t last = last_bit(address, bytes), *word;
    for (uint64_t bit = first_bit(address); bit <= last; bit = (bit | (WORD - 1)) + 1)
        if ((word = word_of(c, bit)))
            *word &= ~mask_of(bit, last);
}
