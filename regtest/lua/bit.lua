-- SPDX-License-Identifier: GPL-2.0-or-later
local bit = require "bit"
print(bit.tobit(0xffffffff), bit.bnot(0), bit.band(0xff0f, 0x0fff), bit.bor(1, 2, 4), bit.bxor(5, 3))
print(bit.lshift(1, 31), bit.rshift(-1, 28), bit.arshift(-256, 4), bit.rol(0x12345678, 8), bit.ror(0x12345678, 8))
print(bit.tohex(255), bit.tohex(-1, 4), bit.tohex(255, -4), bit.bswap(0x12345678))
local h = 0
for i = 1, 50000 do h = bit.bxor(bit.rol(h, 5), i) end
print(bit.tohex(h))
local crc = -1
for c in ("123456789"):gmatch(".") do
    crc = bit.bxor(crc, c:byte())
    for _ = 1, 8 do
        crc = bit.bxor(bit.rshift(crc, 1), bit.band(0xEDB88320, -bit.band(crc, 1)))
    end
end
print(bit.tohex(bit.bnot(crc)))
