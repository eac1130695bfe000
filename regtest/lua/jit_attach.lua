-- SPDX-License-Identifier: GPL-2.0-or-later
-- handlers of the compiler's events run while it records; what they count depends on the compiler, that they work not
local seen = {bc = 0, trace = {}, record = 0, texit = 0}
local function on_bc() seen.bc = seen.bc + 1 end
local function on_trace(what, tr) seen.trace[what] = (seen.trace[what] or 0) + 1 seen.list = {what, tr} end
local function on_record(tr, func, pc, depth) seen.record = seen.record + 1 end
local function on_exit(tr, ex, ngpr, nfpr) seen.texit = seen.texit + 1 end
jit.attach(on_bc, "bc") jit.attach(on_trace, "trace") jit.attach(on_record, "record") jit.attach(on_exit, "texit")
local made = {}
for i = 1, 20 do made[i] = assert(loadstring("local n = 0 for i = 1, 150 do if i % 7 == " .. i % 7 .. " then n = n + i end end return n")) end
local sum = 0
for i = 1, 20 do sum = sum + made[i]() + made[i]() end
jit.attach(on_bc) jit.attach(on_trace) jit.attach(on_record) jit.attach(on_exit)
print(sum, seen.bc == 20)
local before = seen.bc
loadstring("return 1")()
print(seen.bc == before, jit.status() == true or (seen.record == 0 and seen.texit == 0 and next(seen.trace) == nil))
local starts, ends = seen.trace.start or 0, (seen.trace.stop or 0) + (seen.trace.abort or 0)
print(starts == ends, pcall(jit.attach, 1, "bc") == false, pcall(jit.attach, on_bc, "nonsense"))
