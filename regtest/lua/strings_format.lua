-- SPDX-License-Identifier: GPL-2.0-or-later
print(("%d %5d %-5d| %05d %+d %x %X %o %c"):format(42, 42, 42, 42, 42, 255, 255, 8, 65))
print(("%f %.2f %10.3f %e %g %g"):format(3.14159, 2.71828, 1.5, 12345.678, 0.0001, 1e20))
print(("%s %10s %-10s| %.3s"):format("a", "right", "left", "truncate"))
print(("%s %s %s"):format(nil, true, 12))
print(("%5.1f%%"):format(99.5), ("%q"):format("tab\tnl\n\0end"))
print(pcall(string.format, "%d", "x"), pcall(string.format, "%y", 1), pcall(string.format, "%s"))
print(("%a"):format(1), ("%i"):format(3.0), ("%.14g"):format(2 ^ 53), ("%.17g"):format(0.1))
print(tostring(1e15), tostring(1e16), tostring(-0.0), tostring(123456.789), tostring(2 ^ 63))
