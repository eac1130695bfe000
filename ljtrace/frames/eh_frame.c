/* eh_frame.c - read .eh_frame.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * .eh_frame is a list of entries. A CIE has what many functions have in common, an FDE describes one function and
 * points to its CIE. .eh_frame_hdr has a sorted table of the FDEs. Both kinds contain instructions, which change the
 * rules as the code address advances.
 *
 * Start reading at eh_frame_rules.
 */
#include "ljtrace/frames/eh_frame.h"
#include <elf.h>
#include <stddef.h>
#include <string.h>

/* -- where the tables are -- */

enum { PAGE = 4096 };

/* The program headers, *count of them. NULL: the first page does not have them. */
static const Elf64_Phdr *segments_of(const uint8_t *begin, unsigned *count)
{
    const Elf64_Ehdr *elf = (const void *)begin;
    const uint8_t *ident = elf->e_ident;
    if (ident[EI_MAG0] != ELFMAG0 || ident[EI_MAG1] != ELFMAG1 || ident[EI_MAG2] != ELFMAG2 ||
        ident[EI_MAG3] != ELFMAG3 || elf->e_phentsize != sizeof(Elf64_Phdr) || elf->e_phoff > PAGE ||
        elf->e_phoff + (size_t)elf->e_phnum * sizeof(Elf64_Phdr) > PAGE)
        return NULL;
    *count = elf->e_phnum;
    return (const void *)(begin + elf->e_phoff);
}

bool eh_image_bias(const uint8_t *begin, uint64_t *bias)
{
    unsigned count = 0;
    const Elf64_Phdr *segment = segments_of(begin, &count);
    for (unsigned i = 0; i < count; i++)
        if (segment[i].p_type == PT_LOAD && segment[i].p_offset == 0) {
            *bias = (uint64_t)(uintptr_t)begin - segment[i].p_vaddr;
            return true;
        }
    return false;
}

const uint8_t *eh_header_of(const struct eh_image *image)
{
    unsigned count = 0;
    const Elf64_Phdr *segment = segments_of(image->begin, &count);
    for (unsigned i = 0; i < count; i++)
        if (segment[i].p_type == PT_GNU_EH_FRAME)
            return (const uint8_t *)(uintptr_t)(image->bias + segment[i].p_vaddr);
    return NULL;
}

/* The loaded and readable segment that contains an address: from *begin to *end. */
static bool find_segment(const struct eh_image *image, const uint8_t *at, const uint8_t **begin,
                         const uint8_t **end)
{
    unsigned count = 0;
    const Elf64_Phdr *segment = segments_of(image->begin, &count);
    for (unsigned i = 0; i < count; i++, segment++) {
        *begin = (const uint8_t *)(uintptr_t)(image->bias + segment->p_vaddr);
        *end = *begin + segment->p_filesz;
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_R) && at >= *begin && at < *end)
            return *begin >= image->begin && *end <= image->end;
    }
    return false;
}

bool eh_sections_at(const struct eh_image *image, const uint8_t *header, struct eh_sections *s)
{
    const uint8_t *begin;
    s->header = header;
    if (!find_segment(image, header, &begin, &s->header_end))
        return false;
    const uint8_t *frames = eh_frames_of(header, s->header_end);
    if (!frames || !find_segment(image, frames, &s->frames_begin, &s->frames_end))
        return false;
    if (s->frames_end - s->frames_begin > INT32_MAX)
        s->frames_end = s->frames_begin + INT32_MAX;
    return true;
}

/* -- rules -- */

/* DW_EH_PE_: how a pointer is written. The low four bits are its size, the next three what it is relative to. */
enum {
    PE_POINTER = 0x00,
    PE_ULEB = 0x01,
    PE_U2 = 0x02,
    PE_U4 = 0x03,
    PE_U8 = 0x04,
    PE_SLEB = 0x09,
    PE_S2 = 0x0a,
    PE_S4 = 0x0b,
    PE_S8 = 0x0c,
    PE_SIZE = 0x0f,
    PE_RELATIVE_TO_ITSELF = 0x10,
    PE_RELATIVE_TO_HEADER = 0x30,
    PE_RELATIVE = 0x70,
    PE_OMIT = 0xff
};

/* DW_CFA_: the instructions. Those with an operand in their low six bits come first. */
enum {
    CFA_ADVANCE = 0x40,
    CFA_OFFSET = 0x80,
    CFA_RESTORE = 0xc0,
    CFA_NOP = 0x00,
    CFA_SET_LOC = 0x01,
    CFA_ADVANCE_1 = 0x02,
    CFA_ADVANCE_2 = 0x03,
    CFA_ADVANCE_4 = 0x04,
    CFA_OFFSET_EXTENDED = 0x05,
    CFA_RESTORE_EXTENDED = 0x06,
    CFA_UNDEFINED = 0x07,
    CFA_SAME_VALUE = 0x08,
    CFA_REGISTER = 0x09,
    CFA_REMEMBER_STATE = 0x0a,
    CFA_RESTORE_STATE = 0x0b,
    CFA_DEF_CFA = 0x0c,
    CFA_DEF_CFA_REGISTER = 0x0d,
    CFA_DEF_CFA_OFFSET = 0x0e,
    CFA_DEF_CFA_EXPRESSION = 0x0f,
    CFA_EXPRESSION = 0x10,
    CFA_OFFSET_EXTENDED_SIGNED = 0x11,
    CFA_DEF_CFA_SIGNED = 0x12,
    CFA_DEF_CFA_OFFSET_SIGNED = 0x13,
    CFA_VAL_OFFSET = 0x14,
    CFA_VAL_OFFSET_SIGNED = 0x15,
    CFA_VAL_EXPRESSION = 0x16,
    CFA_GNU_ARGS_SIZE = 0x2e,
    CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f
};

enum { MOST_REMEMBERED = 8 }; /* compilers nest remembered rules once or twice */

/* What an FDE and its CIE say. */
struct function {
    uint64_t begin, end; /* its code */
    uint64_t code_unit;
    int64_t data_unit;
    uint8_t pointers; /* how code addresses are written */
    uint8_t return_address;
    bool is_signal_frame;
    struct eh_bytes common, own; /* the instructions of the CIE and of the FDE */
};

/* Rules while instructions are executed. */
struct execution {
    const struct function *function;
    const uint8_t *frames_begin;
    uint64_t at; /* the code address from which on the rules hold */
    struct eh_rules *rules;
    struct eh_rules initial; /* those of the CIE, which "restore" brings back */
    struct eh_rules remembered[MOST_REMEMBERED];
    unsigned depth;
};

uint64_t eh_read(struct eh_bytes *bytes, unsigned size)
{
    uint64_t value = 0;
    if (bytes->bad || (size_t)(bytes->end - bytes->at) < size) {
        bytes->bad = true;
        return 0;
    }
    memcpy(&value, bytes->at, size);
    bytes->at += size;
    return value;
}

int64_t eh_read_signed(struct eh_bytes *bytes, unsigned size)
{
    const unsigned unused = 64 - size * 8;
    return (int64_t)(eh_read(bytes, size) << unused) >> unused;
}

uint64_t eh_read_uleb(struct eh_bytes *bytes)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        const uint64_t byte = eh_read(bytes, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

int64_t eh_read_sleb(struct eh_bytes *bytes)
{
    uint64_t value = 0;
    for (unsigned shift = 0;;) {
        const uint64_t byte = eh_read(bytes, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        shift += 7;
        if (!(byte & 0x80)) {
            if (shift < 64 && (byte & 0x40))
                value |= ~0ULL << shift;
            return (int64_t)value;
        }
    }
}

struct eh_bytes eh_read_block(struct eh_bytes *bytes)
{
    const uint64_t size = eh_read_uleb(bytes);
    struct eh_bytes block = {bytes->at, bytes->at, bytes->bad};
    if (bytes->bad || size > (uint64_t)(bytes->end - bytes->at)) {
        bytes->bad = block.bad = true;
        return block;
    }
    bytes->at += size;
    block.end = bytes->at;
    return block;
}

/* A pointer that is written as `encoding` says. */
static uint64_t read_pointer(struct eh_bytes *bytes, uint8_t encoding, const uint8_t *header)
{
    const uint64_t self = (uint64_t)(uintptr_t)bytes->at;
    uint64_t value;
    switch (encoding & PE_SIZE) {
    case PE_POINTER:
    case PE_U8:
    case PE_S8:
        value = eh_read(bytes, 8);
        break;
    case PE_ULEB:
        value = eh_read_uleb(bytes);
        break;
    case PE_SLEB:
        value = (uint64_t)eh_read_sleb(bytes);
        break;
    case PE_U2:
        value = eh_read(bytes, 2);
        break;
    case PE_S2:
        value = (uint64_t)eh_read_signed(bytes, 2);
        break;
    case PE_U4:
        value = eh_read(bytes, 4);
        break;
    case PE_S4:
        value = (uint64_t)eh_read_signed(bytes, 4);
        break;
    default:
        bytes->bad = true;
        return 0;
    }
    switch (encoding & PE_RELATIVE) {
    case 0:
        return value;
    case PE_RELATIVE_TO_ITSELF:
        return self + value;
    case PE_RELATIVE_TO_HEADER:
        return (uint64_t)(uintptr_t)header + value;
    default:
        bytes->bad = true;
        return 0;
    }
}

/* The contents of the entry at `at`, after its length. Empty: the list ends here. */
static struct eh_bytes entry_at(const struct eh_sections *s, const uint8_t *at)
{
    struct eh_bytes bytes = {at, s->frames_end, at < s->frames_begin || at >= s->frames_end};
    uint64_t size = eh_read(&bytes, 4);
    if (size == 0xffffffff)
        size = eh_read(&bytes, 8);
    if (bytes.bad || size > (uint64_t)(bytes.end - bytes.at))
        return (struct eh_bytes){at, at, true};
    bytes.end = bytes.at + size;
    return bytes;
}

/* Read a CIE. Its augmentation is a string of letters, each of which adds a field. */
static bool read_common(const struct eh_sections *s, const uint8_t *at, struct function *f)
{
    struct eh_bytes bytes = entry_at(s, at), fields = {NULL, NULL, false};
    const uint64_t id = eh_read(&bytes, 4);
    const uint64_t version = eh_read(&bytes, 1);
    const uint8_t *letter = bytes.at;
    while (eh_read(&bytes, 1))
        ;
    if (bytes.bad || id != 0 || (version != 1 && version != 3))
        return false;
    f->code_unit = eh_read_uleb(&bytes);
    f->data_unit = eh_read_sleb(&bytes);
    const uint64_t return_address = version == 1 ? eh_read(&bytes, 1) : eh_read_uleb(&bytes);
    if (return_address >= EH_REGISTERS)
        return false;
    f->return_address = (uint8_t)return_address;
    f->pointers = PE_POINTER;
    f->is_signal_frame = false;
    if (*letter && *letter != 'z')
        return false;
    if (*letter == 'z') {
        fields = eh_read_block(&bytes);
        for (letter++; *letter; letter++) {
            if (*letter == 'R')
                f->pointers = (uint8_t)eh_read(&fields, 1);
            else if (*letter == 'P') {
                const uint8_t encoding = (uint8_t)eh_read(&fields, 1);
                read_pointer(&fields, encoding, s->header);
            } else if (*letter == 'L')
                eh_read(&fields, 1);
            else if (*letter == 'S')
                f->is_signal_frame = true;
            else
                break; /* what follows an unknown letter is skipped by its length */
        }
    }
    f->common = bytes;
    return !bytes.bad && !fields.bad;
}

/* Read the FDE at `at`. False: it is none, or damaged. */
static bool read_function(const struct eh_sections *s, const uint8_t *at, struct function *f)
{
    struct eh_bytes bytes = entry_at(s, at);
    const uint8_t *self = bytes.at;
    const uint64_t distance = eh_read(&bytes, 4);
    if (bytes.bad || distance == 0 || distance > (uint64_t)(self - s->frames_begin) ||
        !read_common(s, self - distance, f))
        return false;
    f->begin = read_pointer(&bytes, f->pointers, s->header);
    f->end = f->begin + read_pointer(&bytes, f->pointers & PE_SIZE, s->header);
    /* every CIE of interest has a 'z': its FDEs have a block for the language */
    const struct eh_bytes common = entry_at(s, self - distance);
    if (common.at[5] == 'z')
        eh_read_block(&bytes);
    f->own = bytes;
    return !bytes.bad;
}

const uint8_t *eh_frames_of(const uint8_t *header, const uint8_t *header_end)
{
    struct eh_bytes bytes = {header, header_end, false};
    const uint64_t version = eh_read(&bytes, 1);
    const uint8_t encoding = (uint8_t)eh_read(&bytes, 1);
    eh_read(&bytes, 2);
    const uint64_t frames = version == 1 && encoding != PE_OMIT ? read_pointer(&bytes, encoding, header) : 0;
    return bytes.bad ? NULL : (const uint8_t *)(uintptr_t)frames;
}

/* The table of .eh_frame_hdr: pairs of the begin of a function and its FDE, relative to the header. False: it has no
 * table of that form. */
static bool find_table(const struct eh_sections *s, const uint8_t **table, uint64_t *count)
{
    struct eh_bytes bytes = {s->header, s->header_end, false};
    eh_read(&bytes, 1);
    const uint8_t frames = (uint8_t)eh_read(&bytes, 1);
    const uint8_t counts = (uint8_t)eh_read(&bytes, 1);
    const uint8_t pairs = (uint8_t)eh_read(&bytes, 1);
    if (frames == PE_OMIT || counts == PE_OMIT || pairs != (PE_RELATIVE_TO_HEADER | PE_S4))
        return false;
    read_pointer(&bytes, frames, s->header);
    *count = read_pointer(&bytes, counts, s->header);
    *table = bytes.at;
    return !bytes.bad && *count <= (uint64_t)(bytes.end - bytes.at) / 8;
}

static int32_t word_at(const uint8_t *at)
{
    int32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* Find the function by the sorted table. */
static bool search_table(const struct eh_sections *s, const uint8_t *table, uint64_t count, uint64_t ip,
                         struct function *f)
{
    const int64_t wanted = (int64_t)(ip - (uint64_t)(uintptr_t)s->header);
    uint64_t first = 0;
    while (count > 1) {
        const uint64_t half = count / 2;
        first = word_at(table + (first + half) * 8) <= wanted ? first + half : first;
        count -= half;
    }
    return count && read_function(s, s->header + word_at(table + first * 8 + 4), f) && ip >= f->begin &&
           ip < f->end;
}

/* Find the function by reading the whole list, where the table is missing. */
static bool search_list(const struct eh_sections *s, uint64_t ip, struct function *f)
{
    const uint8_t *at = eh_frames_of(s->header, s->header_end);
    while (at) {
        const struct eh_bytes entry = entry_at(s, at);
        if (entry.bad || entry.at == entry.end)
            break;
        if (read_function(s, at, f) && ip >= f->begin && ip < f->end)
            return true;
        at = entry.end;
    }
    return false;
}

static bool find_function(const struct eh_sections *s, uint64_t ip, struct function *f)
{
    const uint8_t *table;
    uint64_t count;
    if (find_table(s, &table, &count))
        return search_table(s, table, count, ip, f);
    return search_list(s, ip, f);
}

bool eh_frame_function(const struct eh_sections *s, uint64_t ip, uint64_t *begin, uint64_t *end)
{
    struct function f;
    if (!find_function(s, ip, &f))
        return false;
    *begin = f.begin;
    *end = f.end;
    return true;
}

/* An offset in the units of the CIE. */
static int64_t scaled(uint64_t offset, const struct execution *e)
{
    return (int64_t)(offset * (uint64_t)e->function->data_unit);
}

static void set_rule(struct execution *e, uint64_t reg, enum eh_how how, int64_t offset,
                     struct eh_bytes *bytes)
{
    if (offset != (int32_t)offset)
        bytes->bad = true;
    else if (reg < EH_REGISTERS)
        e->rules->registers[reg] = (struct eh_rule){.how = (uint8_t)how, .offset = (int32_t)offset};
}

/* A register whose rule is an expression, which follows. */
static void set_expression(struct execution *e, uint64_t reg, enum eh_how how, struct eh_bytes *bytes)
{
    const int64_t where = bytes->at - e->frames_begin;
    eh_read_block(bytes);
    set_rule(e, reg, how, where, bytes);
}

static void set_cfa(struct execution *e, uint64_t reg, int64_t offset, struct eh_bytes *bytes)
{
    if (reg >= EH_REGISTERS || offset != (int32_t)offset)
        bytes->bad = true;
    else
        e->rules->cfa = (struct eh_rule){EH_IN_REGISTER, (uint8_t)reg, (int32_t)offset};
}

static void restore_rule(struct execution *e, uint64_t reg)
{
    if (reg < EH_REGISTERS)
        e->rules->registers[reg] = e->initial.registers[reg];
}

static void remember(struct execution *e, struct eh_bytes *bytes)
{
    if (e->depth == MOST_REMEMBERED)
        bytes->bad = true;
    else
        e->remembered[e->depth++] = *e->rules;
}

static void bring_back(struct execution *e, struct eh_bytes *bytes)
{
    if (e->depth == 0)
        bytes->bad = true;
    else
        *e->rules = e->remembered[--e->depth];
}

/* Execute an instruction that changes rules. */
static void change_rules(struct execution *e, uint8_t op, struct eh_bytes *bytes)
{
    const bool has_register = op != CFA_REMEMBER_STATE && op != CFA_RESTORE_STATE &&
                              op != CFA_DEF_CFA_OFFSET && op != CFA_DEF_CFA_OFFSET_SIGNED &&
                              op != CFA_DEF_CFA_EXPRESSION && op != CFA_GNU_ARGS_SIZE;
    const uint64_t reg = has_register ? eh_read_uleb(bytes) : 0;
    switch (op) {
    case CFA_OFFSET_EXTENDED:
        set_rule(e, reg, EH_SAVED, scaled(eh_read_uleb(bytes), e), bytes);
        break;
    case CFA_OFFSET_EXTENDED_SIGNED:
        set_rule(e, reg, EH_SAVED, scaled((uint64_t)eh_read_sleb(bytes), e), bytes);
        break;
    case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
        set_rule(e, reg, EH_SAVED, scaled(-eh_read_uleb(bytes), e), bytes);
        break;
    case CFA_VAL_OFFSET:
        set_rule(e, reg, EH_VALUE, scaled(eh_read_uleb(bytes), e), bytes);
        break;
    case CFA_VAL_OFFSET_SIGNED:
        set_rule(e, reg, EH_VALUE, scaled((uint64_t)eh_read_sleb(bytes), e), bytes);
        break;
    case CFA_RESTORE_EXTENDED:
        restore_rule(e, reg);
        break;
    case CFA_UNDEFINED:
        set_rule(e, reg, EH_UNDEFINED, 0, bytes);
        break;
    case CFA_SAME_VALUE:
        set_rule(e, reg, EH_SAME, 0, bytes);
        break;
    case CFA_REGISTER: {
        const uint64_t other = eh_read_uleb(bytes);
        set_rule(e, reg, EH_IN_REGISTER, 0, bytes);
        if (reg < EH_REGISTERS)
            e->rules->registers[reg].reg = other < EH_REGISTERS ? (uint8_t)other : EH_REGISTERS;
        break;
    }
    case CFA_EXPRESSION:
        set_expression(e, reg, EH_SAVED_AT, bytes);
        break;
    case CFA_VAL_EXPRESSION:
        set_expression(e, reg, EH_COMPUTED, bytes);
        break;
    case CFA_REMEMBER_STATE:
        remember(e, bytes);
        break;
    case CFA_RESTORE_STATE:
        bring_back(e, bytes);
        break;
    case CFA_DEF_CFA:
        set_cfa(e, reg, (int64_t)eh_read_uleb(bytes), bytes);
        break;
    case CFA_DEF_CFA_SIGNED:
        set_cfa(e, reg, scaled((uint64_t)eh_read_sleb(bytes), e), bytes);
        break;
    case CFA_DEF_CFA_REGISTER:
        set_cfa(e, reg, e->rules->cfa.offset, bytes);
        break;
    case CFA_DEF_CFA_OFFSET:
        set_cfa(e, e->rules->cfa.reg, (int64_t)eh_read_uleb(bytes), bytes);
        break;
    case CFA_DEF_CFA_OFFSET_SIGNED:
        set_cfa(e, e->rules->cfa.reg, scaled((uint64_t)eh_read_sleb(bytes), e), bytes);
        break;
    case CFA_DEF_CFA_EXPRESSION:
        e->rules->cfa = (struct eh_rule){EH_COMPUTED, 0, (int32_t)(bytes->at - e->frames_begin)};
        eh_read_block(bytes);
        break;
    case CFA_GNU_ARGS_SIZE:
        eh_read_uleb(bytes);
        break;
    default:
        bytes->bad = true;
    }
}

/* Execute instructions as long as they hold at or before `ip`. False: they are damaged. */
static bool execute(struct execution *e, struct eh_bytes bytes, uint64_t ip, const uint8_t *header)
{
    const struct function *f = e->function;
    while (bytes.at < bytes.end) {
        const uint8_t op = (uint8_t)eh_read(&bytes, 1);
        const uint8_t operand = op & 0x3f;
        uint64_t next = e->at;
        if ((op & 0xc0) == CFA_ADVANCE)
            next += operand * f->code_unit;
        else if ((op & 0xc0) == CFA_OFFSET)
            set_rule(e, operand, EH_SAVED, scaled(eh_read_uleb(&bytes), e), &bytes);
        else if ((op & 0xc0) == CFA_RESTORE)
            restore_rule(e, operand);
        else if (op == CFA_ADVANCE_1)
            next += eh_read(&bytes, 1) * f->code_unit;
        else if (op == CFA_ADVANCE_2)
            next += eh_read(&bytes, 2) * f->code_unit;
        else if (op == CFA_ADVANCE_4)
            next += eh_read(&bytes, 4) * f->code_unit;
        else if (op == CFA_SET_LOC)
            next = read_pointer(&bytes, f->pointers, header);
        else if (op != CFA_NOP)
            change_rules(e, op, &bytes);
        if (bytes.bad)
            return false;
        if (next > ip)
            return true;
        e->at = next;
    }
    return true;
}

bool eh_frame_rules(const struct eh_sections *s, uint64_t ip, struct eh_rules *rules)
{
    struct function f;
    struct execution e;
    if (!find_function(s, ip, &f))
        return false;
    memset(rules, 0, sizeof *rules);
    rules->registers[EH_RSP].how = EH_VALUE; /* the caller's stack pointer is the CFA by definition */
    rules->return_address = f.return_address;
    rules->is_signal_frame = f.is_signal_frame;
    rules->cfa = (struct eh_rule){EH_IN_REGISTER, EH_REGISTERS, 0};
    e.function = &f;
    e.frames_begin = s->frames_begin;
    e.rules = rules;
    e.depth = 0;
    e.at = f.begin;
    if (!execute(&e, f.common, UINT64_MAX, s->header))
        return false;
    e.initial = *rules;
    e.at = f.begin;
    return execute(&e, f.own, ip, s->header) &&
           (rules->cfa.how != EH_IN_REGISTER || rules->cfa.reg < EH_REGISTERS);
}
