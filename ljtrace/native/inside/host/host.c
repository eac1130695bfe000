/* host.c - what the reader of LuaJIT needs from the native recorder (ljtrace/luajit/host.h): threads, registers, messages.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * memory.c, stacks.c, images.c and records.c have the rest.
 */
#include "ljtrace/luajit/host.h"
#include "ljtrace/native/inside/host/registers.h"
#include "ljtrace/protocol/kernel.h"
#include "ljtrace/native/inside/native.h"
#include "ljtrace/native/unwind/stack_memory.h"
#include <string.h>

enum { MOST_THREADS = 9999 };

/* -- the thread -- */

uint64_t event_registers[HOST_REGISTERS], event_ip;
bool event_at_entry;

uint32_t host_thread(void)
{
    NATIVE_THREAD_LOCAL uint32_t t_number;
    static uint32_t s_last;
    if (!t_number)
        t_number = s_last = s_last % MOST_THREADS + 1;
    return t_number;
}

uint64_t host_stack_begin(uint32_t thread)
{
    (void)thread;
    return stack_memory_from(event_registers[HOST_RSP]).low;
}

uint64_t host_stack_end(uint32_t thread)
{
    (void)thread;
    return stack_memory_from(event_registers[HOST_RSP]).high;
}

uint64_t host_code_pointer(uint32_t thread)
{
    (void)thread;
    return event_ip;
}

uint64_t host_stack_pointer(uint32_t thread)
{
    (void)thread;
    return event_registers[HOST_RSP];
}

void host_registers(uint32_t thread, enum host_register first, uint32_t count, uint64_t *to)
{
    (void)thread;
    memcpy(to, event_registers + first, count * sizeof *to);
}

/* -- the recording -- */

bool host_records(void)
{
    return native_is_on();
}

/* The collector finds the names. */
const char *host_function_name(uint64_t code)
{
    (void)code;
    return NULL;
}

/* -- messages -- */

static void say(const char *text)
{
    kernel_call(SYS_write, 2, (long)text, (long)strlen(text), 0, 0, 0);
}

void host_say(const char *text)
{
    if (!native_options.attached) /* standard error is the program's; it did not start the recorder */
        say(text);
}

void host_panic(const char *why)
{
    say("ljtrace: ");
    say(why);
    say("\n");
    __builtin_trap();
}
