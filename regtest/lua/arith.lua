-- SPDX-License-Identifier: GPL-2.0-or-later
for _, p in ipairs { {7, 3}, {-7, 3}, {7, -3}, {-7, -3}, {5.5, 2}, {0, 4}, {1e15, 7} } do
    local a, b = p[1], p[2]
    print(a, b, a + b, a - b, a * b, a / b, a % b, a ^ 2, -a)
end
print(1 / 0, -1 / 0, 0 / 0 ~= 0 / 0, 2 ^ 53 == 2 ^ 53 + 1, 0.1 + 0.2 == 0.3)
print("10" + 5, "0x10" * 2, "3" ^ "2", 10 .. 20, -"2")
print(pcall(function() return {} + 1 end))
