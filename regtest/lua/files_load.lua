-- SPDX-License-Identifier: GPL-2.0-or-later
local name = os.tmpname()
local function put(text) local f = io.open(name, "wb") f:write(text) f:close() end
put("local a, b = ... X = (X or 0) + 1 return a, b, X")
print(dofile(name)) print(loadfile(name)(5, 6)) X = nil
put("#!/usr/bin/luajit\nreturn 'behind a first line'") print(dofile(name))
put("return +") print((select(2, loadfile(name)):gsub("^%S+:(%d+:)", "%1"))) print(pcall(dofile, name) == false)
put(string.dump(function() return "from bytecode", 42 end)) print(dofile(name))
put(string.dump(loadstring("return ...", "=stripped"), true)) print(loadfile(name, "b")(7), loadfile(name, "t") == nil)
local pieces, i = {"return ", "1", "+", "2"}, 0
print(load(function() i = i + 1 return pieces[i] end)(), load("return v", "=named", "t", {v = "of its own"})())
print(loadfile("/no/such/file.lua") == nil, pcall(load, nil) == false, pcall(loadstring, nil) == false)
put("local name = ... module(name, package.seeall) function here() return print ~= nil, _NAME end")
local old = package.path package.path = name .. ";" .. old
print(package.searchpath("anything", name) == name, package.searchpath("no.module", "./?.none"))
local m = require "some_module_name" print(some_module_name.here()) print(m == package.loaded.some_module_name, require "some_module_name" == m)
package.loaded.some_module_name, some_module_name, package.path = nil, nil, old
package.preload.made = function(n) return {n = n} end print(require("made").n) package.preload.made, package.loaded.made = nil, nil
print(pcall(require, "no.such.module") == false, package.config:sub(1, 1), #package.loaders >= 4, package.loadlib("/no/such.so", "f") == nil)
os.remove(name)
