-- SPDX-License-Identifier: GPL-2.0-or-later
local sandbox = { print = print, n = 0 }
local f = assert(loadstring("n = n + 1; print(n, tostring)"))
setfenv(f, sandbox)
f() f()
print(n, sandbox.n, getfenv(f) == sandbox)
local meta = setmetatable({}, { __index = _G, __newindex = function(t, k, v) rawset(t, k, "set " .. tostring(v)) end })
local g = setfenv(loadstring("answer = 42; return answer, type(print)"), meta)
print(g())
print(rawget(_G, "answer"))
print(_G._G == _G, getfenv(1) == getfenv())
