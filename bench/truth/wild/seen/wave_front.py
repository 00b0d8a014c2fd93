"""Front ends that delay each request: a dead server, a refusal, a hanging helper, a sweep."""
from services import nginx, php
from system import ITEMS, PYTHON, SLEEPS, WRK, System, wrk

# Computes the price of a basket. Every price is a digest of a certain length.
PRICES = """
const http = require('http'), crypto = require('crypto');
http.createServer((request, response) => {
  const rounds = Number(process.argv[3]);
  const price = crypto.pbkdf2Sync(request.url, 'price', rounds, 16, 'sha256').toString('hex');
  response.setHeader('Content-Length', price.length);
  response.end(price);
}).listen(Number(process.argv[2]), '127.0.0.1');
"""


def prices(place, rounds):
    port = place.port()
    place.start("node", place.write("prices.js", PRICES), port, rounds, port=port)
    return port


def sticky(place):
    alive, dead, port = prices(place, 3000), place.port(), place.port()
    config = place.write("front.cfg", f"""
defaults
  mode http
  timeout client 10s
  timeout server 10s
  timeout connect {max(1, round(40 * place.scale))}ms
  retries 2
  option redispatch
frontend front
  bind 127.0.0.1:{port}
  default_backend desks
backend desks
  cookie desk insert indirect nocache
  server one 127.0.0.1:{alive} cookie one
  server two 127.0.0.1:{dead} cookie two {"disabled" if place.fixed else ""}
""")
    place.start("haproxy", "-db", "-f", config, port=port)
    return [*wrk(f"http://127.0.0.1:{port}/basket", 4, place.seconds), "-H", "Cookie: desk=two"]


# The stock list needs a password, which urllib's handler sends only after a refusal, each time.
LEDGER = """#!/usr/bin/python3
import base64, sys, time
import urllib.request

url, polite, seconds = sys.argv[1], sys.argv[2] == "ask", float(sys.argv[3])
passwords = urllib.request.HTTPPasswordMgrWithDefaultRealm()
passwords.add_password(None, url, "ledger", "secret")
opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(passwords))
if not polite:
    word = base64.b64encode(b"ledger:secret").decode()
    opener.addheaders.append(("Authorization", "Basic " + word))
begin, items = time.monotonic(), 0
while time.monotonic() < begin + seconds:
    with opener.open(f"{url}/stock/{items}") as answer:
        assert len(answer.read()) == 32
    items += 1
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""


def refused(place):
    place.write("passwords", "ledger:{PLAIN}secret\n")
    port = nginx(place, f"""
    location / {{ auth_basic "stock"; auth_basic_user_file {place.folder}/passwords;
      auth_delay {round(40 * place.scale)}ms; proxy_pass http://127.0.0.1:{prices(place, 6000)}; }}
""")
    ledger = place.write("ledger", LEDGER)
    way = "know" if place.fixed else "ask"
    return [str(ledger), f"http://127.0.0.1:{port}", way, str(place.seconds)]


# Receives questions and never answers.
ADVERTS = """#!/usr/bin/perl
use IO::Socket::INET;
my $server = IO::Socket::INET->new(LocalAddr => "127.0.0.1:$ARGV[0]", Listen => 64) or die;
my @open;
while (my $caller = $server->accept) {
    push @open, $caller;
    shift(@open)->close if @open > 64;
}
"""
SHOP = """#!/usr/bin/ruby
require "socket"
require "net/http"
require "openssl"

port, adverts, patience = ARGV[0].to_i, ARGV[1].to_i, ARGV[2].to_f
server = TCPServer.new("127.0.0.1", port)

def advert(port, patience)
  client = Net::HTTP.new("127.0.0.1", port)
  client.max_retries = 0
  client.read_timeout = patience
  client.get("/banner").body
rescue Net::ReadTimeout
  ""
end

loop do
  Thread.new(server.accept) do |caller|
    caller.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
    while (line = caller.gets)
      next unless line == "\\r\\n"
      banner = patience > 0 ? advert(adverts, patience) : ""
      page = banner + OpenSSL::PKCS5.pbkdf2_hmac("page", "shop", 2500, 16, "sha256").unpack1("H*")
      caller.write("HTTP/1.1 200 OK\\r\\nContent-Length: #{page.size}\\r\\n\\r\\n#{page}")
    end
  rescue SystemCallError
    caller.close
  end
end
"""


def hung(place):
    adverts, port = place.port(), place.port()
    place.start(place.write("adverts", ADVERTS), adverts, port=adverts)
    place.start(place.write("shop", SHOP), port, adverts, 0.04 * place.fault, port=port)
    return wrk(f"http://127.0.0.1:{port}/", 4, place.seconds)


SESSIONS = """<?php
session_id("desk" . getmypid());
session_start();
$_SESSION["visits"] = ($_SESSION["visits"] ?? 0) + 1;
echo hash_pbkdf2("sha256", "page", "salt", 1500);
"""


def sweeping(place):
    folder = place.folder / "sessions"
    folder.mkdir()
    for number in range(5000):
        place.write(f"sessions/sess_visitor{number}", "visits|i:1;", 0o600)
    port = php(place, SESSIONS, 2, settings=f"""
php_admin_value[session.save_path] = {folder}
php_admin_value[session.gc_divisor] = 1
php_admin_value[session.gc_probability] = {0 if place.fixed else 1}
""")
    return wrk(f"http://127.0.0.1:{port}/", 2, place.seconds)


SYSTEMS = [
    System(
        name="haproxy_sticky_to_dead",
        kind="turn-around-delay",
        truth="the cookie of wrk leads to a server that refuses connections; haproxy waits 40 ms "
              "before it tries again and goes to the other one",
        load=sticky,
        rate=WRK,
        component=(r"haproxy", r"connections?[^.;]* refused", r"refused connection"),
        mechanism=(*SLEEPS, r"time-?out", r"timed out", r"refus", r"retr(y|ies)", r"tries? again",
                   r"turn-?around", r"paus"),
        never=(r"haproxy[^.;,]* comput", r"(prices\S*|node) (comput|sleep)", r"\bdisk"),
        change="x0",
        halves=True,
        running=True,
        needs=("haproxy", "node", "wrk"),
    ),
    System(
        name="nginx_auth_delay",
        kind="refused-credentials-delay",
        truth="nginx waits 40 ms (auth_delay) before it refuses the first request of ledger, which "
              "sends its password only after a refusal, for each item anew",
        load=refused,
        rate=ITEMS,
        component=(r"nginx",),
        mechanism=(*SLEEPS, r"time-?out", r"delay", r"refus", r"401", r"unauthori[sz]ed"),
        never=(r"(ledger|python\S*|nginx|prices\S*|node) comput", r"(prices\S*|node) sleep",
               r"(ledger|python\S*) sleep"),
        change="x0",
        halves=True,
        needs=("nginx", "node", PYTHON),
    ),
    System(
        name="ruby_hung_adverts",
        kind="hung-dependency",
        truth="shop asks adverts for a banner, which takes the question and never answers, and "
              "goes on after its own timeout of 40 ms",
        load=hung,
        rate=WRK,
        component=(r"\bshop\b", r"ruby", r"adverts"),
        mechanism=(*SLEEPS, r"time-?out", r"timed out", r"never answer", r"no answer",
                   r"does not answer", r"until its patience"),
        never=(r"(shop|ruby|adverts|perl)[^.;,]* comput", r"adverts (sleeps|computes)"),
        change="x0",
        halves=True,
        running=True,
        needs=("ruby", "perl", "wrk"),
    ),
    System(
        name="php_sweeps_sessions",
        kind="session-sweep-per-request",
        truth="php-fpm looks at all 5000 session files for old ones (gc_probability 1 of 1) in "
              "each request",
        load=sweeping,
        rate=WRK,
        component=(r"php",),
        mechanism=(r"director(y|ies)", r"files?\b", r"f?stat", r"system calls?", r"kernel",
                   r"getdents", r"readdir", r"session", r"looks? (up|at)"),
        never=(r"php\S* sleep", r"nginx (comput|sleep)", r"\bdisk"),
        running=True,
        needs=("nginx", "wrk", "php"),
    ),
]
