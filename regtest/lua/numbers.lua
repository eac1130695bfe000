-- SPDX-License-Identifier: GPL-2.0-or-later
print(tonumber("12"), tonumber("0x1F"), tonumber("1e2"), tonumber(" 5 "), tonumber("5x"), tonumber(""), tonumber("1e"))
print(tonumber("ff", 16), tonumber("777", 8), tonumber("zz", 36), tonumber("12", 2), tonumber(nil == 1))
print(math.floor(-3.5), math.ceil(-3.5), math.fmod(7, -3), 7 % -3, math.modf(3.75), math.modf(-3.75))
print(math.max(3, 1, 2), math.min(3, 1, 2), math.abs(-4), math.huge, -math.huge)
print(2 ^ 31, 2 ^ 32 - 1, -2 ^ 31, 2 ^ 53, 1e300 * 1e10)
