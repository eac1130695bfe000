-- SPDX-License-Identifier: GPL-2.0-or-later
local Animal = {}
Animal.__index = Animal
function Animal.new(name) return setmetatable({ name = name }, Animal) end
function Animal:speak() return self.name .. " makes a sound" end
local Dog = setmetatable({}, { __index = Animal })
Dog.__index = Dog
function Dog.new(name) return setmetatable(Animal.new(name), Dog) end
function Dog:speak() return Animal.speak(self) .. ": woof" end
local pack = { Animal.new("cat"), Dog.new("rex"), Dog.new("fido") }
for i = 1, 300 do for _, a in ipairs(pack) do a.last = a:speak() .. i end end
for _, a in ipairs(pack) do print(a:speak(), a.last) end
