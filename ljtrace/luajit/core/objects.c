/* objects.c - read what LuaJIT's structures say, without keeping anything.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/luajit/core/objects.h"
#include "memtrace/memtrace.h"

uint32_t lt_machine_state(const struct lt_vm *vm)
{
    int32_t state = (int32_t)lt_vm_u32(vm->g + vm->layout->vmstate);
    if (state > 0)
        return MT_VM_TRACE;
    return ~(uint32_t)state < LUA_LAYOUT_VM_STATES ? vm->layout->vm[~state] : MT_VM_C;
}

uint64_t lt_vm_cframe(const struct lt_vm *vm)
{
    uint64_t L = lt_vm_ref(vm, vm->g + vm->layout->cur_l);
    return L ? program_number(L + vm->at->thread_cframe, 8) & ~(uint64_t)3 : 0;
}

uint64_t lt_function_proto(const struct lt_vm *vm, uint64_t function)
{
    if (lt_vm_gct(vm, function) != GCT_FUNC || program_number(function + vm->at->ffid, 1) != 0)
        return 0;
    return lt_vm_ref(vm, function + vm->at->func_pc) - vm->at->proto_code;
}

bool lt_proto_is_built_in(const struct lt_vm *vm, uint64_t proto)
{
    return lt_vm_u32(proto + vm->at->proto_first) == 0xffffffff;
}

uint32_t lt_first_line(const struct lt_vm *vm, uint64_t proto)
{
    return lt_proto_is_built_in(vm, proto) ? 0 : lt_vm_u32(proto + vm->at->proto_first);
}

uint32_t lt_line_of(const struct lt_vm *vm, uint64_t proto, uint32_t i)
{
    const uint32_t count = lt_vm_u32(proto + vm->at->proto_line_count);
    const uint64_t lines = lt_vm_ref(vm, proto + vm->at->proto_lines);
    uint32_t width = 4;
    if (!lines)
        return 0;
    if (count < 65536)
        width = count < 256 ? 1 : 2;
    return lt_first_line(vm, proto) +
           (i ? (uint32_t)program_number(lines + (uint64_t)(i - 1) * width, width) : 0);
}

uint32_t lt_line_at(const struct lt_vm *vm, uint64_t proto, uint64_t pc)
{
    const uint64_t code = proto + vm->at->proto_code;
    const uint32_t count = lt_vm_u32(proto + vm->at->proto_count);
    if (pc < code || pc >= code + 4 * (uint64_t)count)
        return 0;
    return lt_line_of(vm, proto, (uint32_t)(pc - code) / 4);
}
