"""Gateways that their own parts delay: a program that maps names, health checks, the pacing of a
socket.
"""
from system import COMPUTES, LOCKS, WRK, System, wrk

# Searches its whole list for each name.
SHOPMAP = """#!/usr/bin/perl
use strict;
$| = 1;
while (defined(my $name = <STDIN>)) {
    chomp $name;
    my $found = 'NULL';
    open my $list, '<', $ARGV[0] or die;
    while (my $line = <$list>) {
        my ($key, $value) = split ' ', $line;
        $found = $value if $key eq $name;
    }
    close $list;
    print "$found\\n";
}
"""

CATALOG = """
const http = require('http'), crypto = require('crypto');
const stock = Buffer.alloc(1 << 16, 'shelf');

http.createServer((request, response) => {
  const rounds = request.url === '/health' ? 100 : 4;
  const sum = crypto.createHash('sha256');
  for (let i = 0; i < rounds; i++) sum.update(stock);
  response.end(sum.digest('hex'));
}).listen(process.argv[2], '127.0.0.1');
"""


def map_program(place):
    port, folder, modules = place.port(), place.folder, "/usr/lib/apache2/modules"
    names = [f"shop{i}" for i in range(6000)]
    shops = place.write("shops.txt", "".join(f"{name} index.html\n" for name in names))
    (folder / "pages").mkdir()
    place.write("pages/index.html", "open from nine to five\n")
    program = place.write("shopmap", SHOPMAP)
    config = place.write("apache.conf", f"""
ServerRoot {folder}
PidFile {folder}/apache.pid
ServerName localhost
Listen 127.0.0.1:{port}
ErrorLog {folder}/error.log
DefaultRuntimeDir {folder}
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule rewrite_module {modules}/mod_rewrite.so
StartServers 1
ServerLimit 1
ThreadsPerChild 16
ThreadLimit 16
MaxRequestWorkers 16
MaxKeepAliveRequests 0
DocumentRoot {folder}/pages
RewriteEngine on
RewriteMap shops "{f'txt:{shops}' if place.fixed else f'prg:{program} {shops}'}"
RewriteRule ^/(shop[0-9]+)$ /${{shops:$1}} [L]
""")
    place.start("apache2", "-X", "-f", config, port=port)
    script = place.write("shops.lua", 'local i = 0\nrequest = function()\n  i = (i + 700) % 6000\n  return wrk.format("GET", "/shop" .. i)\nend\n')
    words = wrk(f"http://127.0.0.1:{port}/", 8, place.seconds)
    return [*words[:-1], "-s", str(script), words[-1]]


def health_checks(place):
    port, front = place.port(), place.port()
    place.start("node", place.write("catalog.js", CATALOG), port, port=port)
    pools = "".join(f"""
backend pool_{name}
  option httpchk GET /health
  server catalog 127.0.0.1:{port} check inter {'5s' if place.fixed else '10ms'} fall 1000
""" for name in ("web", "app", "partners", "stores", "reports", "search"))
    config = place.write("haproxy.cfg", f"""
global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
  timeout check 10s
frontend shop
  bind 127.0.0.1:{front}
  default_backend pool_web
{pools}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return wrk(f"http://127.0.0.1:{front}/", 4, place.seconds)


def paced_socket(place):
    port = place.port()
    with place.write("film", "").open("wb") as film:
        film.truncate(400 << 20)
    # 1:47 is SO_MAX_PACING_RATE of SOL_SOCKET, in bytes per second.
    pace = "" if place.fixed else ",setsockopt-int=1:47:100000000"
    place.start(place.named("/usr/bin/socat", "shelf"), "-b", 65536, "-u", f"OPEN:{place.folder}/film", f"TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork{pace}", port=port)
    return [str(place.named("/usr/bin/socat", "viewer")), "-b", "65536", "-u", f"TCP:127.0.0.1:{port}", "OPEN:/dev/null"]


SYSTEMS = [
    System(
        name="apache_rewrite_program",
        kind="rewrite-map-program",
        truth="apache2 asks its one map program, shopmap, under a lock for the page of each request, and shopmap reads through a list of 6000 shops each time",
        load=map_program,
        rate=WRK,
        component=(r"shopmap", r"perl", r"apache2?.*(\block|mutex)"),
        mechanism=(*COMPUTES, *LOCKS, r"\bcpu\b"),
        never=(r"wrk (sleep|comput)", r"apache2? (sleep|comput)", r"(shopmap|perl) sleep"),
        needs=("apache2", "perl", "wrk"),
    ),
    System(
        name="node_health_checks",
        kind="health-check-load",
        truth="node computes the health page of catalog.js again and again for the checks of six pools of haproxy, and the requests of the shop wait for that",
        load=health_checks,
        rate=WRK,
        component=(r"\bnode\b", r"catalog"),
        mechanism=(*COMPUTES, r"\bcpu\b", r"event loop", r"health"),
        never=(r"(wrk|haproxy) (sleep|comput)", r"(node|catalog\S*) sleep"),
        needs=("node", "haproxy", "wrk"),
    ),
    System(
        name="socat_paced_socket",
        kind="socket-pacing",
        truth="the socket of shelf, a socat, has a pacing rate (SO_MAX_PACING_RATE), so that the kernel's timer lets 100 MB pass in a second, and viewer waits for them",
        load=paced_socket,
        component=(r"shelf", r"socat", r"port \d+", r"connection", r"socket", r"\btcp\b"),
        mechanism=(r"\bpac(e|ed|es|ing)\b", r"\brate\b", r"throttl", r"send buffer", r"room", r"bandwidth", r"kernel.* timer", r"timer of the kernel", r"in transit", r"buffer (is )?full", r"holds? .*back"),
        never=(r"(shelf|viewer|socat) (sleep|comput)", r"receive (buffer|window)", r"\bdisk\b"),
        needs=("socat",),
    ),
]
