-- SPDX-License-Identifier: GPL-2.0-or-later
local function t(v) print("asked", v) return v end
print(t(false) and t(1), t(nil) or t("x"), not t(0))
print(false == nil, not nil == true, 1 and 2 or 3, nil and 2 or 3, false or false)
local n = 0
local function count() n = n + 1 return n > 3 end
while not count() do end
print(n, n > 3 and "many" or "few")
