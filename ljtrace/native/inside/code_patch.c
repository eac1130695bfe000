/* code_patch.c - puts a jump to another function at the beginning of one of the program's.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A jump needs five bytes. The instructions that contain these bytes are moved. An address relative to the instruction is
 * adjusted; a short jump becomes a long one. If another instruction of the moved ones is relative, or if one of them but
 * the first is the target of a jump, the function remains as it is.
 */
#include "ljtrace/native/inside/code_patch.h"
#include "ljtrace/protocol/kernel.h"
#include "ljtrace/native/inside/native.h"
#include <Zydis/Zydis.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { JUMP = 5, SLOT = 128, ENTRY = 48, LONGEST = 15 };
/* Of a function of unknown size, SOME_CODE is looked at for jumps; of any function, MOST_CODE. */
enum { SOME_CODE = 512, MOST_CODE = 16384 };
enum { FARTHEST = 0x70000000, STEP = 0x10000 };
enum { MAP_NOT_OVER_ANOTHER = 0x100000 /* MAP_FIXED_NOREPLACE */ };

uint64_t code_patch_interrupted;
static int s_lock;

/* The page with moved code that was used last. */
static uint8_t *s_page;
static uint32_t s_used;

/* Moved instructions. */
struct moved {
    uint32_t first; /* bytes of the first original instruction */
    uint8_t code[SLOT - ENTRY];
    uint32_t bytes;
    uint8_t *at; /* where they will be */
    const uint8_t *from;
    uint32_t taken; /* bytes of the original instructions */
    bool ends;      /* the last of them ends the function */
};

static bool is_near(const uint8_t *a, const uint8_t *b)
{
    const int64_t distance = a - b;
    return distance > -(int64_t)FARTHEST && distance < FARTHEST;
}

static uint8_t *map_at(uint8_t *hint)
{
    long at = kernel_call(SYS_mmap, (long)hint, KERNEL_PAGE, PROT_READ | PROT_EXEC,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NOT_OVER_ANOTHER, -1, 0);
    if (at < 0)
        return NULL;
    if ((uint8_t *)at == hint) {
        native_own(hint, KERNEL_PAGE);
        return hint;
    }
    kernel_call(SYS_munmap, at, KERNEL_PAGE, 0, 0, 0, 0);
    return NULL;
}

/* Map a page that a jump from the function can reach; NULL = there is no room. */
static uint8_t *map_near(uint8_t *function)
{
    uint8_t *middle = (uint8_t *)((uintptr_t)function & ~(uintptr_t)(STEP - 1)), *at;
    for (uintptr_t distance = STEP; distance < FARTHEST; distance += STEP) {
        if ((uintptr_t)middle > distance + STEP && (at = map_at(middle - distance)))
            return at;
        if ((at = map_at(middle + distance)))
            return at;
    }
    return NULL;
}

static uint8_t *new_slot(uint8_t *function)
{
    if (!s_page || s_used + SLOT > KERNEL_PAGE || !is_near(s_page, function)) {
        s_page = map_near(function);
        s_used = 0;
    }
    if (!s_page)
        return NULL;
    s_used += SLOT;
    return s_page + s_used - SLOT;
}

static bool protect(uint8_t *from, uint32_t bytes, int how)
{
    const uintptr_t first = (uintptr_t)from & ~(uintptr_t)(KERNEL_PAGE - 1),
                    last = (uintptr_t)from + bytes - 1;
    return kernel_call(SYS_mprotect, (long)first,
                       (long)((last & ~(uintptr_t)(KERNEL_PAGE - 1)) + KERNEL_PAGE - first), how, 0, 0,
                       0) == 0;
}

static void put(struct moved *m, const void *bytes, uint32_t n)
{
    memcpy(m->code + m->bytes, bytes, n);
    m->bytes += n;
}

/* Append a relative address of four bytes, the last of an instruction. */
static bool put_target(struct moved *m, const uint8_t *target)
{
    const int64_t distance = target - (m->at + m->bytes + 4);
    const int32_t relative = (int32_t)distance;
    put(m, &relative, 4);
    return distance == relative;
}

/* Is the target of a jump among the moved instructions? The first is where the function begins. */
static bool is_among(const struct moved *m, const uint8_t *target)
{
    return target > m->from && target < m->from + m->taken;
}

/* Move a jump or call to a relative address: with one byte, or with four. */
static bool move_branch(struct moved *m, const ZydisDecodedInstruction *i, const uint8_t *at)
{
    const uint8_t *target = at + i->length + i->raw.imm[0].value.s;
    if (is_among(m, target))
        return false;
    if (i->raw.imm[0].size == 32) {
        put(m, at, i->raw.imm[0].offset);
        return i->raw.imm[0].offset + 4 == i->length && put_target(m, target);
    }
    if (i->raw.imm[0].size != 8 || i->length != 2)
        return false;
    if ((at[0] & 0xf0) == 0x70)
        put(m, (uint8_t[]){0x0f, (uint8_t)(0x80 | (at[0] & 0x0f))}, 2);
    else if (at[0] == 0xeb)
        put(m, (uint8_t[]){0xe9}, 1);
    else
        return false;
    return put_target(m, target);
}

/* Move an instruction that has an address relative to its end. */
static bool move_address(struct moved *m, const ZydisDecodedInstruction *i, const uint8_t *at)
{
    uint8_t code[LONGEST];
    const int64_t distance = i->raw.disp.value + (at - (m->at + m->bytes));
    const int32_t relative = (int32_t)distance;
    if (i->raw.disp.size != 32)
        return false;
    memcpy(code, at, i->length);
    memcpy(code + i->raw.disp.offset, &relative, 4);
    put(m, code, i->length);
    return distance == relative;
}

static bool move_one(struct moved *m, const ZydisDecodedInstruction *i, const uint8_t *at)
{
    if (m->bytes + i->length + 8 > sizeof m->code - 14)
        return false;
    if (!(i->attributes & ZYDIS_ATTRIB_IS_RELATIVE)) {
        put(m, at, i->length);
        return true;
    }
    return i->raw.imm[0].is_relative ? move_branch(m, i, at) : move_address(m, i, at);
}

static bool ends_function(const ZydisDecodedInstruction *i)
{
    return i->meta.category == ZYDIS_CATEGORY_RET || i->meta.category == ZYDIS_CATEGORY_UNCOND_BR;
}

static bool decode(const ZydisDecoder *decoder, const uint8_t *at, ZydisDecodedInstruction *i)
{
    return ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(decoder, NULL, at, LONGEST, i));
}

/* Find out which instructions have to be moved. If one that ends the function is before the jump's end, the bytes after
 * it must be its padding. Functions are aligned to 16. */
static const char *choose(struct moved *m, const ZydisDecoder *decoder)
{
    ZydisDecodedInstruction i;
    while (m->taken < JUMP && !m->ends) {
        if (!decode(decoder, m->from + m->taken, &i))
            return "its first instructions are not known";
        m->first = m->first ? m->first : i.length;
        m->taken += i.length;
        m->ends = ends_function(&i);
    }
    return m->taken < JUMP && ((uintptr_t)m->from & 15) != 0 ? "it is too short" : NULL;
}

/* Does an instruction of the function after the moved ones jump to one of these? size: of the function; 0 = not known. */
static bool is_target(const struct moved *m, const ZydisDecoder *decoder, uint32_t size)
{
    ZydisDecodedInstruction i;
    const uint8_t *at = m->from + m->taken, *end = m->from + (size && size < MOST_CODE ? size
                                                              : size                   ? MOST_CODE
                                                                                       : SOME_CODE);
    for (; !(m->ends && !size) && at < end && decode(decoder, at, &i); at += i.length)
        if (i.raw.imm[0].is_relative && is_among(m, at + i.length + i.raw.imm[0].value.s))
            return true;
    return false;
}

static const char *move_all(struct moved *m, uint32_t size)
{
    ZydisDecoder decoder;
    ZydisDecodedInstruction i;
    if (ZYAN_FAILED(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)))
        return "the decoder of instructions does not work";
    const char *why = choose(m, &decoder);
    if (why)
        return why;
    for (const uint8_t *at = m->from; at < m->from + m->taken; at += i.length)
        if (!decode(&decoder, at, &i) || !move_one(m, &i, at))
            return "its first instructions cannot be moved";
    return is_target(m, &decoder, size) ? "it jumps back to its first instructions" : NULL;
}

/* Write a jump to any address. Returns its size. */
static uint32_t write_jump(uint8_t *to, const void *target)
{
    static const uint8_t code[] = {0xff, 0x25, 0, 0, 0, 0}; /* jmp *0(%rip) */
    memcpy(to, code, sizeof code);
    memcpy(to + sizeof code, &target, sizeof target);
    return sizeof code + sizeof target;
}

/* Write a load of a constant into %r8 or %r11, by its first two bytes. Returns its size. */
static uint32_t write_load(uint8_t *to, uint8_t prefix, uint8_t opcode, const volatile void *constant)
{
    to[0] = prefix;
    to[1] = opcode;
    memcpy(to + 2, &constant, sizeof constant);
    return 2 + sizeof constant;
}

/* Write a jump to ENTRY if nothing is recorded: mov $&native_alive, %r11; cmpq $0, (%r11); je. Returns its size. */
static uint32_t write_guard(uint8_t *slot)
{
    const uint32_t at = write_load(slot, 0x49, 0xbb, &native_alive);
    memcpy(slot + at, (uint8_t[]){0x49, 0x83, 0x3b, 0, 0x74, (uint8_t)(ENTRY - at - 6)}, 6);
    return at + 6;
}

/* In a slot: the guard, `mov p, %r8` (or %r11) and a jump to the wrapper; then, at ENTRY, the moved instructions and a
 * jump to those that follow them. */
static bool write_slot(uint8_t *slot, const struct moved *m, const struct code_patch *p, void *wrapper)
{
    if (!protect(slot, SLOT, PROT_READ | PROT_WRITE | PROT_EXEC))
        return false;
    const uint32_t guard = p->always ? 0 : write_guard(slot);
    const uint32_t load = write_load(slot + guard, 0x49, p->in_r11 ? 0xbb : 0xb8, p);
    write_jump(slot + guard + load, wrapper);
    memcpy(slot + ENTRY, m->code, m->bytes);
    write_jump(slot + ENTRY + m->bytes, m->from + m->taken);
    return protect(slot, SLOT, PROT_READ | PROT_EXEC);
}

/* Functions are aligned, so other threads see the jump as a whole. */
static bool write_entry(uint8_t *function, const uint8_t *slot)
{
    uint64_t word;
    const int32_t relative = (int32_t)(slot - (function + JUMP));
    memcpy(&word, function, sizeof word);
    memcpy(&word, (uint8_t[]){0xe9}, 1);
    memcpy((uint8_t *)&word + 1, &relative, 4);
    if (!protect(function, sizeof word, PROT_READ | PROT_WRITE | PROT_EXEC))
        return false;
    __atomic_store_n((uint64_t *)function, word, __ATOMIC_SEQ_CST);
    return protect(function, sizeof word, PROT_READ | PROT_EXEC);
}

static const char *patch(struct code_patch *p, void *wrapper)
{
    uint8_t *function = p->function, *slot = new_slot(function);
    if (!slot)
        return "there is no free memory near it";
    struct moved m = {.at = slot + ENTRY, .from = function};
    const char *why = move_all(&m, p->size);
    if (why)
        return why;
    if (code_patch_interrupted > (uint64_t)function && code_patch_interrupted < (uint64_t)function + m.taken)
        return "a thread is just executing its first instructions";
    if (p->is_shared && (m.first < JUMP || ((uintptr_t)function & 7)))
        return "another thread may be executing its first instructions";
    p->original = slot + ENTRY;
    if (!write_slot(slot, &m, p, wrapper) || !write_entry(function, slot))
        return "its memory cannot be changed";
    return NULL;
}

const char *code_patch(struct code_patch *p, void *wrapper)
{
    while (__atomic_exchange_n(&s_lock, 1, __ATOMIC_ACQUIRE))
        ;
    const char *why = patch(p, wrapper);
    __atomic_store_n(&s_lock, 0, __ATOMIC_RELEASE);
    return why;
}
