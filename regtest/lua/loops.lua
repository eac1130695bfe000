-- SPDX-License-Identifier: GPL-2.0-or-later
for i = 10, 1, -3 do io.write(i, " ") end print()
for x = 0, 1, 0.25 do io.write(x, " ") end print()
for i = 5, 1 do print("never", i) end
local i, s = 0, 0
repeat local last = i i = i + 1 s = s + last until last >= 9
print(i, s)
for k = 1, 3 do
    for j = 1, 3 do
        if j == k then break end
        io.write(k, ":", j, " ")
    end
end
print()
print(pcall(function() for _ = 1, 10, 0 do error("once") end end))
print(pcall(function() for _ = "a", 2 do end end))
