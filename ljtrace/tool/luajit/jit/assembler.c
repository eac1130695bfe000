/* assembler.c - see assembler.h. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The assembler's state lies on the C stack. Its fields from the machine code's pointer to the count have had
 * the same order in all of LuaJIT 2.1; builds with assertions have one pointer more. It is recognised by its
 * pointer to the compiler's structure, and what was seen is kept only if it agrees with the finished trace:
 * the code's ends go down, from within the trace to its start or above. The assembler may begin again, to
 * align a loop or to have room for more instructions; then the count begins at the top again.
 */
#include "ljtrace/tool/luajit/jit/assembler.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"

enum { MAX_TRACES = 65536, FIRST_REF = 0x8000, MAX_REFS = 0x8000 };

/* In the assembler's state, from the word with the count. */
enum { COMPILER = -48, WORD_3 = COMPILER - 16, WORD_2 = COMPILER - 24, WORD_1 = COMPILER - 32 };

struct piece {
    UInt ref;
    UInt end; /* behind its code, from the trace's start */
};

/* The machine code of a trace, from the highest piece to the lowest. */
struct code {
    Addr start;
    UInt bytes, count;
    struct piece piece[];
};

struct lt_assembly {
    Bool running;
    UInt trace;
    Addr word; /* with the count; 0 = not seen yet */
    UInt count;
    struct {
        UInt ref;
        Addr end;
    } seen[MAX_REFS];
    struct code *of[MAX_TRACES];
};

static Addr compiler_of(const struct lt_vm *vm)
{
    return vm->g + vm->layout->recorder;
}

void lt_asm_begin(struct lt_vm *vm)
{
    if (!vm->assembly)
        vm->assembly = VG_(calloc)("ljtrace.assembly", 1, sizeof *vm->assembly);
    vm->assembly->running = True;
    vm->assembly->trace = (UInt)lt_peek_number(compiler_of(vm) + vm->at->trace_number, 2);
    vm->assembly->word = 0;
    vm->assembly->count = 0;
}

void lt_asm_free(struct lt_vm *vm)
{
    for (UInt i = 0; vm->assembly && i < MAX_TRACES; i++)
        if (vm->assembly->of[i])
            VG_(free)(vm->assembly->of[i]);
    if (vm->assembly)
        VG_(free)(vm->assembly);
    vm->assembly = NULL;
}

/* Where the assembler is: its pointer stands above the limit of the room there is, and with assertions below
 * the limit stands a pointer more. */
static Addr code_pointer(Addr word)
{
    Addr above = lt_peek_number(word + WORD_2, 8);
    return above > lt_peek_number(word + WORD_3, 8) ? above : lt_peek_number(word + WORD_1, 8);
}

void lt_asm_store(struct lt_vm *vm, Addr a)
{
    struct lt_assembly *as = vm->assembly;
    if (!as || !as->running || (a != as->word && lt_peek_number(a + COMPILER, 8) != compiler_of(vm)))
        return;
    UInt ref = lt_vm_u32(a);
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

/* Does all that was seen lie in the finished code, in order? */
static Bool agrees(const struct lt_assembly *as, Addr start, UInt bytes)
{
    for (UInt i = 0; i < as->count; i++)
        if (as->seen[i].end - start > bytes || (i && as->seen[i].end > as->seen[i - 1].end))
            return False;
    return as->count && start;
}

/* Pieces without code are left out. */
static struct code *keep(const struct lt_assembly *as, Addr start, UInt bytes)
{
    struct code *c = VG_(malloc)("ljtrace.code", sizeof *c + as->count * sizeof *c->piece);
    *c = (struct code){.start = start, .bytes = bytes};
    for (UInt i = 0; i < as->count; i++)
        if (i + 1 == as->count || as->seen[i + 1].end < as->seen[i].end)
            c->piece[c->count++] = (struct piece){as->seen[i].ref, (UInt)(as->seen[i].end - start)};
    return c;
}

void lt_asm_end(struct lt_vm *vm)
{
    struct lt_assembly *as = vm->assembly;
    if (!as || !as->running)
        return;
    Addr J = compiler_of(vm), start = lt_vm_ref(vm, J + vm->at->trace_code);
    UInt bytes = lt_vm_u32(J + vm->at->trace_code_bytes);
    struct code **of = &as->of[as->trace];
    as->running = False;
    if (*of)
        VG_(free)(*of);
    *of = agrees(as, start, bytes) ? keep(as, start, bytes) : NULL;
}

UInt lt_asm_ref(const struct lt_vm *vm, const struct lt_spot *spot)
{
    const struct code *c = vm->assembly ? vm->assembly->of[spot->number] : NULL;
    UInt offset = (UInt)(spot->ip - spot->code);
    if (!c || c->start != spot->code)
        return LT_ASM_UNKNOWN;
    if (offset >= c->piece[0].end)
        return LT_ASM_AROUND;
    UInt low = 0, high = c->count - 1; /* the last piece is what comes before the first instruction */
    while (low < high) {
        UInt middle = (low + high + 1) / 2;
        if (c->piece[middle].end > offset)
            low = middle;
        else
            high = middle - 1;
    }
    return low + 1 < c->count ? c->piece[low].ref : LT_ASM_AROUND;
}
