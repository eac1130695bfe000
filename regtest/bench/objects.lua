-- objects.lua - benchmark: object-oriented code. Classes by metatables, inheritance, small vectors made
-- and dropped by operators, and bodies that attract each other. Argument: steps (default 1600).
-- SPDX-License-Identifier: GPL-2.0-or-later
local steps = tonumber(arg and arg[1]) or 1600

local function class(base)
  local c = setmetatable({}, { __index = base })
  c.__index = c
  return c
end

local Vector = class()
local function vector(x, y) return setmetatable({ x = x, y = y }, Vector) end
Vector.__add = function(a, b) return vector(a.x + b.x, a.y + b.y) end
Vector.__sub = function(a, b) return vector(a.x - b.x, a.y - b.y) end
Vector.__mul = function(a, k) return vector(a.x * k, a.y * k) end
function Vector:square() return self.x * self.x + self.y * self.y end

local Body = class()
function Body.new(kind, place, mass)
  return setmetatable({ place = place, speed = vector(0, 0), mass = mass, hits = 0 }, kind)
end
function Body:pulled_by(other)
  local away = other.place - self.place
  return away * (other.mass / (away:square() + 0.01))
end
function Body:move(dt) self.place = self.place + self.speed * dt end

local Bouncing = class(Body)
function Bouncing:move(dt)
  Body.move(self, dt)
  if self.place:square() > 4 then
    self.speed, self.hits = self.speed * -0.9, self.hits + 1
  end
end

local bodies = {}
for i = 1, 20 do
  bodies[i] = Body.new(i % 2 == 0 and Bouncing or Body, vector(math.sin(i * 7), math.cos(i * 5)), 1 + i % 3)
end
for _ = 1, steps do
  for _, body in ipairs(bodies) do
    for _, other in ipairs(bodies) do
      if body ~= other then body.speed = body.speed + body:pulled_by(other) * 0.001 end
    end
  end
  for _, body in ipairs(bodies) do body:move(0.01) end
end
local energy, hits = 0, 0
for _, body in ipairs(bodies) do
  energy, hits = energy + body.speed:square() * body.mass, hits + body.hits
end
print(("%.9g"):format(energy), hits)
