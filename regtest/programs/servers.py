"""servers - real programs that run until they are stopped: how they are started, used and stopped.

A row is data, as in `table.py`. In commands, {here} is the server's folder, {port} a free port of the loopback
interface. The clients do the same each time, and what they print must not depend on a recorder. `serving.py` runs them.

SPDX-License-Identifier: GPL-2.0-or-later
"""
import os
from dataclasses import dataclass, field
from typing import Mapping, Sequence

# where Debian's packages libnginx-mod-http-lua, libnginx-mod-http-ndk, libluajit2-5.1-2, lua-resty-core and
# lua-resty-lrucache are unpacked: they cannot be installed beside luajit
LUA_ROOT = os.environ.get("LJTRACE_NGINX_LUA", "")
HTTP = ("curl", "-sSf", "--unix-socket", "socket")


@dataclass(frozen=True)
class Server:
    """A server and its clients. All run in a folder of the server's own."""

    name: str
    argv: Sequence[str]
    package: str  # Debian package that has it
    ready: Sequence[str]  # a client that succeeds when the server answers
    clients: Sequence[Sequence[str]]  # what uses it
    stop: Sequence[str] | int  # a command or a signal
    needs: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    build: Sequence[Sequence[str]] = ()
    user: str = ""  # root must become this one
    status: int = 0
    workers: bool = False  # its forked child does the work: what is attached to
    in_check: bool = False
    least: int = 500  # allocations that are seen in all processes
    least_attached: int = 20  # while the clients use it
    without: Mapping[str, str] = field(default_factory=dict)
    unseen: Mapping[str, str] = field(default_factory=dict)  # as for programs
    remark: str = ""


NGINX = """
worker_processes 1; pid {here}/pid; error_log {here}/error.log; daemon off; user root;
events {}
http {
  access_log off;
  client_body_temp_path {here}/a; proxy_temp_path {here}/b; fastcgi_temp_path {here}/c; uwsgi_temp_path {here}/d;
  scgi_temp_path {here}/e;
  server { listen unix:{here}/socket; CONTENT }
}
"""
NGINX_LUA = f"""
load_module {LUA_ROOT}/usr/lib/nginx/modules/ndk_http_module.so;
load_module {LUA_ROOT}/usr/lib/nginx/modules/ngx_http_lua_module.so;
""" + NGINX.replace(
    "access_log off;", f'access_log off; lua_package_path "{LUA_ROOT}/usr/share/lua/5.1/?.lua;;";'
).replace(
    "CONTENT",
    "location / { content_by_lua_block { local t = {} for i = 1, 500 do t[i % 50] = { i, tostring(i) } end "
    'ngx.say("you asked for ", ngx.var.request_uri, " ", #t) } }',
)

HAPROXY = """
defaults
  mode http
  timeout client 30s
  timeout server 30s
  timeout connect 30s
frontend f
  bind unix@{here}/socket
  http-request return status 200 content-type text/plain lf-string "you asked for %[path]\\n"
"""

LIGHTTPD = """
server.document-root = "{here}"
server.bind = "{here}/socket"
server.modules = ( "mod_indexfile" )
index-file.names = ( "index.html" )
server.upload-dirs = ( "{here}" )
"""

NODE = """
const http = require('http'); const seen = [];
const server = http.createServer((q, a) => {
  seen.push('x'.repeat(q.url.length)); a.end('you asked for ' + q.url + '\\n');
});
server.listen('socket');
"""

MEMCACHED = """
import socket
client = socket.socket(socket.AF_UNIX)
client.connect("socket")
f = client.makefile("rwb")
for i in range(300):
    f.write(b"set k%d 0 0 %d\\r\\n%b\\r\\n" % (i, i % 90, b"x" * (i % 90)))
    f.flush()
    assert f.readline() == b"STORED\\r\\n"
f.write(b"get k77\\r\\n")
f.flush()
print(f.readline())
"""

REDIS = (
    "FLUSHALL\n"
    + "".join(f"SET key{i % 83} {'x' * (1 + i % 200)}\nRPUSH list{i % 7} {i}\n" for i in range(600))
    + "DBSIZE\n"
)
SQL = """
create table t (a int primary key, b text);
insert into t values (1, 'one'), (2, 'two'), (3, repeat('x', 1000));
select count(*), max(length(b)) from t; select a from t where b like 't%'; drop table t;
"""


def http(*words: str) -> Sequence[Sequence[str]]:
    """Clients of a server that listens at `socket`: fifty requests, and one of a path of its own."""
    return ((*HTTP, *words, *["http://x/index.html"] * 50), (*HTTP, *words, "http://x/index.html?a=b"))


SERVERS = [
    Server(
        "redis",
        ("redis-server", "--port", "0", "--unixsocket", "{here}/socket", "--save", "", "--daemonize", "no"),
        "redis-server redis-tools",
        ("redis-cli", "-s", "socket", "ping"),
        (
            ("sh", "-c", "redis-cli -s socket <commands"),
            ("sh", "-c", "redis-benchmark -s socket -n 300 -c 3 -q -t get,set,lpush >/dev/null"),
        ),
        15,
        files={"commands": REDIS},
        remark="no lines of Lua",
    ),
    Server(
        "memcached",
        ("memcached", "-s", "{here}/socket", "-u", "root", "-t", "1"),
        "memcached",
        ("test", "-S", "socket"),
        (("/usr/bin/python3", "-c", MEMCACHED),),
        15,
        least=30,
        least_attached=1,
        without={"V": "it lowers its hard limit of descriptors, which Valgrind refuses"},
    ),
    Server(
        "nginx",
        ("nginx", "-p", "{here}", "-c", "{here}/conf", "-e", "{here}/error.log"),
        "nginx-light",
        (*HTTP, "http://x/"),
        http(),
        3,
        files={"conf": NGINX.replace("CONTENT", "root {here};"), "index.html": "hello\n"},
        workers=True,
    ),
    Server(
        "haproxy",
        ("haproxy", "-f", "{here}/conf", "-db"),
        "haproxy",
        (*HTTP, "http://x/"),
        http(),
        10,
        least_attached=10,  # its pools hand out again what earlier requests used
        files={"conf": HAPROXY},
        remark="no lines of Lua",
    ),
    Server(
        "lighttpd",
        ("lighttpd", "-D", "-f", "{here}/conf"),
        "lighttpd",
        (*HTTP, "http://x/"),
        http(),
        2,
        least=200,
        least_attached=1,
        files={"conf": LIGHTTPD, "index.html": "hello\n"},
    ),
    Server(
        "node server",
        ("node", "server.js"),
        "nodejs",
        (*HTTP, "http://x/"),
        http(),
        15,
        status=-15,
        remark="V8",
        files={"server.js": NODE},
    ),
    Server(
        "php server",
        ("php", "-n", "-S", "127.0.0.1:{port}", "-t", "{here}"),
        "php-cli",
        ("curl", "-sSf", "http://127.0.0.1:{port}/a.php"),
        (("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do curl -sSf http://127.0.0.1:{port}/a.php?n=$i; done"),),
        2,
        remark="USE_ZEND_ALLOC",
        files={
            "a.php": "<?php $n = []; for ($i = 0; $i < 500; $i++) $n[] = str_repeat('x', $i); echo count($n), \"\\n\";"
        },
    ),
    Server(
        "postgres",
        ("/usr/lib/postgresql/15/bin/postgres", "-D", "{here}/data", "-k", "{here}", "-c", "listen_addresses="),
        "postgresql",
        ("psql", "-h", "{here}", "-U", "me", "-c", "select 1", "postgres"),
        (("sh", "-c", "psql -h {here} -U me -q postgres <sql"),) * 2,
        2,
        files={"sql": SQL},
        build=(("/usr/lib/postgresql/15/bin/initdb", "-D", "data", "-U", "me", "--no-sync", "-A", "trust"),),
        user="postgres",
    ),
    Server(
        "mariadb",
        (
            "mariadbd",
            "--no-defaults",
            "--datadir={here}/data",
            "--socket={here}/socket",
            "--skip-networking",
            "--user=root",
            "--innodb-buffer-pool-size=8M",
            "--innodb-buffer-pool-size-max=64M",  # the default reserves terabytes, which Valgrind has not
            "--innodb-use-native-aio=0",  # io_uring_enter waits for ever under Valgrind 3.19, whatever the tool
            "--pid-file={here}/pid",
        ),
        "mariadb-server",
        ("mariadb", "--no-defaults", "-S", "socket", "-e", "select 1"),
        (("sh", "-c", "mariadb --no-defaults -S socket test <sql"),) * 2,
        15,
        files={"sql": SQL},
        build=(
            (
                "sh",
                "-c",
                "mariadb-install-db --no-defaults --datadir=$PWD/data --user=root "
                "--auth-root-authentication-method=normal",
            ),
        ),
    ),
    Server(
        "tmux server",
        ("tmux", "-S", "{here}/socket", "-f", "/dev/null", "-D"),
        "tmux",
        ("test", "-S", "socket"),
        (
            ("tmux", "-S", "{here}/socket", "new-session", "-d", "-s", "one", "-x", "80", "-y", "24", "sleep 1000"),
            ("tmux", "-S", "{here}/socket", "split-window", "-t", "one", "sleep 1000"),
            ("tmux", "-S", "{here}/socket", "list-panes", "-t", "one", "-F", "#{pane_width}x#{pane_height}"),
            ("tmux", "-S", "{here}/socket", "kill-session", "-t", "one"),
        ),
        ("tmux", "-S", "{here}/socket", "kill-server"),
        in_check=True,
    ),
    Server(
        "nginx with Lua",
        ("nginx", "-p", "{here}", "-c", "{here}/conf", "-e", "{here}/error.log"),
        "libnginx-mod-http-lua (unpacked, LJTRACE_NGINX_LUA names the folder)",
        (*HTTP, "http://x/"),
        http(),
        3,
        needs=(f"{LUA_ROOT}/usr/lib/nginx/modules/ngx_http_lua_module.so",),
        env={"LD_LIBRARY_PATH": f"{LUA_ROOT}/usr/lib/x86_64-linux-gnu"},
        files={"conf": NGINX_LUA},
        workers=True,
    ),
]
