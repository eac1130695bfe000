/* dead_puts.c - remove writes to registers that are overwritten before anything can read them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * This is liveness analysis, as in any compiler: it walks from the end of the superblock to its start and
 * tracks which bytes of the guest state will be written again before anything reads them. Calls, and whatever
 * follows an exit, may read all bytes.
 */
#include "ljtrace/valgrind/instrument/dead_puts.h"
#include "ljtrace/luajit/base/program_memory.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/base/self_modifying.h"
#include "ljtrace/valgrind/base/core.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

enum { STATE_BYTES = sizeof(VexGuestAMD64State) };

static Bool s_precise; /* keep all writes */

/* A byte is dead (it will be written before it is read) if its stamp equals s_present. Incrementing s_present
 * makes all bytes live. */
static ULong s_stamp[STATE_BYTES], s_present;

void lt_dead_puts_init(void)
{
    static const HChar *const options[] = {"--vex-iropt-register-updates", "--px-default", "--px-file-backed",
                                           "--vgdb=full", "--vgdb-error"};
    s_precise = !LT_CAN_DISCARD;
    for (UInt i = 0; i < sizeof options / sizeof *options; i++)
        s_precise |= lt_option_given(options[i]);
}

/* Does this rt_sigaction install a handler for faults? args: the signal's number, and the address of a struct
 * that begins with the handler. */
static Bool handles_faults(const UWord *args)
{
    if ((args[0] != VKI_SIGSEGV && args[0] != VKI_SIGBUS) || args[1] == 0)
        return False;
    const ULong handler = program_number(args[1], sizeof(UWord));
    return handler != (ULong)VKI_SIG_DFL && handler != (ULong)VKI_SIG_IGN;
}

void lt_dead_puts_before(UInt number, const UWord *args)
{
    if (s_precise || number != __NR_rt_sigaction || !handles_faults(args))
        return;
    s_precise = True;
    lt_vex_be_precise();
    lt_smc_translate_again();
}

/* Give a range of bytes a stamp: s_present makes them dead, 0 makes them live. */
static void stamp(Int offset, Int size, ULong with)
{
    for (Int i = offset; i < offset + size && i < STATE_BYTES; i++)
        s_stamp[i] = with;
}

/* Are all bytes of the range dead? */
static Bool is_unseen(Int offset, Int size)
{
    for (Int i = offset; i < offset + size; i++)
        if (i >= STATE_BYTES || s_stamp[i] != s_present)
            return False;
    return True;
}

/* A memory access: signal handlers and the unwinder read these registers. */
static void pass_access(void)
{
    stamp(offsetof(VexGuestAMD64State, guest_RIP), sizeof(ULong), 0);
    stamp(offsetof(VexGuestAMD64State, guest_RSP), sizeof(ULong), 0);
    stamp(offsetof(VexGuestAMD64State, guest_RBP), sizeof(ULong), 0);
}

static void pass_assignment(const IRExpr *data)
{
    if (data->tag == Iex_Get)
        stamp(data->Iex.Get.offset, sizeofIRType(data->Iex.Get.ty), 0);
    else if (data->tag == Iex_GetI)
        stamp(data->Iex.GetI.descr->base,
              data->Iex.GetI.descr->nElems * sizeofIRType(data->Iex.GetI.descr->elemTy), 0);
    else if (data->tag == Iex_Load)
        pass_access();
}

static void pass_write(IRSB *sb, Int i)
{
    const IRStmt *st = sb->stmts[i];
    Int offset = st->Ist.Put.offset, size = sizeofIRType(typeOfIRExpr(sb->tyenv, st->Ist.Put.data));
    if (is_unseen(offset, size))
        sb->stmts[i] = IRStmt_NoOp();
    else
        stamp(offset, size, s_present);
}

static void pass(IRSB *sb, Int i)
{
    switch (sb->stmts[i]->tag) {
    case Ist_Put:
        pass_write(sb, i);
        break;
    case Ist_WrTmp:
        pass_assignment(sb->stmts[i]->Ist.WrTmp.data);
        break;
    case Ist_Store:
    case Ist_StoreG:
    case Ist_LoadG:
    case Ist_CAS:
    case Ist_LLSC:
        pass_access();
        break;
    case Ist_NoOp:
    case Ist_IMark:
    case Ist_AbiHint:
    case Ist_PutI: /* it writes an unknown element, so all elements of its array keep their state */
        break;
    default:
        s_present++;
        break;
    }
}

void lt_dead_puts_remove(IRSB *sb)
{
    if (s_precise)
        return;
    s_present++;
    for (Int i = sb->stmts_used; i-- > 0;)
        pass(sb, i);
}
