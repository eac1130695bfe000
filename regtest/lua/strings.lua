-- SPDX-License-Identifier: GPL-2.0-or-later
local s = "Hello, World"
print(#s, s:upper(), s:lower(), s:reverse(), s:sub(1, 5), s:sub(-5), s:sub(3, -3), s:sub(10, 2))
print(s:byte(1, 3), string.char(72, 105), s:rep(2, "/"), ("x"):rep(0))
print(s:find("World"), s:find("o", 6), s:find("xyz"), s:find(".", 1, true), s:find(""))
print(("a\0b"):len(), ("a\0b") == "a\0b", ("%q"):format('a "q"\n\\'))
print(("test"):byte(-1), ("test"):byte(10), #string.char())
local parts = {}
for i = 1, 256 do parts[i] = string.char(i - 1) end
local all = table.concat(parts)
print(#all, all:byte(200), all:upper():byte(98), #all:rep(50))
print(pcall(string.char, 256), pcall(string.rep))
