-- SPDX-License-Identifier: GPL-2.0-or-later
print(os.time { year = 2000, month = 1, day = 1, hour = 12 } - os.time { year = 2000, month = 1, day = 1, hour = 0 })
local t = os.date("*t", os.time { year = 2024, month = 2, day = 30 })
print(t.year, t.month, t.day, t.isdst ~= nil)
print(os.date("!%Y-%m-%d %H:%M:%S", 0), os.date("!%j %a", 86400 * 59))
print(type(os.clock()), os.clock() >= 0, os.getenv("NO_SUCH_VARIABLE"), os.difftime(10, 5))
print(os.setlocale("C"), os.execute("exit 0") ~= nil)
