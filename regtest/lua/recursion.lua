-- SPDX-License-Identifier: GPL-2.0-or-later
local function ack(m, n)
    if m == 0 then return n + 1 end
    if n == 0 then return ack(m - 1, 1) end
    return ack(m - 1, ack(m, n - 1))
end
print(ack(2, 9))
local function fib(n) return n < 2 and n or fib(n - 1) + fib(n - 2) end
print(fib(22))
local function depth(n) return 1 + depth(n + 1) end
local ok, message = pcall(depth, 1)
print(ok, message:match("stack overflow"))
