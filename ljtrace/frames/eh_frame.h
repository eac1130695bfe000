/* eh_frame.h - the rules in .eh_frame by which the caller of a frame is found.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Compilers describe for each instruction where the registers of the caller are: DWARF 5, section 6.4 (call frame
 * information), in the form of the Linux Standard Base, section 10.6 (.eh_frame, .eh_frame_hdr), and of the x86-64
 * psABI, section 3.6.2 (numbers of registers). eh_frame_rules executes these instructions up to one code address. All
 * reads are checked against the bounds of the sections, so damaged sections give wrong rules or none, never a fault.
 *
 * It does not use the rules: see native/unwind/unwind.h and valgrind/stacks/unwind.c.
 */
#ifndef LJTRACE_FRAMES_EH_FRAME_H
#define LJTRACE_FRAMES_EH_FRAME_H

#include <stdbool.h>
#include <stdint.h>

/* DWARF's numbers of registers on x86-64. Other registers are ignored. */
enum { EH_RBX = 3, EH_RBP = 6, EH_RSP = 7, EH_R12 = 12, EH_RIP = 16, EH_REGISTERS = 17 };

/* The sections of one object, and where the readable memory around each of them ends. */
struct eh_sections {
    const uint8_t *header, *header_end;       /* .eh_frame_hdr */
    const uint8_t *frames_begin, *frames_end; /* the segment that contains .eh_frame */
};

/* Bytes to read, from `at` to `end`. After an attempt to read more, `bad` is set and all values read are 0. */
struct eh_bytes {
    const uint8_t *at, *end;
    bool bad;
};

/* How a value of the caller is found. */
enum eh_how {
    EH_SAME,        /* the register is unchanged */
    EH_UNDEFINED,   /* it cannot be found; of the return address: the stack ends */
    EH_SAVED,       /* at the address CFA + offset */
    EH_VALUE,       /* it is CFA + offset */
    EH_IN_REGISTER, /* in the register with that number, plus offset */
    EH_SAVED_AT,    /* at the address that an expression computes */
    EH_COMPUTED     /* an expression computes it */
};

struct eh_rule {
    uint8_t how;    /* enum eh_how */
    uint8_t reg;    /* EH_IN_REGISTER */
    int32_t offset; /* EH_SAVED, EH_VALUE, EH_IN_REGISTER; of an expression: its distance from frames_begin */
};

/* All rules that hold at one code address. */
struct eh_rules {
    struct eh_rule cfa; /* the canonical frame address: EH_IN_REGISTER or EH_COMPUTED */
    struct eh_rule registers[EH_REGISTERS];
    uint8_t return_address; /* the register whose rule gives the return address */
    bool is_signal_frame;   /* the kernel called this frame: the caller's address is not a return address */
};

/* The rules at a code address. False: the sections have none. */
bool eh_frame_rules(const struct eh_sections *sections, uint64_t ip, struct eh_rules *rules);

/* Where the code that contains an address begins and ends: a function, or a part that the compiler has moved away from it.
 * False: the sections have none. */
bool eh_frame_function(const struct eh_sections *sections, uint64_t ip, uint64_t *begin, uint64_t *end);

/* Values of 1 to 8 bytes (as unsigned), and numbers of variable length. */
uint64_t eh_read(struct eh_bytes *bytes, unsigned size);
int64_t eh_read_signed(struct eh_bytes *bytes, unsigned size);
uint64_t eh_read_uleb(struct eh_bytes *bytes);
int64_t eh_read_sleb(struct eh_bytes *bytes);
/* The block of bytes after its length, which is skipped. */
struct eh_bytes eh_read_block(struct eh_bytes *bytes);

/* Where .eh_frame begins, as .eh_frame_hdr says. NULL: this header cannot be read. */
const uint8_t *eh_frames_of(const uint8_t *header, const uint8_t *header_end);

/* -- where the tables are -- */

/* An object in memory. Its first page is readable, and so is what it says to be loaded and readable. */
struct eh_image {
    const uint8_t *begin, *end;
    uint64_t bias; /* address in memory less address in the file */
};

/* Find the bias of the object that begins at `begin`. False: it is no object, or its first page does not say that it is
 * loaded. */
bool eh_image_bias(const uint8_t *begin, uint64_t *bias);
/* Where its .eh_frame_hdr is. NULL: it has none, or its first page does not say where. */
const uint8_t *eh_header_of(const struct eh_image *image);
/* Find the sections, if the object's .eh_frame_hdr is at `header`. False: they are not readable. */
bool eh_sections_at(const struct eh_image *image, const uint8_t *header, struct eh_sections *sections);

#endif
