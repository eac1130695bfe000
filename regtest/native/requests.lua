-- requests.lua - a script that talks to the recorder, and prints the same with and without it.
-- SPDX-License-Identifier: GPL-2.0-or-later
local ljtrace = require "ljtrace"
io.stderr:write(tostring(ljtrace.running()), "\n")
local ffi = require "ffi"
local block = ffi.new("uint8_t[60001]")
local function touch(from) for i = from, from + 99 do block[i] = i % 256 end end
touch(1000)
ljtrace.start()
touch(2000)
ljtrace.mark("between")
ljtrace.stop()
touch(3000)
ljtrace.snapshot("held")
for i = 1, 300 do ljtrace.mark(i) end
print(pcall(ljtrace.mark), pcall(ljtrace.mark, {}))
