-- SPDX-License-Identifier: GPL-2.0-or-later
local ok, buffer = pcall(require, "string.buffer")
if not ok then
    buffer = nil
end
local function build(n)
    if not buffer then
        local t = {}
        for i = 1, n do t[i] = i .. "," end
        return table.concat(t)
    end
    local b = buffer.new(16)
    for i = 1, n do b:put(i, ",") end
    return b:tostring()
end
local text = build(1000)
print(#text, text:sub(1, 10), text:sub(-10))
if buffer then
    local b = buffer.new()
    b:put("hello"):putf(" %d", 5)
    assert(b:get(5) == "hello" and b:tostring() == " 5" and #b == 2)
    b:reset()
    assert(#b == 0)
    local decoded = buffer.decode(buffer.encode { 1, "two", { three = 3 }, true })
    assert(decoded[2] == "two" and decoded[3].three == 3 and decoded[4] == true)
end
print("done")
