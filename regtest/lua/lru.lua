-- SPDX-License-Identifier: GPL-2.0-or-later
local cache, order, clock, hits, misses = {}, {}, 0, 0, 0
local function get(k)
    clock = clock + 1
    if cache[k] then hits = hits + 1 else
        misses = misses + 1
        local n, oldest = 0, nil
        for key, used in pairs(order) do n = n + 1 if not oldest or used < order[oldest] then oldest = key end end
        if n >= 16 then cache[oldest], order[oldest] = nil, nil end
        cache[k] = { value = string.rep(k, 3) }
    end
    order[k] = clock
    return cache[k].value
end
local seed = 7
for _ = 1, 4000 do
    seed = seed * 16807 % 2147483647
    get("k" .. math.floor(seed / 65536) % 24)
end
print(hits, misses, hits + misses)
