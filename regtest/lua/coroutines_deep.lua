-- SPDX-License-Identifier: GPL-2.0-or-later
local function perms(a, n)
    n = n or #a
    if n <= 1 then coroutine.yield(a) else
        for i = 1, n do a[n], a[i] = a[i], a[n] perms(a, n - 1) a[n], a[i] = a[i], a[n] end
    end
end
local count, first = 0, nil
for p in coroutine.wrap(function() perms { 1, 2, 3, 4, 5 } end) do count = count + 1 first = first or table.concat(p, "") end
print(count, first)
local ring, n = {}, 200
for i = 1, n do ring[i] = coroutine.wrap(function(v) while true do v = coroutine.yield(v + i) end end) end
local v = 0
for round = 1, 20 do for i = 1, n do v = ring[i](v) % 100003 end end
print(v)
local c = coroutine.wrap(function() return pcall(function() coroutine.yield(1) error("after", 0) end) end)
print(c(), c())
local inner = coroutine.create(function() local me = coroutine.create(function() coroutine.yield("in") end) print(coroutine.resume(me)) coroutine.yield("out") end)
print(coroutine.resume(inner))
