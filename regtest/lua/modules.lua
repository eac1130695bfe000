-- SPDX-License-Identifier: GPL-2.0-or-later
package.preload["made.up"] = function(name) return { name = name, loaded = 1 } end
local m = require "made.up"
print(m.name, require("made.up") == m, package.loaded["made.up"] == m)
package.preload["nothing"] = function() end
print(require "nothing")
print((select(2, pcall(require, "no.such.module"))):match("module 'no.such.module' not found"))
package.preload["broken"] = function() error("cannot load", 0) end
print((pcall(require, "broken")))
print(type(package.path), type(package.cpath), #package.loaders, package.config:sub(1, 1))
print(package.loadlib("/nonexistent.so", "x") == nil)
