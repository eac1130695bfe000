/* assembler.c - note where the assembler puts the code of each intermediate instruction.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The assembler's state is on the C stack. In all of LuaJIT 2.1 its fields from the pointer into the machine
 * code to the number of the current instruction have the same order; builds with assertions have one pointer
 * more. It is recognised by its pointer to the compiler's structure. What was observed is used only if it
 * agrees with the finished trace: the ends of the pieces have to descend, and to be within the trace. The
 * assembler may start again, to align a loop or to make room for more instructions; then the numbers start at
 * the top again.
 */
#include "ljtrace/luajit/jit/assembler.h"
#include "ljtrace/luajit/host.h"

enum { MAX_TRACES = 65536, FIRST_REF = 0x8000, MAX_REFS = 0x8000 };

/* Offsets in the assembler's state, relative to the word with the number. */
enum { COMPILER = -48, WORD_3 = COMPILER - 16, WORD_2 = COMPILER - 24, WORD_1 = COMPILER - 32 };

/* The machine code of an intermediate instruction. */
struct piece {
    uint32_t ref;
    uint32_t end; /* the end of its code, relative to the trace's start */
};

/* The machine code of a trace, from the highest piece to the lowest. */
struct code {
    uint64_t start;
    uint32_t bytes, count;
    struct piece piece[];
};

/* What is known of a state's traces, and the assembly that is running. */
struct lt_assembly {
    bool running;
    uint32_t trace;
    uint64_t word; /* the word with the number; 0 = not seen yet */
    uint32_t count;
    struct {
        uint32_t ref;
        uint64_t end;
    } seen[MAX_REFS];
    struct code *of[MAX_TRACES];
};

static uint64_t compiler_of(const struct lt_vm *vm)
{
    return vm->g + vm->layout->recorder;
}

void lt_asm_begin(struct lt_vm *vm)
{
    if (!vm->assembly)
        vm->assembly = host_new(sizeof *vm->assembly);
    vm->assembly->running = true;
    vm->assembly->trace = (uint32_t)program_number(compiler_of(vm) + vm->at->trace_number, 2);
    vm->assembly->word = 0;
    vm->assembly->count = 0;
}

static void asm_free(struct lt_vm *vm)
{
    for (uint32_t i = 0; vm->assembly && i < MAX_TRACES; i++)
        if (vm->assembly->of[i])
            host_free(vm->assembly->of[i]);
    if (vm->assembly)
        host_free(vm->assembly);
    vm->assembly = NULL;
}

/* The assembler's pointer into the machine code. The word below it is the limit of the machine code area,
 * which is lower; with assertions, another pointer comes between. */
static uint64_t code_pointer(uint64_t word)
{
    uint64_t above = program_number(word + WORD_2, 8);
    return above > program_number(word + WORD_3, 8) ? above : program_number(word + WORD_1, 8);
}

void lt_asm_store(struct lt_vm *vm, uint64_t a)
{
    struct lt_assembly *as = vm->assembly;
    if (!as || !as->running || (a != as->word && program_number(a + COMPILER, 8) != compiler_of(vm)))
        return;
    uint32_t ref = lt_vm_u32(a);
    if (ref < FIRST_REF || ref >= FIRST_REF + MAX_REFS)
        return;
    as->word = a;
    while (as->count && as->seen[as->count - 1].ref <= ref)
        as->count--;
    if (as->count == MAX_REFS)
        return;
    as->seen[as->count].ref = ref;
    as->seen[as->count++].end = code_pointer(a);
}

/* Is all that was observed within the finished code, in descending order? */
static bool agrees(const struct lt_assembly *as, uint64_t start, uint32_t bytes)
{
    for (uint32_t i = 0; i < as->count; i++)
        if (as->seen[i].end - start > bytes || (i && as->seen[i].end > as->seen[i - 1].end))
            return false;
    return as->count && start;
}

/* Store the pieces, except those without code. */
static struct code *code_keep(const struct lt_assembly *as, uint64_t start, uint32_t bytes)
{
    struct code *c = host_new(sizeof *c + as->count * sizeof *c->piece);
    *c = (struct code){.start = start, .bytes = bytes};
    for (uint32_t i = 0; i < as->count; i++)
        if (i + 1 == as->count || as->seen[i + 1].end < as->seen[i].end)
            c->piece[c->count++] = (struct piece){as->seen[i].ref, (uint32_t)(as->seen[i].end - start)};
    return c;
}

void lt_asm_end(struct lt_vm *vm)
{
    struct lt_assembly *as = vm->assembly;
    if (!as || !as->running)
        return;
    uint64_t J = compiler_of(vm), start = program_number(J + vm->at->trace_code, sizeof(uint64_t));
    uint32_t bytes = lt_vm_u32(J + vm->at->trace_code_bytes);
    struct code **of = &as->of[as->trace];
    as->running = false;
    if (*of)
        host_free(*of);
    *of = agrees(as, start, bytes) ? code_keep(as, start, bytes) : NULL;
}

uint32_t lt_asm_ref(const struct lt_vm *vm, const struct lt_spot *spot)
{
    const struct code *c = vm->assembly ? vm->assembly->of[spot->number] : NULL;
    uint32_t offset = (uint32_t)(spot->ip - spot->code);
    if (!c || c->start != spot->code)
        return LT_ASM_UNKNOWN;
    if (offset >= c->piece[0].end)
        return LT_ASM_AROUND;
    uint32_t low = 0, high = c->count - 1; /* the last piece precedes the first instruction's code */
    while (low < high) {
        uint32_t middle = (low + high + 1) / 2;
        if (c->piece[middle].end > offset)
            low = middle;
        else
            high = middle - 1;
    }
    return low + 1 < c->count ? c->piece[low].ref : LT_ASM_AROUND;
}

void lt_asm_init(void)
{
    lt_vm_hook(&(struct lt_vm_hooks){.ends = asm_free});
}
