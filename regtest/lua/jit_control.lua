-- SPDX-License-Identifier: GPL-2.0-or-later
local was = jit.status()
local function work(n) local s = 0 for i = 1, n do s = s + i % 7 end return s end
print(work(10000)) jit.off(work) print(work(10000)) jit.on(work) print(work(10000))
jit.flush() print(work(10000))
jit.off() print(work(1000), jit.status()) if was then jit.on() end print(work(1000))
print(jit.version_num >= 20000, type(jit.arch), pcall(jit.on, 5))
local opt = require "jit.opt"
opt.start(3) print(work(5000)) opt.start("hotloop=5", "hotexit=2") print(work(5000))
opt.start("hotloop=56", "hotexit=10")
