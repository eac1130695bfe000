-- cache_server.lua: a cache that is reached over a socket, and a client that puts load on it, in one process.
--
-- The values are in blocks of malloc, as LuaJIT programs keep data outside of the Lua heap. Sizes and ages differ, so
-- that it matters which allocator the program has: `steve tune` shows by how much.
--
--     luajit examples/cache_server.lua [NUMBER OF REQUESTS]
--
-- SPDX-License-Identifier: GPL-2.0-or-later
local ffi = require("ffi")
ffi.cdef [[
struct in_address { uint16_t family, port; uint32_t host; char zero[8]; };
int socket(int domain, int type, int protocol);
int bind(int fd, const struct in_address *a, unsigned size);
int setsockopt(int fd, int level, int name, const int *value, unsigned size);
int listen(int fd, int backlog);
int accept(int fd, void *a, void *size);
int connect(int fd, const struct in_address *a, unsigned size);
int getsockname(int fd, struct in_address *a, unsigned *size);
long send(int fd, const void *data, size_t size, int flags);
long recv(int fd, void *data, size_t size, int flags);
void *malloc(size_t size);
void free(void *p);
]]
local C = ffi.C
local INET, STREAM, TCP, NODELAY, WAIT_FOR_ALL = 2, 1, 6, 1, 0x100
local LIMIT = 24 * 1024 * 1024 -- bytes of values that the cache keeps
local GET, PUT = 0, 1
local PIECE = 4096
local Message = ffi.typeof("struct { uint32_t what, key, size; }")

local function check(result, what)
    if result < 0 then
        error(what .. " failed")
    end
    return result
end

-- Send bytes from one end and receive them at the other, in pieces for which the socket has room.
local function transfer(from, data, to, buffer, size)
    data, buffer = ffi.cast("char *", data), ffi.cast("char *", buffer)
    for at = 0, size - 1, PIECE do
        local piece = math.min(PIECE, size - at)
        check(C.send(from, data + at, piece, 0), "send")
        check(C.recv(to, buffer + at, piece, WAIT_FOR_ALL), "recv")
    end
end

-- A connection over the loopback device: the server's end and the client's.
local function connected()
    local address = ffi.new("struct in_address", { family = INET, host = 0x0100007f })
    local size = ffi.new("unsigned[1]", ffi.sizeof(address))
    local listener = check(C.socket(INET, STREAM, 0), "socket")
    check(C.bind(listener, address, ffi.sizeof(address)), "bind")
    check(C.getsockname(listener, address, size), "getsockname")
    check(C.listen(listener, 1), "listen")
    local client = check(C.socket(INET, STREAM, 0), "socket")
    check(C.connect(client, address, ffi.sizeof(address)), "connect")
    local server, one = check(C.accept(listener, nil, nil), "accept"), ffi.new("int[1]", 1)
    for _, fd in ipairs({ server, client }) do -- small messages are sent at once
        check(C.setsockopt(fd, TCP, NODELAY, one, ffi.sizeof(one)), "setsockopt")
    end
    return server, client
end

local Cache = {}
Cache.__index = Cache

function Cache.new()
    return setmetatable({ values = {}, sizes = {}, order = {}, first = 1, last = 0, bytes = 0 }, Cache)
end

function Cache:drop(key)
    local value = self.values[key]
    if value then
        self.bytes = self.bytes - self.sizes[key]
        self.values[key], self.sizes[key] = nil, nil
        C.free(value)
    end
end

-- Make room by dropping the keys that were put first. A key that is put again keeps its place.
function Cache:put(key, value, size)
    if not self.values[key] then
        self.last = self.last + 1
        self.order[self.last] = key
    end
    self:drop(key)
    self.values[key], self.sizes[key] = value, size
    self.bytes = self.bytes + size
    while self.bytes > LIMIT do
        self:drop(self.order[self.first])
        self.order[self.first] = nil
        self.first = self.first + 1
    end
end

-- Do one request of the client: `data` is what it puts, or where it gets the value.
local function request(server, client, cache, asked, data)
    local message = Message()
    transfer(client, asked, server, message, ffi.sizeof(message))
    if message.what == PUT then
        local value = C.malloc(message.size)
        transfer(client, data, server, value, message.size)
        cache:put(message.key, value, message.size)
        return false
    end
    local value = cache.values[message.key]
    message.size = value and cache.sizes[message.key] or 0
    transfer(server, message, client, asked, ffi.sizeof(message))
    transfer(server, value or data, client, data, message.size)
    return value ~= nil
end

-- Sizes grow over the run, with many small and few large ones: what was freed seldom fits what comes.
local function size_of(i, requests)
    local scale = 1 + 3 * i / requests
    return math.floor((math.random() < 0.9 and math.random(40, 900) or math.random(2000, 16000)) * scale)
end

local function main(requests)
    math.randomseed(1)
    local server, client = connected()
    local cache, asked = Cache.new(), Message()
    local data, hits = ffi.new("char[65536]"), 0
    for i = 1, requests do
        asked.what = math.random() < 0.7 and PUT or GET
        asked.key = math.random(1, 30000)
        asked.size = asked.what == PUT and size_of(i, requests) or 0
        if request(server, client, cache, asked, data) then
            hits = hits + 1
        end
    end
    print(("%d requests, %d hits, %d bytes kept"):format(requests, hits, cache.bytes))
end

main(tonumber(arg[1]) or 60000)
