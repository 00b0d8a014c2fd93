"""The web front of an online market: five frequent faults of its proxies, caches and web servers,
and two healthy parts of the same market.
"""
import shutil

from services import PHP_FPM, nginx, redis
from system import ITEMS, LOCKS, PYTHON, SLEEPS, WRK, System, number, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")
AB = number(r"Requests per second:\s+([\d.]+)")

# Common settings of haproxy.
BALANCER = """
global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
"""

# The service of the offers, behind nginx, which protects it from a buyer who asks too often.
OFFERS = """
const http = require("http"), port = Number(process.argv[2]);
const offers = Array.from({ length: 400 }, (_, i) => ({ article: 1000 + i, price: 5 + (i * 37) % 900 / 10, seller: "seller" + i % 40 }));

http.createServer((request, response) => {
  const most = Number(new URL(request.url, "http://market").searchParams.get("most"));
  const found = offers.filter(offer => offer.price < most).sort((a, b) => a.price - b.price).slice(0, 20);
  response.setHeader("Content-Type", "application/json");
  response.end(JSON.stringify(found));
}).listen(port, "127.0.0.1");
"""
# The network in front of the market tells the address of the buyer in a header.
BUYERS = """
request = function()
  wrk.headers["X-Forwarded-For"] = "203.0.113." .. math.random(1, 250)
  return wrk.format("GET", "/offers?most=" .. math.random(10, 90))
end
"""


def buyer_limit(place):
    offers, front = place.port(), place.port()
    place.start("node", place.write("offers.js", OFFERS), offers, port=offers)
    # Without the real address, the address of all buyers is that of haproxy.
    real = "set_real_ip_from 127.0.0.0/8; real_ip_header X-Forwarded-For; real_ip_recursive on;" if place.fixed else ""
    web = nginx(place, """location / { limit_req zone=buyers burst=100; proxy_pass http://offers; proxy_http_version 1.1;
                                       proxy_set_header Connection ""; }""",
                f"""{real} limit_req_zone $binary_remote_addr zone=buyers:4m rate={round(160 / place.scale)}r/s;
                    upstream offers {{ server 127.0.0.1:{offers}; keepalive 32; }}""")
    config = place.write("haproxy.cfg", f"""{BALANCER}
    option forwardfor
frontend market
    bind 127.0.0.1:{front}
    default_backend web
backend web
    server web1 127.0.0.1:{web}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    load = wrk(f"http://127.0.0.1:{front}/offers", 16, place.seconds)
    return [*load[:1], "-s", str(place.write("buyers.lua", BUYERS)), *load[1:]]


# Visitors of the market: a browser fetches a page and two pictures over one connection, and keeps
# the connection until the server closes it. The next visitor does not wait for that.
VISITORS = """#!/usr/bin/python3
import asyncio, sys, time

async def fetch(reader, writer, path):
    writer.write(f"GET {path} HTTP/1.1\\r\\nHost: market\\r\\n\\r\\n".encode())
    head = await reader.readuntil(b"\\r\\n\\r\\n")
    if b" 200 " not in head.split(b"\\n")[0]:
        sys.exit(head.decode())
    length = next(int(line[15:]) for line in head.split(b"\\r\\n") if line.lower().startswith(b"content-length:"))
    await reader.readexactly(length)

async def linger(reader, writer):
    await reader.read()
    writer.close()

async def browser(numbers, open_pages):
    for number in numbers:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
        await fetch(reader, writer, f"/shop/{number % 50}")
        await fetch(reader, writer, "/picture0.svg")
        await fetch(reader, writer, "/picture1.svg")
        open_pages.append(asyncio.create_task(linger(reader, writer)))

async def main():
    count, begin = int(sys.argv[2]), time.monotonic()
    numbers, open_pages = iter(range(count)), []
    await asyncio.gather(*(browser(numbers, open_pages) for _ in range(10)))
    print(f"items {count} seconds {time.monotonic() - begin:.3f}")
    for task in open_pages:
        task.cancel()

asyncio.run(main())
"""
SHOP = """
from flask import Flask, render_template_string

app = Flask(__name__)
PAGE = '''<h1>Stall {{ number }}</h1>
<img src="/picture0.svg"><img src="/picture1.svg">
{% for article in articles %}<p>{{ article.name | title }}: {{ "%.2f" | format(article.price) }}</p>
{% endfor %}'''

@app.get("/shop/<int:number>")
def shop(number):
    articles = [{"name": f"honey from meadow {i}", "price": (number * 7 + i * 13) % 900 / 10} for i in range(150)]
    return render_template_string(PAGE, number=number, articles=articles)
"""


def open_tabs(place):
    shop, front, folder = place.port(), place.port(), place.folder
    place.write("shop.py", SHOP)
    place.start("/usr/bin/gunicorn", "-w", "2", "-b", f"127.0.0.1:{shop}", "--chdir", folder, "shop:app", port=shop)
    (folder / "pictures").mkdir()
    for i in range(2):
        place.write(f"pictures/picture{i}.svg", f'<svg width="9" height="9"><circle r="{i + 3}"/></svg>\n' * 60, mode=0o644)
    # In prefork a process serves one connection; event needs a thread only while a request runs.
    model, workers = ("event", "ThreadsPerChild 25") if place.fixed else ("prefork", "StartServers 5")
    parts = (f"mpm_{model}", "authz_core", "mime", "proxy", "proxy_http")
    modules = "\n".join(f"LoadModule {part}_module /usr/lib/apache2/modules/mod_{part}.so" for part in parts)
    config = place.write("apache.conf", f"""
{modules}
ServerRoot {folder}
ServerName market
DocumentRoot {folder}/pictures
TypesConfig /etc/mime.types
PidFile {folder}/apache.pid
ErrorLog {folder}/apache.error
User www-data
Group www-data
Mutex posixsem
Listen 127.0.0.1:{front}
ServerLimit {1 if place.fixed else 5}
{workers}
MaxRequestWorkers {25 if place.fixed else 5}
KeepAlive On
KeepAliveTimeout {round(500 * place.scale)}ms
ProxyPass /shop/ http://127.0.0.1:{shop}/shop/
""")
    place.start("apache2", "-D", "FOREGROUND", "-f", config, port=front)
    return [str(place.write("visitors", VISITORS)), str(front), "40"]


# How many of an article are left: the store that sends it knows.
STOCK = """
import os
import aiohttp, json

session = None

async def app(scope, receive, send):
    global session
    if scope["type"] == "lifespan":
        await receive()
        session = aiohttp.ClientSession()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await session.close()
        await send({"type": "lifespan.shutdown.complete"})
        return
    article = int(scope["path"].rsplit("/", 1)[-1])
    async with session.get(f"http://127.0.0.1:{os.environ['DEPOT_PORT']}/left?article={article}") as answer:
        left = await answer.json()
    text = json.dumps({"article": article, "left": left, "soon": left < 10}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text})
"""
DEPOT = """
package main

import ("fmt"; "net/http"; "os"; "strconv"; "time")

// The scanner of the depot answers after a while.
func main() {
	pause, _ := strconv.ParseFloat(os.Args[2], 64)
	http.HandleFunc("/left", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Duration(pause * 1e9))
		article, _ := strconv.Atoi(r.URL.Query().Get("article"))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, 300-article%271)
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def same_article(place):
    depot, stock, cache, folder = place.port(), place.port(), place.port(), place.folder
    place.start(place.go("depot", DEPOT), depot, 0.012 * place.scale, port=depot)
    place.write("stock.py", STOCK)
    place.start("env", f"DEPOT_PORT={depot}", "/usr/bin/uvicorn", "--app-dir", folder, "--port", stock, "--no-access-log",
                "--log-level", "warning", "stock:app", port=stock)
    # The number must not be cached. While one request fetches an object, Varnish holds back the
    # others for it, unless it already knows that the object cannot be cached.
    keep = "set beresp.uncacheable = true; set beresp.ttl = 60s;" if place.fixed else "set beresp.ttl = 0s;"
    rules = place.write("market.vcl", f"""vcl 4.1;
backend stock {{ .host = "127.0.0.1"; .port = "{stock}"; }}
sub vcl_backend_response {{ set beresp.grace = 0s; set beresp.keep = 0s; {keep} return (deliver); }}
""", mode=0o644)
    place.start("varnishd", "-F", "-j", "none", "-n", folder / "varnish", "-a", f"127.0.0.1:{cache}", "-f", rules,
                "-s", "malloc,32m", "-T", "none", port=cache)
    return ["ab", "-q", "-k", "-c", "12", "-n", "250", f"http://127.0.0.1:{cache}/stock/4711"]


# Judges each address that somebody in the office of the market opens: squid asks it line by line.
JUDGE = """#!/usr/bin/perl
use strict;
use warnings;

my ($list, $mode) = @ARGV;
open my $file, "<", $list or die "no list: $!";
chomp(my @names = <$file>);
my %names = map { lc $_ => 1 } @names;

sub in_patterns {
    my ($host) = @_;
    for my $name (@names) {
        return 1 if $host =~ /(?:^|\\.)\\Q$name\\E$/i;
    }
    return 0;
}

# Looks up the name and all domains that it belongs to.
sub in_names {
    my @labels = split /\\./, lc $_[0];
    while (@labels) {
        return 1 if $names{join ".", @labels};
        shift @labels;
    }
    return 0;
}

$| = 1;
while (my $line = <STDIN>) {
    my ($host) = $line =~ m{^\\w+://([^/:\\s]+)};
    my $found = !defined $host || ($mode eq "names" ? in_names($host) : in_patterns($host));
    print $found ? "OK status=302 url=http://office.invalid/forbidden\\n" : "ERR\\n";
}
"""


def blocklist(place):
    """A buyer of the market compares the prices of another shop, through the proxy of the office.
    """
    shop, proxy, folder = place.port(), place.port(), place.folder
    place.write("prices.json", "[" + ",\n".join(f'{{"article": {i}, "price": {i % 90}.50}}' for i in range(60)) + "]", mode=0o644)
    web = place.write("lighttpd.conf", f"""
server.bind = "127.0.0.1"
server.port = {shop}
server.document-root = "{folder}"
server.max-keep-alive-requests = 10000000
mimetype.assign = (".json" => "application/json")
""")
    place.start("lighttpd", "-D", "-f", web, port=shop)
    names = [f"{kind}{i}.{end}" for i in range(round(500 * place.scale)) for kind in ("banner", "casino") for end in ("example", "test")]
    place.write("forbidden", "\n".join(names) + "\n", mode=0o644)
    judge = place.write("judge", JUDGE)
    place.write("hosts", "127.0.0.1 prices.rival.example\n", mode=0o644)
    home = folder / "squid"
    home.mkdir()
    shutil.chown(home, "proxy", "proxy")
    config = place.write("squid.conf", f"""
http_port 127.0.0.1:{proxy}
url_rewrite_program {judge} {folder}/forbidden {"names" if place.fixed else "patterns"}
url_rewrite_children 4 startup=4
http_access allow all
cache deny all
access_log none
cache_log {home}/cache.log
cache_store_log none
pid_filename {home}/squid.pid
coredump_dir {home}
hosts_file {folder}/hosts
dns_nameservers 127.0.0.1
pinger_enable off
shutdown_lifetime 0 seconds
visible_hostname office
""", mode=0o644)
    place.start("squid", "-N", "-f", config, port=proxy)
    return ["ab", "-q", "-k", "-c", "6", "-n", "1000", "-X", f"127.0.0.1:{proxy}", f"http://prices.rival.example:{shop}/prices.json"]


# A click on "buy": the cart, the time of the visit, the seller's counter and the reservation.
CART = """<?php
function ask($store, ...$words) {
    $text = "*" . count($words) . "\\r\\n";
    foreach ($words as $word) {
        $text .= "$" . strlen($word) . "\\r\\n$word\\r\\n";
    }
    fwrite($store, $text);
    return substr(rtrim(fgets($store)), 1);
}
$store = pfsockopen("127.0.0.1", PORT);
$buyer = mt_rand(1, 5000);
$article = mt_rand(1, 400);
ask($store, "HINCRBY", "cart:$buyer", "article:$article", 1);
ask($store, "SET", "seen:$buyer", json_encode(["article" => $article, "at" => microtime(true)]));
$sold = ask($store, "INCR", "wanted:$article");
ask($store, "ZADD", "reserved", time() + 900, "$buyer:$article");
printf("<p>Article %d is in your cart. %d buyers want it.</p>", $article, $sold);
"""


def durable_carts(place):
    pool, front, folder = place.port(), place.port(), place.folder
    store = redis(place, "--appendonly", "yes", "--appendfsync", "everysec" if place.fixed else "always")
    place.write("cart.php", CART.replace("PORT", str(store)))
    config = place.write("fpm.conf", f"""
[global]
daemonize = no
error_log = {folder}/fpm.log
[market]
user = root
group = root
listen = 127.0.0.1:{pool}
pm = static
pm.max_children = 4
""")
    place.start(PHP_FPM, "-n", "-R", "-F", "-y", config, port=pool)
    web = place.write("lighttpd.conf", f"""
server.modules = ("mod_fastcgi")
server.bind = "127.0.0.1"
server.port = {front}
server.document-root = "{folder}"
server.max-keep-alive-requests = 10000000
fastcgi.server = (".php" => (("host" => "127.0.0.1", "port" => {pool})))
""")
    place.start("lighttpd", "-D", "-f", web, port=front)
    return ["ab", "-q", "-k", "-l", "-c", "4", "-t", str(place.seconds), "-n", "50000", f"http://127.0.0.1:{front}/cart.php"]


# Control: the answer of the carrier takes 10 ms, but all requests wait for theirs at once.
DELIVERY = """
import os, statistics
import aiohttp
from aiohttp import web

async def quote(request):
    kilos = int(request.query["kilos"])
    async with request.app["carrier"].get(f"http://127.0.0.1:{os.environ['CARRIER_PORT']}/days?kilos={kilos}") as answer:
        days = await answer.json()
    costs = [statistics.fmean((kilos + day) * zone % 17 for zone in range(60)) for day in days]
    return web.json_response({"days": days, "cost": round(min(costs), 2)})

async def carrier(app):
    app["carrier"] = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=100))
    yield
    await app["carrier"].close()

app = web.Application()
app.router.add_get("/quote", quote)
app.cleanup_ctx.append(carrier)
"""
CARRIER = """
const http = require("http");
http.createServer((request, response) => {
  const kilos = Number(request.url.split("=")[1]);
  setTimeout(() => {
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify([1 + kilos % 3, 3 + kilos % 5, 9]));
  }, 10);
}).listen(Number(process.argv[2]), "127.0.0.1");
"""


def quotes(place):
    carrier, deliveries, folder = place.port(), [place.port(), place.port()], place.folder
    place.start("node", place.write("carrier.js", CARRIER), carrier, port=carrier)
    place.write("delivery.py", DELIVERY)
    for port in deliveries:
        place.start("env", f"CARRIER_PORT={carrier}", "/usr/bin/gunicorn", "-w", "1", "-k", "aiohttp.GunicornWebWorker",
                    "-b", f"127.0.0.1:{port}", "--chdir", folder, "delivery:app", port=port)
    servers = " ".join(f"server 127.0.0.1:{port};" for port in deliveries)
    front = nginx(place, 'location / { proxy_pass http://delivery; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream delivery {{ {servers} keepalive 64; }}")
    return wrk(f"http://127.0.0.1:{front}/quote?kilos=7", 48, place.seconds)


# Control: a quiet evening. The page gets all its articles from memcached with one command.
SHELF = """<?php
$cache = pfsockopen("127.0.0.1", PORT);
$keys = array_map(fn($i) => "article" . ($i * 7 + (int) $_GET["shelf"]) % 200, range(0, 19));
fwrite($cache, "get " . implode(" ", $keys) . "\\r\\n");
$found = [];
while (!str_starts_with($line = fgets($cache), "END")) {
    [, $key, , $length] = explode(" ", $line);
    $found[$key] = json_decode(fread($cache, (int) $length + 2), true);
}
foreach (array_diff($keys, array_keys($found)) as $key) {
    $article = ["name" => "jam of " . substr(md5($key), 0, 6), "price" => crc32($key) % 900 / 10];
    $text = json_encode($article);
    fwrite($cache, "set $key 0 600 " . strlen($text) . "\\r\\n$text\\r\\n");
    fgets($cache);
    $found[$key] = $article;
}
usort($found, fn($a, $b) => $a["price"] <=> $b["price"]);
foreach ($found as $article) {
    printf("<p>%s: %.2f</p>\\n", htmlspecialchars($article["name"]), $article["price"]);
}
"""
SHOPPERS = """
package main

import ("fmt"; "io"; "net/http"; "os"; "strconv"; "sync"; "time")

// 80 shoppers a second look at a shelf, whether or not the page of the last one is there.
func main() {
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 32
	var all sync.WaitGroup
	begin, count := time.Now(), 0
	for ticks := time.Tick(12500 * time.Microsecond); time.Since(begin).Seconds() < seconds; count++ {
		<-ticks
		all.Add(1)
		go func(shelf int) {
			defer all.Done()
			answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%s/shelf.php?shelf=%d", os.Args[1], shelf))
			if err != nil || answer.StatusCode != 200 {
				fmt.Println("no page", err)
				os.Exit(1)
			}
			io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}(count % 30)
	}
	all.Wait()
	fmt.Printf("items %d seconds %.3f\\n", count, time.Since(begin).Seconds())
}
"""


def evening(place):
    cache, pool, front, folder = place.port(), place.port(), place.port(), place.folder
    place.start("memcached", "-u", "root", "-l", "127.0.0.1", "-p", cache, "-m", "32", "-t", "2", port=cache)
    place.write("shelf.php", SHELF.replace("PORT", str(cache)))
    config = place.write("fpm.conf", f"""
[global]
daemonize = no
error_log = {folder}/fpm.log
[market]
user = root
group = root
listen = 127.0.0.1:{pool}
pm = static
pm.max_children = 6
""")
    place.start(PHP_FPM, "-n", "-R", "-F", "-y", config, port=pool)
    config = place.write("haproxy.cfg", f"""{BALANCER}
fcgi-app market
    docroot {folder}
    option keep-conn
frontend market
    bind 127.0.0.1:{front}
    default_backend php
backend php
    use-fcgi-app market
    server pool 127.0.0.1:{pool} proto fcgi
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return [str(place.go("shoppers", SHOPPERS)), str(front), str(place.seconds)]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|own code|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="market_limit_of_all_buyers",
        kind="rate-limit-by-proxy-address",
        truth="nginx delays the requests by a timer (limit_req), because its limit for one buyer "
              "counts the address of haproxy, which all buyers share",
        load=buyer_limit,
        rate=WRK,
        component=(r"nginx", r"limit_req"),
        mechanism=(*SLEEPS, r"\blimit", r"delay", r"\bpaced\b", r"timeout", r"epoll_wait", r"holds? .*back"),
        never=(*DISK, r"(node|offers\S*|haproxy|wrk) (\([^)]*\) )?(sleeps|computes)"),
        change="x0",
        halves=True,
        needs=("haproxy", "nginx", "node", "wrk"),
    ),
    System(
        name="market_open_tabs",
        kind="workers-held-by-keepalive",
        truth="all five processes of apache2 (prefork) wait up to the 500 ms of KeepAliveTimeout "
              "for another request on the idle connections of visitors who have their page, while "
              "new visitors wait for a process",
        load=open_tabs,
        rate=ITEMS,
        component=(r"apache", r"[Kk]eep-?[Aa]live"),
        mechanism=(*SLEEPS, r"\bidle\b", r"keep-?alive", r"time-?out", r"\bpoll\b", r"next request", r"another request",
                   r"waits? for (a |the )?(request|input|data|client|peer|visitors)", r"all (\w+ )?(workers|processes)",
                   r"\b(held|holds)\b"),
        never=(*DISK, r"apache2? (\([^)]*\) )?computes", r"gunicorn (\([^)]*\) )?(sleeps|computes)"),
        halves=True,
        needs=("apache2", "/usr/bin/gunicorn", PYTHON),
    ),
    System(
        name="market_same_article",
        kind="cache-serializes-uncacheable",
        truth="varnishd fetches the same object one request at a time, although it may not cache "
              "it (no hit-for-miss), so that each request waits for the 12 ms of depot of all "
              "before it",
        load=same_article,
        rate=AB,
        component=(r"varnish", r"cache-(worker|main)",
                   r"(uvicorn|stock|depot)[^;]*(one (\w+ )?(request |call |piece )?at a time|serial|one another)"),
        mechanism=(*LOCKS, r"one (\w+ )?(request )?at a time", r"serial", r"one another", r"in turn",
                   r"one after (the other|another)", r"coalesc", r"wait(ing)? ?list", r"\bholds?\b", r"queue"),
        never=(*DISK, r"(varnish\w*|uvicorn|depot) (\([^)]*\) )?computes"),
        halves=True,
        needs=("varnishd", "/usr/bin/uvicorn", "go", "ab", PYTHON),
    ),
    System(
        name="market_forbidden_shops",
        kind="regex-list-per-request",
        truth="judge, the helper of squid in perl, computes: it compiles 2000 regular expressions "
              "for each request and compares the host with them, in place of a look-up in a hash",
        load=blocklist,
        rate=AB,
        component=(r"judge", r"\bperl\b"),
        mechanism=(*RUNS, r"reg-?ex", r"regular expression", r"pattern", r"match", r"compil"),
        never=(*DISK, r"(squid|judge|perl) (\([^)]*\) )?sleeps"),
        code=(r"regexec", r"re_intuit", r"regmatch", r"pp_match", r"re_op_compile", r"Perl_"),
        halves=True,
        needs=("squid", "lighttpd", "perl", "ab"),
    ),
    System(
        name="market_durable_carts",
        kind="append-file-synced-per-command",
        truth="redis-server waits for the disk in fdatasync after each command (appendfsync "
              "always), and each page of php-fpm waits for four of them",
        load=durable_carts,
        rate=AB,
        component=(r"redis",),
        mechanism=(r"\bdisk", r"f(data)?sync", r"\bsync", r"writeback", r"journal", r"jbd2", r"append-?only", r"\bAOF\b", r"\bI/O\b"),
        never=(r"redis(-server)? (\([^)]*\) )?(sleeps|computes)",),
        running=True,
        needs=("redis-server", f"/usr/sbin/{PHP_FPM}", "lighttpd", "ab"),
    ),
    System(
        name="control_market_quotes",
        kind="control",
        truth="two instances of gunicorn compute while up to 48 requests wait for the carrier (node) at "
              "once, and both CPUs are full",
        load=quotes,
        rate=WRK,
        acceptable=(*NOTHING, rf"gunicorn.*{COMPUTES}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs"),
        needs=("nginx", "/usr/bin/gunicorn", "node", "wrk", PYTHON),
    ),
    System(
        name="control_market_evening",
        kind="control",
        truth="shoppers asks for 80 pages a second by intention; haproxy, php-fpm and memcached "
              "answer each long before the next, and all are idle most of the time",
        load=evening,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by (its |the )?(own )?(clock|shoppers)", r"shoppers.*(sleep|timer|until a time|paced|clock)",
                    r"\bidle\b", r"load generator"),
        running=True,
        needs=("haproxy", f"/usr/sbin/{PHP_FPM}", "memcached", "go"),
    ),
]
