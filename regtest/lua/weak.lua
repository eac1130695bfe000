-- SPDX-License-Identifier: GPL-2.0-or-later
local keys, values = setmetatable({}, { __mode = "k" }), setmetatable({}, { __mode = "v" })
local held = {}
for i = 1, 100 do
    local k = { i }
    keys[k] = i
    values[i] = k
    if i % 10 == 0 then held[#held + 1] = k end
end
collectgarbage() collectgarbage()
local nk, nv = 0, 0
for _ in pairs(keys) do nk = nk + 1 end
for _ in pairs(values) do nv = nv + 1 end
print(nk, nv, #held, keys[held[3]])
values.s, values.n = "strings stay", 5
collectgarbage()
print(values.s, values.n)
