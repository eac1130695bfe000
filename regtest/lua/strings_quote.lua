-- SPDX-License-Identifier: GPL-2.0-or-later
print(string.format("%q", 'a "quoted"\nline\\ \0 end\r'), string.format("%5.1f|%-8s|%+d|%#x|%e|%g|%%", 3.14159, "left", 7, 255, 12345.678, 1e20))
print(string.format("%q", ("\1\127\200"):rep(2)) == string.format("%q", ("\1\127\200"):rep(2)), string.format("%a", 1), string.format("%s %s %s", nil, true, {} ~= nil))
print("\x41\u{48}\z
       joined", 0x1p4, 0x.8p1, 0xffLL, 1e3, 3i, 0b101 or nil)
print(("%d"):format(2 ^ 31), pcall(string.format, "%d", "x") == false, pcall(string.format, "%y", 1) == false, ("%c%c"):format(72, 105))
for _, s in ipairs {"0x10", "  12  ", "1e2", "0x1p-2", "1e", "", "nan", "inf", "10z", "0b11"} do io.write(tostring(tonumber(s)), " ") end print()
print(tonumber("zz", 36), tonumber("777", 8), tonumber("8", 8), tonumber("-11", 2), tonumber(nil == 1), math.huge, -math.huge, 0 / 0 ~= 0 / 0)
print(("x"):rep(3, ","), ("abc"):byte(1, -1), ("abc"):sub(-2), ("hello"):find("l"), ("a.b"):find(".", 1, true), ("k=v"):match("(%w+)=(%w+)"))
print(("THE (quick) fox"):find("%((%a+)%)"), ("f(a(b)c)d"):match("%b()"), ("THE quick"):gsub("%f[%a]%a+", string.lower))
