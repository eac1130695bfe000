-- SPDX-License-Identifier: GPL-2.0-or-later
collectgarbage("stop")
local before = collectgarbage("count")
for _ = 1, 1000 do local _ = { 1, 2, 3 } end
print(collectgarbage("count") > before)
collectgarbage("restart")
local steps = 0
repeat steps = steps + 1 until collectgarbage("step", 10) or steps > 100000
print(steps > 0, collectgarbage("setpause", 150) > 0, collectgarbage("setstepmul", 300) > 0)
collectgarbage("setpause", 200) collectgarbage("setstepmul", 200)
local t = {}
for i = 1, 2000 do t[i] = { tostring(i) } end
local full = collectgarbage("count")
t = nil
collectgarbage()
print(collectgarbage("count") < full)
