-- SPDX-License-Identifier: GPL-2.0-or-later
local function gen(n) return coroutine.wrap(function() for i = 1, n do coroutine.yield(i) end return "done" end) end
local g = gen(3)
print(g(), g(), g(), g(), pcall(g))
local co = coroutine.create(function(a, b)
    print("start", a, b)
    local c = coroutine.yield(a + b)
    print("got", c)
    local d, e = coroutine.yield(c * 2)
    return d + e
end)
print(coroutine.resume(co, 1, 2)) print(coroutine.status(co))
print(coroutine.resume(co, 10)) print(coroutine.resume(co, 3, 4))
print(coroutine.status(co), coroutine.resume(co))
print(coroutine.running() == nil or type(coroutine.running()))
print(pcall(coroutine.yield))
print(coroutine.resume(coroutine.create(function() error("inside", 0) end)))
