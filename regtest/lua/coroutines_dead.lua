-- SPDX-License-Identifier: GPL-2.0-or-later
local threads = {}
for i = 1, 300 do
    local co = coroutine.create(function() local big = string.rep("x", i) coroutine.yield(#big) return big end)
    local _, n = coroutine.resume(co)
    threads[i % 10 + 1] = co
    if i % 100 == 0 then io.write(n, " ") end
end
print()
collectgarbage() collectgarbage()
local states = {}
for i = 1, 10 do states[i] = coroutine.status(threads[i]) end
print(table.concat(states, " "))
local wrapped = setmetatable({}, { __index = function(_, k) return coroutine.wrap(function() coroutine.yield(k) end)() end })
print(wrapped.a, wrapped.b)
print(select("#", coroutine.resume(coroutine.create(function(...) return ... end), nil, nil, nil)))
