-- names.lua: objects whose names LuaJIT itself can print; prints them, takes snapshots. See test_universe_names.py
local ljtrace = require "ljtrace"
local ffi = require "ffi"
ffi.cdef [[
struct node { int a; struct node *next; };
enum colour { RED, GREEN };
union either { int i; double d; };
typedef struct { int n; char data[?]; } flexible;
]]
local TYPES = {
  "int[7]", "char[?]", "int[3][4]", "struct node *[3]", "struct node (*)[3]", "int (*)(int)", "int (*(*)[3])(void)",
  "const char *", "char *const", "const char *const *", "volatile int *", "int *const *", "int *const [2]", "complex",
  "complex float", "float __attribute__((vector_size(16)))", "const struct node", "union either *", "enum colour",
  "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t", "uint64_t", "bool", "float", "double",
  "void *", "size_t[?]", "const int[4]", "unsigned char[2]", "int **(*)[?]", "struct node", "union either", "void (**)(void)",
  "struct node *(*[2])()", "int[0]", "complex[2]", "double *[2][3]",
}
Keep = {cdata = {}}
for i, name in ipairs(TYPES) do
  local made = ffi.typeof(name)
  local ok, value = pcall(ffi.new, made)
  Keep.cdata[i] = ok and value or ffi.new(made, 3)
  print("cdata", (tostring(made):gsub("^ctype<(.*)>$", "%1")))
end
Keep.node = ffi.new("struct node")
Keep.reference = ffi.typeof("struct node &")(Keep.node)
print("cdata", "struct node &")

local function object(name, in_registry)
  local p = newproxy(true)
  if in_registry then debug.getregistry()[name] = getmetatable(p) else getmetatable(p).__name = name end
  print("udata", name)
  return p
end
Keep.udata = {object("in.registry", true), object("by.itself", false), io.open("/dev/null")}

Keep.keys = {[1000000] = {"far"}, [-3] = {"negative"}, [true] = {"yes"}, ["a b\n"] = {"odd"}, [1.5] = {"half"}}

local ok, buffers = pcall(require, "string.buffer")
if ok then
  Keep.buffer = buffers.new({dict = {("only the dictionary has it "):rep(2)}, metatable = {{}}})
  Keep.large = buffers.new():put(("x"):rep(100000))
  Keep.shown = buffers.new():set(("y"):rep(50000) .. "only a buffer shows it")
  Keep.lent = buffers.new():set(Keep.node, 8)
end
collectgarbage() collectgarbage()
ljtrace.snapshot("names")
print("buffers", ok and #Keep.large or 0)

-- all of these wait when the first finaliser runs, and each holds a table of its own
local function waiting(i)
  local p = newproxy(true)
  local held = {("held by what waits "):rep(4) .. i}
  getmetatable(p).__gc = function()
    if not Shot then Shot = true ljtrace.snapshot("finaliser") end
    return held
  end
end
for i = 1, 50 do waiting(i) end
collectgarbage()
assert(Shot)
