"""The services of a hotel: five frequent faults of web applications, their stores and their name
service, and two healthy parts of the same hotel.
"""
import pwd

from services import PHP_FPM, nginx, postgres, redis
from system import ITEMS, LOCKS, PYTHON, WRK, System, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# The page of a guest counts the clicks in the session, and asks a partner for today's rate. PHP
# locks the file of the session from session_start to session_write_close or the end of the page.
LOBBY = """<?php
session_start();
$_SESSION["clicks"] = ($_SESSION["clicks"] ?? 0) + 1;
$clicks = $_SESSION["clicks"];
if (RELEASE) {
    session_write_close();
}
$rate = json_decode(file_get_contents("http://127.0.0.1:PORT/rate?room=" . $clicks % 90), true);
printf("<p>Room %d costs %d today, after %d clicks</p>", $rate["room"], $rate["euro"], $clicks);
"""
PARTNER = """
import asyncio, sys
from aiohttp import web

async def rate(request):
    room = int(request.query["room"])
    await asyncio.sleep(PAUSE)
    return web.json_response({"room": room, "euro": 80 + room})

PAUSE = float(sys.argv[2])
app = web.Application()
app.router.add_get("/rate", rate)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)
"""


def session(place):
    partner, pool, front, folder = place.port(), place.port(), place.port(), place.folder
    place.start(PYTHON, place.write("partner.py", PARTNER), partner, 0.012 * place.scale, port=partner)
    page = LOBBY.replace("PORT", str(partner)).replace("RELEASE", "true" if place.fixed else "false")
    place.write("lobby.php", page)
    (folder / "sessions").mkdir()
    config = place.write("fpm.conf", f"""
[global]
daemonize = no
error_log = {folder}/fpm.log
[lobby]
user = root
group = root
listen = 127.0.0.1:{pool}
pm = static
pm.max_children = 8
php_admin_value[session.save_path] = {folder}/sessions
php_admin_value[session.gc_probability] = 0
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
    load = wrk(f"http://127.0.0.1:{front}/lobby.php", 6, place.seconds)
    return [*load[:1], "-H", "Cookie: PHPSESSID=guest4711", *load[1:]]


# Codes the key card of one room after the other. The service behind apache wants TLS.
NIGHTAUDIT = """#!/usr/bin/ruby
require "net/http"
require "openssl"
require "digest"
port, trusted, count, keep = ARGV[0].to_i, ARGV[1], ARGV[2].to_i, ARGV[3] == "keep"

store = OpenSSL::X509::Store.new
store.add_file(trusted)
connect = lambda do
  http = Net::HTTP.new("127.0.0.1", port)
  http.use_ssl = true
  http.cert_store = store
  http.start
end

http = nil
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
count.times do |room|
  http ||= connect.call
  card = http.get("/card?room=#{room}")
  raise card.body unless card.code == "200"
  300.times { Digest::SHA256.hexdigest(card.body) }
  next if keep
  http.finish
  http = nil
end
puts "items #{count} seconds #{(Process.clock_gettime(Process::CLOCK_MONOTONIC) - start).round(3)}"
"""
KEYCARDS = """
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;

public class Main {
    public static void main(String[] words) throws Exception {
        InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0]));
        HttpServer server = HttpServer.create(address, 100);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/card", exchange -> {
            String room = exchange.getRequestURI().getQuery();
            byte[] card = ("code " + Integer.toHexString(room.hashCode() * 31)).getBytes();
            exchange.sendResponseHeaders(200, card.length);
            exchange.getResponseBody().write(card);
            exchange.close();
        });
        server.start();
    }
}
"""


def handshakes(place):
    cards, front, folder = place.port(), place.port(), place.folder
    place.start("java", "-Dsun.net.httpserver.nodelay=true", "-Xmx128m", "-cp", place.java(KEYCARDS), "Main", cards, port=cards)
    # One file has the key and the certificate of apache.
    key = place.built("hotel", ".txt", "openssl", "req", "-x509", "-newkey", "rsa:4096", "-nodes", "-days", "3650", "-subj", "/CN=keycards",
                      "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "{program}", "-out", "{program}")
    parts = ("mpm_event", "authz_core", "proxy", "proxy_http", "socache_shmcb", "ssl")
    modules = "\n".join(f"LoadModule {part}_module /usr/lib/apache2/modules/mod_{part}.so" for part in parts)
    config = place.write("apache.conf", f"""
{modules}
ServerRoot {folder}
ServerName hotel
PidFile {folder}/apache.pid
ErrorLog {folder}/apache.error
User www-data
Group www-data
Mutex posixsem
Listen 127.0.0.1:{front}
MaxKeepAliveRequests 0
KeepAliveTimeout 60
ServerLimit 1
ThreadsPerChild 8
MaxRequestWorkers 8
SSLEngine on
SSLCertificateFile {key}
SSLCertificateKeyFile {key}
ProxyPass / http://127.0.0.1:{cards}/
""")
    place.start("apache2", "-D", "FOREGROUND", "-f", config, port=front)
    mode = "keep" if place.fixed else "anew"
    return [str(place.write("nightaudit", NIGHTAUDIT)), str(front), str(key), "450", mode]


# The page of a floor asks the service of that floor, which it finds by its name.
RECEPTION = """
import random, urllib.request
from flask import Flask

app = Flask(__name__)

@app.get("/free")
def free():
    host = f"floor{random.randrange(30)}.hotel.internal"
    with urllib.request.urlopen(f"http://{host}:PORT/rooms") as answer:
        return answer.read()
"""
FLOORS = """
package main

import ("fmt"; "net/http"; "os")

func main() {
	http.HandleFunc("/rooms", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "free rooms at %s: 1, 4, 12\\n", r.Host)
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""
# The directory of services: it answers DNS queries from its register, a file in JSON.
CONCIERGE = """#!/usr/bin/perl
use strict;
use warnings;
use IO::Socket::INET;
use JSON::PP;

my ($port, $ttl) = @ARGV;
my $socket = IO::Socket::INET->new(Proto => "udp", LocalAddr => "127.0.0.1", LocalPort => $port)
    or die "no socket: $!";

sub register {
    open my $file, "<", "register.json" or die "no register: $!";
    local $/;
    return decode_json(<$file>);
}

# Returns the address of the first healthy instance of a service.
sub address {
    my ($name) = @_;
    for my $entry (@{ register() }) {
        return $entry->{address} if $entry->{healthy} && $entry->{name} eq $name;
    }
    return "";
}

open my $ready, ">", "concierge-ready";
close $ready;
while (my $peer = $socket->recv(my $query, 1500)) {
    my ($id) = unpack "n", $query;
    my ($at, @labels) = (12);
    while (my $length = ord substr $query, $at, 1) {
        push @labels, substr $query, $at + 1, $length;
        $at += $length + 1;
    }
    my $question = substr $query, 12, $at + 5 - 12;
    my $type = unpack "n", substr $question, -4;
    my $address = address(lc join ".", @labels);
    if ($type == 1 && $address) {
        $socket->send(pack("n6", $id, 0x8580, 1, 1, 0, 0) . $question
            . pack("n3Nna4", 0xc00c, 1, 1, $ttl, 4, inet_aton($address)), 0, $peer);
    } else {
        # There is no such record; the SOA record says for how long that is valid.
        $socket->send(pack("n6", $id, 0x8580, 1, 0, 1, 0) . $question
            . pack("n3NnCCN5", 0xc00c, 6, 1, $ttl, 22, 0, 0, 1, 600, 600, 600, $ttl), 0, $peer);
    }
}
"""


def names(place):
    floors, directory, port, front, folder = place.port(), place.port(), place.port(), place.port(), place.folder
    place.start(place.go("floors", FLOORS), floors, port=floors)
    entries = [f'{{"name": "floor{i}.hotel.internal", "address": "127.0.0.1", "healthy": true, "tags": ["rooms", "v{i % 7}"]}}'
               for i in range(round(60 * place.scale))]
    place.write("register.json", "[" + ",\n".join(entries) + "]")
    place.start(place.write("concierge", CONCIERGE), directory, 60 if place.fixed else 0, path=folder / "concierge-ready")
    # A name server has port 53, so the port of the directory only makes its address unique.
    server = f"127.{directory >> 8}.{directory & 255}.53"
    place.start("dnsmasq", "-k", "-C", "/dev/null", "--no-resolv", "--no-hosts", "--user=root", f"--pid-file={folder}/dnsmasq.pid",
                f"--server=127.0.0.1#{directory}", f"--listen-address={server}", "--bind-interfaces", path=folder / "dnsmasq.pid")
    # Only gunicorn sees this configuration of the resolver.
    resolver = place.write("resolv.conf", f"nameserver {server}\n", mode=0o644)
    place.write("reception.py", RECEPTION.replace("PORT", str(floors)))
    place.start("unshare", "-m", "sh", "-c", f'mount --bind {resolver} /etc/resolv.conf && exec "$@"', "sh",
                "/usr/bin/gunicorn", "-w", "4", "-b", f"127.0.0.1:{port}", "--chdir", folder, "reception:app", port=port)
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend hotel
    bind 127.0.0.1:{front}
    default_backend reception
backend reception
    server reception 127.0.0.1:{port}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return wrk(f"http://127.0.0.1:{front}/free", 4, place.seconds)


# Puts the reservations that were not paid into a queue, and waits until all are deleted.
FRONTDESK = """#!/usr/bin/perl
use strict;
use warnings;
use IO::Socket::INET;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my ($port, $count) = @ARGV;
my $queue = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $port) or die "no queue: $!";

sub ask {
    print $queue "$_[0]\\r\\n";
    return scalar <$queue>;
}

my $start = clock_gettime(CLOCK_MONOTONIC);
ask("use unpaid");
for my $reservation (1 .. $count) {
    ask("put 100 0 60 " . length($reservation) . "\\r\\n$reservation");
}
ask("watch deleted");
for (1 .. $count) {
    my ($id) = ask("reserve") =~ /^RESERVED (\\d+)/ or die "no answer";
    <$queue>;
    ask("delete $id");
}
printf "items %d seconds %.3f\\n", $count, clock_gettime(CLOCK_MONOTONIC) - $start;
"""
CANCELLER = """#!/usr/bin/python3
import socket, sys
import psycopg2

base = psycopg2.connect(host="127.0.0.1", port=sys.argv[2], user="postgres", dbname="hotel")
base.autocommit = True
cursor = base.cursor()
queue = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
queue.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
answers = queue.makefile("rb")

def ask(text):
    queue.sendall(text.encode() + b"\\r\\n")
    return answers.readline().split()

ask("watch unpaid")
ask("use deleted")
open(f"canceller-{sys.argv[3]}", "w").close()
while True:
    job = ask("reserve")[1].decode()
    reservation = answers.readline().strip().decode()
    cursor.execute("select room, night from reservations where id = %s", (reservation,))
    room, night = cursor.fetchone()
    cursor.execute("update nights set free = free + 1 where room = %s and night = %s", (room, night))
    cursor.execute("delete from reservations where id = %s", (reservation,))
    ask(f"put 100 0 60 {len(reservation)}\\r\\n{reservation}")
    ask(f"delete {job}")
"""


def foreign_key(place):
    index = "create index on extras (reservation);" if place.fixed else ""
    base = postgres(place, f"""
        create table reservations (id int primary key, room int, night int);
        create table extras (id int primary key, reservation int references reservations, what text);
        create table nights (room int, night int, free int, primary key (room, night));
        insert into reservations select i, i % 90, i / 90 from generate_series(1, 20000) i;
        insert into extras select i, 10000 + i % 10000, 'breakfast in the room' from generate_series(1, {round(60000 * place.scale)}) i;
        insert into nights select room, night, 0 from generate_series(0, 89) room, generate_series(0, 230) night;
        {index} analyze; checkpoint""", fsync="off", synchronous_commit="off")
    port, queue = place.port(), place.port()
    config = place.write("pgbouncer.ini", f"""
[databases]
hotel = host=127.0.0.1 port={base} dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
""")
    user = pwd.getpwnam("postgres")
    place.start("pgbouncer", config, port=port, user=user.pw_uid, group=user.pw_gid)
    place.start("beanstalkd", "-l", "127.0.0.1", "-p", queue, port=queue)
    canceller = place.write("canceller", CANCELLER)
    for number in range(2):
        place.start(canceller, queue, port, number, path=place.folder / f"canceller-{number}")
    return [str(place.write("frontdesk", FRONTDESK)), str(queue), "1400"]


# The gateway of the hotel asks for the price of one room.
GATEWAY = """
package main

import ("fmt"; "io"; "net/http"; "os"; "sync/atomic")

func main() {
	var guests atomic.Int64
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 32
	http.HandleFunc("/price", func(w http.ResponseWriter, r *http.Request) {
		room := guests.Add(1) % 300
		answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%s/room/%d", os.Args[2], room))
		if err != nil {
			http.Error(w, err.Error(), 502)
			return
		}
		defer answer.Body.Close()
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(answer.StatusCode)
		io.Copy(w, answer.Body)
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""
# The price list is either one JSON text of all rooms, or a hash with one field for each room.
PRICES = """
const http = require("http"), net = require("net");
const [port, store, rooms] = process.argv.slice(2, 5).map(Number), whole = process.argv[5] === "whole";
const redis = net.connect(store, "127.0.0.1");
redis.setNoDelay(true);
const waiting = [];
let parts = [], held = 0, wanted = -1;

// Collects the pieces of a reply; its first line has its length.
redis.on("data", piece => {
  parts.push(piece);
  held += piece.length;
  while (held) {
    if (wanted < 0) {
      const all = Buffer.concat(parts), end = all.indexOf("\\r\\n");
      parts = [all];
      if (end < 0) return;
      wanted = all[0] === 36 ? end + 4 + Number(all.toString("latin1", 1, end)) : end + 2;
    }
    if (held < wanted) return;
    const all = Buffer.concat(parts), reply = all.subarray(0, wanted);
    parts = [all.subarray(wanted)];
    held -= wanted;
    wanted = -1;
    waiting.shift()(reply.toString("utf8", reply.indexOf("\\n") + 1, reply.length - 2));
  }
});

function ask(...words) {
  const text = words.map(word => `$${Buffer.byteLength(word)}\\r\\n${word}\\r\\n`).join("");
  redis.write(`*${words.length}\\r\\n${text}`);
  return new Promise(resolve => waiting.push(resolve));
}

async function fill() {
  const list = {};
  for (let i = 0; i < rooms; i++) {
    list["room" + i] = { room: i, bed: i % 3 ? "double" : "single", price: 70 + i % 60,
      seasons: Array.from({ length: 12 }, (_, month) => ({ month, factor: 1 + (month + i) % 7 / 10 })) };
    await ask("HSET", "rooms", "room" + i, JSON.stringify(list["room" + i]));
  }
  await ask("SET", "pricelist", JSON.stringify(list));
}

async function room(number) {
  const key = "room" + number;
  if (whole) return JSON.parse(await ask("GET", "pricelist"))[key];
  return JSON.parse(await ask("HGET", "rooms", key));
}

fill().then(() => http.createServer(async (request, response) => {
  const found = await room(request.url.slice(6));
  response.end(JSON.stringify({ room: found.room, price: found.price * found.seasons[6].factor }));
}).listen(port, "127.0.0.1"));
"""


def price_list(place):
    store, prices, gateway, cache, folder = redis(place), place.port(), place.port(), place.port(), place.folder
    mode = "room" if place.fixed else "whole"
    place.start("node", place.write("prices.js", PRICES), prices, store, round(600 * place.scale), mode, port=prices)
    place.start(place.go("gateway", GATEWAY), gateway, prices, port=gateway)
    rules = place.write("hotel.vcl", f'vcl 4.1; backend gateway {{ .host = "127.0.0.1"; .port = "{gateway}"; }}', mode=0o644)
    place.start("varnishd", "-F", "-j", "none", "-n", folder / "varnish", "-a", f"127.0.0.1:{cache}", "-f", rules,
                "-s", "malloc,32m", "-T", "none", port=cache)
    front = nginx(place, 'location / { proxy_pass http://cache; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream cache {{ server 127.0.0.1:{cache}; keepalive 32; }}")
    return wrk(f"http://127.0.0.1:{front}/price", 6, place.seconds)


# Control: a guest is woken each 70 ms by intention, and the call is over long before the next.
WAKEUPCALLS = """#!/usr/bin/php -n
<?php
[, $port, $seconds] = $argv;
$server = stream_socket_client("tcp://127.0.0.1:$port");
fwrite($server, "CONNECT {\\"verbose\\":false}\\r\\nSUB answers 1\\r\\n");
$start = microtime(true);
for ($calls = 0; microtime(true) < $start + $seconds; $calls++) {
    $text = "wake room " . $calls % 90;
    fwrite($server, "PUB wakeup answers " . strlen($text) . "\\r\\n$text\\r\\n");
    while (!str_starts_with($line = fgets($server), "MSG")) {
        if (str_starts_with($line, "PING")) {
            fwrite($server, "PONG\\r\\n");
        }
    }
    fgets($server);
    @time_sleep_until($start + ($calls + 1) * 0.07);
}
printf("items %d seconds %.3f\\n", $calls, microtime(true) - $start);
"""
SWITCHBOARD = """#!/usr/bin/ruby
require "socket"
server, log = TCPSocket.new("127.0.0.1", ARGV[0].to_i), File.open("calls.log", "w")
log.sync = true
server.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
server.write("CONNECT {\\"verbose\\":false}\\r\\nSUB wakeup 1\\r\\nPING\\r\\n")
while (line = server.gets)
  case line
  when /^PING/ then server.write("PONG\\r\\n")
  when /^PONG/ then File.write("switchboard-ready", "")
  when /^MSG \\S+ \\S+ (\\S+) \\d+/
    log.puts(server.gets)
    server.write("PUB #{$1} 4\\r\\ndone\\r\\n")
  end
end
"""


def wakeup(place):
    port = place.port()
    place.start("nats-server", "-a", "127.0.0.1", "-p", port, port=port)
    place.start(place.write("switchboard", SWITCHBOARD), port, path=place.folder / "switchboard-ready")
    return [str(place.write("wakeupcalls", WAKEUPCALLS)), str(port), str(place.seconds)]


# Control: accounting always keeps twelve invoices in a list of redis, and three processes of C++
# write them.
ACCOUNTING = """#!/usr/bin/python3
import sys, time
import redis

store, seconds = redis.Redis(port=int(sys.argv[1])), float(sys.argv[2])
store.lpush("invoices", *range(12))
begin, count = time.monotonic(), 0
while time.monotonic() < begin + seconds:
    store.brpop("written")
    count += 1
    store.lpush("invoices", count + 11)
print(f"items {count} seconds {time.monotonic() - begin:.3f}")
"""
INVOICES = r"""
#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

// Writes the lines of an invoice, and returns a checksum of its text.
static unsigned write_invoice(int number) {
    std::string text;
    double total = 0;
    for (int line = 0; line < 12000; line++) {
        char words[100];
        double price = (number * 31 + line * 17) % 9000 / 100.0;
        total += price * 1.07;
        snprintf(words, sizeof words, "%5d  night or service %-8d %10.2f %12.2f\n", line, number, price, total);
        text += words;
    }
    unsigned sum = 1;
    for (unsigned char letter : text)
        sum = sum * 31 + letter;
    return sum;
}

int main(int, char **words) {
    int link = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(atoi(words[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(link, (sockaddr *)&address, sizeof address))
        return 1;
    FILE *replies = fdopen(link, "r");
    char line[200];
    const char *take = "BRPOP invoices 0\r\n";
    while (write(link, take, strlen(take)) > 0) {
        // Five lines: two words, each after its length.
        for (int i = 0; i < 5; i++)
            if (!fgets(line, sizeof line, replies))
                return 0;
        char give[100];
        int length = snprintf(give, sizeof give, "LPUSH written %u\r\n", write_invoice(atoi(line)));
        if (write(link, give, length) < 0 || !fgets(line, sizeof line, replies))
            return 0;
    }
}
"""


def invoices(place):
    store = redis(place)
    program = place.named(place.built(INVOICES, ".cc", "g++", "-O2", "-o", "{program}", "{source}"), "invoices")
    for _ in range(3):
        place.start(program, store)
    return [str(place.write("accounting", ACCOUNTING)), str(store), str(place.seconds)]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="hotel_session_of_the_lobby",
        kind="session-lock",
        truth="the workers of php-fpm wait for one another's lock of the session's file, which "
              "each keeps while it waits 12 ms for the reply of partner.py, so that the clicks of "
              "one guest are served one at a time",
        load=session,
        rate=WRK,
        component=(r"php", r"\blobby", r"sess_guest"),
        mechanism=(*LOCKS, r"session", r"for one another", r"\bholds?\b", r"\bheld\b",
                   r"one (\w+ )?(request|worker|process)"),
        never=DISK,
        needs=("lighttpd", f"/usr/sbin/{PHP_FPM}", "wrk", PYTHON),
    ),
    System(
        name="hotel_handshake_for_each_room",
        kind="tls-handshake-per-call",
        truth="apache2 computes a signature with its RSA key of 4096 bits for each room, because "
              "nightaudit, in ruby, opens a new TLS connection for each call and waits for it",
        load=handshakes,
        rate=ITEMS,
        component=(r"apache", r"(ruby|nightaudit)[^;]*(handshake|TLS|SSL|(new|opens) [^;]*connection|connects)"),
        mechanism=(*RUNS, r"handshake", r"\bTLS\b", r"\bSSL", r"\bRSA\b", r"signature", r"crypto",
                   r"\bbn_", r"connection for each", r"new connection", r"connects"),
        never=(*DISK, r"apache2? (\([^)]*\) )?sleeps"),
        needs=("apache2", "openssl", "ruby", "java", "javac"),
    ),
    System(
        name="hotel_names_without_ttl",
        kind="dns-ttl-zero",
        truth="concierge, in perl, computes: it parses its register in JSON for each query of "
              "dnsmasq, which may not cache the names of TTL 0 that gunicorn looks up for each "
              "request",
        load=names,
        rate=WRK,
        component=(r"concierge", r"\bperl\b", r"dnsmasq[^;]*(TTL|cach|forward)"),
        mechanism=(*RUNS, r"pars(es|ing)", r"json", r"\bTTL\b", r"\bDNS\b", r"cach", r"look(s|ed)? up",
                   r"resol(v|ution)", r"one (\w+ )?at a time", r"requests? to", r"quer(y|ies)"),
        never=(*DISK, r"(concierge|perl) (\([^)]*\) )?sleeps"),
        change="x0",
        halves=True,
        needs=("dnsmasq", "perl", "haproxy", "/usr/bin/gunicorn", "go", "unshare", "wrk"),
    ),
    System(
        name="hotel_unpaid_reservations",
        kind="foreign-key-without-index",
        truth="postgres computes: it scans the whole table of extras for each reservation that "
              "canceller deletes, because the foreign key of that table has no index",
        load=foreign_key,
        rate=ITEMS,
        component=(r"postgres",),
        mechanism=(*RUNS, r"\bscan", r"\bindex\b", r"foreign key", r"delet", r"trigger",
                   r"heap_?get", r"requests? to", r"quer(y|ies)"),
        never=(*DISK, r"postgres (\([^)]*\) )?sleeps"),
        halves=True,
        needs=("psql", "pgbouncer", "beanstalkd", "perl", PYTHON),
    ),
    System(
        name="hotel_whole_price_list",
        kind="large-json-per-request",
        truth="node (prices.js) computes, because it gets the whole price list from redis and "
              "parses its JSON for each request, which needs the price of one room",
        load=price_list,
        rate=WRK,
        component=(r"\bnode\b", r"prices"),
        mechanism=(*RUNS, r"json", r"pars(es|ing)", r"price ?list", r"whole", r"one (\w+ )?at a time"),
        never=(*DISK, r"(node|prices\S*) (\([^)]*\) )?sleeps"),
        halves=True,
        running=True,
        needs=("node", "redis-server", "varnishd", "nginx", "go", "wrk"),
    ),
    System(
        name="control_hotel_wakeup",
        kind="control",
        truth="wakeupcalls, in php, publishes a call each 70 ms by intention; nats-server and "
              "switchboard, in ruby, are done long before the next one, and all are idle most of "
              "the time",
        load=wakeup,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by (wakeup|php)", r"(wakeup|php).*(sleep|timer|until a time)", r"\bidle\b"),
        needs=("php", "nats-server", "ruby"),
    ),
    System(
        name="control_hotel_invoices",
        kind="control",
        truth="three processes of invoices, in C++, compute in parallel what accounting puts into "
              "a list of redis, and both CPUs are full",
        load=invoices,
        rate=ITEMS,
        acceptable=(*NOTHING, rf"invoices.*{COMPUTES}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs"),
        needs=("redis-server", "g++", PYTHON),
    ),
]
