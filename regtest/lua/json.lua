-- SPDX-License-Identifier: GPL-2.0-or-later
collectgarbage "stop" -- whether a string is made again depends on when it is freed
local function encode(v)
    if type(v) == "table" then
        local out = {}
        if #v > 0 then for i, x in ipairs(v) do out[i] = encode(x) end return "[" .. table.concat(out, ",") .. "]" end
        local keys = {}
        for k in pairs(v) do keys[#keys + 1] = k end
        table.sort(keys)
        for i, k in ipairs(keys) do out[i] = ("%q"):format(k) .. ":" .. encode(v[k]) end
        return "{" .. table.concat(out, ",") .. "}"
    end
    return type(v) == "string" and ("%q"):format(v) or tostring(v)
end
local function decode(s)
    local at = 1
    local value
    local function skip() at = s:find("%S", at) or #s + 1 end
    local function list(close, item)
        local out = {}
        at = at + 1 skip()
        while s:sub(at, at) ~= close do item(out) skip() if s:sub(at, at) == "," then at = at + 1 skip() end end
        at = at + 1
        return out
    end
    local function text() local a, b = s:match('^"([^"]*)"()', at) at = b return a end
    function value()
        skip()
        local c = s:sub(at, at)
        if c == "[" then return list("]", function(o) o[#o + 1] = value() end) end
        if c == "{" then return list("}", function(o) local k = text() skip() at = at + 1 o[k] = value() end) end
        if c == '"' then return text() end
        local word, e = s:match("^([%w%.%-]+)()", at)
        at = e
        if word == "true" then return true elseif word == "false" then return false end
        return tonumber(word)
    end
    return value()
end
local doc = { name = "x", list = { 1, 2.5, -3, { deep = { true, false } } }, empty = { a = {} } }
local s = encode(doc)
print(s)
for _ = 1, 100 do s = encode(decode(s)) end
print(s == encode(doc), #s)
