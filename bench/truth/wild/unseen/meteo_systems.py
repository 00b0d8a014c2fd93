"""A weather service: five faults at its stations, radar, forecasts and archives, and two healthy
parts of the same service.
"""
import json
import os
import random
from pathlib import Path

from services import PHP_FPM, nginx, php, private_network, redis
from system import COMPUTES, ITEMS, LOCKS, PYTHON, SLEEPS, WRK, System, wrk

DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# Four lines with a modem each call the stations of their region; a semaphore keeps others off a
# modem while it connects.
DIALOUT = """#!/usr/bin/php
<?php
[, $line, $settle, $mode] = $argv;
$modems = sem_get(ftok(__FILE__, $mode === "own" ? chr(97 + $line) : "m"), 1, 0600);
if ($settle === "drop") {
    sem_remove($modems);
    exit;
}
$archive = fopen("line-$line.csv", "a");
for ($station = 0; $station < 50; $station++) {
    sem_acquire($modems);
    usleep($settle);
    $telegram = sprintf("%05d %s", 10000 * $line + $station, bin2hex(random_bytes(48)));
    sem_release($modems);
    [$number, $digits] = explode(" ", $telegram);
    $values = array_map(fn($value) => $value / 655.36 - 40, unpack("n*", hex2bin($digits)));
    fwrite($archive, $number . ";" . implode(";", array_map(fn($value) => sprintf("%.1f", $value), $values)) . "\\n");
}
"""
ROUND = """#!/bin/bash
for line in 0 1 2 3; do
    ./dialout $line $1 $2 &
done
wait
[ "$(cat line-*.csv | wc -l)" = 200 ]
"""


def stations(place):
    dialout, mode = place.write("dialout", DIALOUT), "own" if place.fixed else "all"
    for line in range(4 if place.fixed else 1):
        place.stack.callback(place.run, dialout, line, "drop", mode)
    return [str(place.write("dialround", ROUND)), str(round(20000 * place.scale)), mode]


# The pages of all stations come from redis. A warner asks the same redis for the strokes of
# lightning that are next to each town.
LATEST = """
package main

import ("bufio"; "fmt"; "io"; "net"; "net/http"; "os"; "strconv"; "strings")

type link struct {
	net.Conn
	answers *bufio.Reader
}

func (store *link) line() string {
	text, err := store.answers.ReadString('\\n')
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(text)
}

func (store *link) station(number string) []string {
	fmt.Fprintf(store, "HGETALL station:%s\\r\\n", number)
	count, _ := strconv.Atoi(store.line()[1:])
	values := make([]string, count)
	for i := range values {
		size, _ := strconv.Atoi(store.line()[1:])
		data := make([]byte, size + 2)
		io.ReadFull(store.answers, data)
		values[i] = string(data[:size])
	}
	return values
}

func main() {
	links := make(chan *link, 8)
	for i := 0; i < 8; i++ {
		open, err := net.Dial("tcp", "127.0.0.1:" + os.Args[2])
		if err != nil {
			panic(err)
		}
		links <- &link{open, bufio.NewReader(open)}
	}
	http.HandleFunc("/station/", func(w http.ResponseWriter, r *http.Request) {
		store := <-links
		values := store.station(r.URL.Path[9:])
		links <- store
		fmt.Fprintf(w, "<h1>Station %s</h1>", r.URL.Path[9:])
		for i := 0; i + 1 < len(values); i += 2 {
			fmt.Fprintf(w, "<p>%s: %s</p>", values[i], values[i + 1])
		}
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""
WARNER = """#!/usr/bin/perl
use strict;
use IO::Socket::INET;
my ($port, $radius) = @ARGV;
my $store = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $port) or die;
$store->autoflush(1);
for (my $town = 0; ; $town++) {
    my ($east, $north) = (6 + $town * 7 % 90 / 10, 47 + $town * 11 % 70 / 10);
    print $store "GEOSEARCH strokes FROMLONLAT $east $north BYRADIUS $radius km ASC COUNT 3 WITHDIST\\r\\n";
    my ($rows) = <$store> =~ /^\\*(\\d+)/ or die;
    # A row has a name and a distance, with a line for the length of each.
    <$store> for 1 .. 5 * $rows;
    open my $ready, ">", "warner-ready" unless $town;
    select undef, undef, undef, 0.002;
}
"""
FILLED = """
math.randomseed(11)
for i = 1, 120000 do
  redis.call('GEOADD', 'strokes', 5 + 11 * math.random(), 46 + 9 * math.random(), 'stroke' .. i)
end
for i = 0, 499 do
  redis.call('HSET', 'station:' .. i, 'temperature', i % 30, 'dew point', i % 12, 'wind', i % 50, 'pressure', 990 + i % 40)
end
return 'filled'
"""
READERS = """
local station = 0
request = function()
  station = (station + 37) % 500
  return wrk.format("GET", "/station/" .. station)
end
"""


def strokes(place):
    store, front = redis(place), place.port()
    place.run("redis-cli", "-p", store, "eval", FILLED, 0)
    place.start(place.go("latest", LATEST), front, store, port=front)
    place.start(place.write("warner", WARNER), store, 15 if place.fixed else 2000, path=place.folder / "warner-ready")
    load = wrk(f"http://127.0.0.1:{front}", 8, place.seconds)
    return [*load[:1], "-s", str(place.write("readers.lua", READERS)), *load[1:]]


# An archive of METARs: which airports often have fog, that is, a dew point that is as high as the
# temperature?
FOGGY = """#!/bin/bash
set -o pipefail
export LC_ALL=C.UTF-8
zcat metar-*.gz | sed 's/ NOSIG=$//' | grep -MATCHER ' (M?[0-9]{2})/\\1 Q' |
    cut -d ' ' -f 2 | mawk '{ foggy[$0]++ } END { for (of in foggy) print foggy[of], of }' | sort -rn > airports.txt
"""


def metar(dice):
    def degrees(value):
        return f"M{-value:02}" if value < 0 else f"{value:02}"
    warm = dice.randint(-5, 25)
    dew = warm - min(int(abs(dice.gauss(0, 5))), 20)
    airport = "ED" + chr(dice.randint(65, 90)) + chr(dice.randint(65, 90))
    time = f"{dice.randint(1, 28):02}{dice.randint(0, 23):02}20Z"
    wind = f"{dice.randint(0, 35):02}0{dice.randint(2, 19):02}KT"
    sky = dice.choice(("9999", "4500", "0800 FG", "CAVOK")) + dice.choice((" FEW", " BKN", " -RA OVC")) + f"{dice.randint(1, 60):03}"
    air = f"{degrees(warm)}/{degrees(dew)} Q{dice.randint(985, 1035):04}"
    return f"METAR {airport} {time} AUTO {wind} {sky} {air} NOSIG=\n"


def fog(place):
    dice = random.Random(5)
    reports = "".join(metar(dice) for _ in range(40000))
    for month in range(1, 7):
        place.write(f"metar-{month:02}", reports * 7)
        place.run("gzip", "-1", f"metar-{month:02}")
    return [str(place.write("foggy", FOGGY.replace("MATCHER", "P" if place.fixed else "E")))]


# A partner takes the forecast of one point after the other from the gateway, by TLS. The client
# makes its TLS context, with all authorities of its bundle, for each request or once.
POINTS = """
package main

import ("encoding/json"; "math"; "net/http"; "os"; "strconv")

func main() {
	http.HandleFunc("/point", func(w http.ResponseWriter, r *http.Request) {
		point, _ := strconv.Atoi(r.URL.RawQuery)
		hours := make([]float64, 72)
		for hour := range hours {
			hours[hour] = math.Round(100 + 80 * math.Sin(float64(hour - 9) / 24 * 2 * math.Pi) + float64(point % 50)) / 10
		}
		json.NewEncoder(w).Encode(map[string]any{"point": point, "temperature": hours})
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""
PARTNER = """
import http.client, json, ssl, sys, time

port, mode, seconds = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])

def trusted():
    return ssl.create_default_context(cafile="authorities.pem")

kept = trusted()
begin, points, warmest = time.monotonic(), 0, -99
while time.monotonic() < begin + seconds:
    context = kept if mode == "kept" else trusted()
    gateway = http.client.HTTPSConnection("localhost", port, context=context)
    gateway.request("GET", f"/point?{points}")
    forecast = json.loads(gateway.getresponse().read())
    gateway.close()
    warmest = max(warmest, *forecast["temperature"])
    points += 1
print(f"items {points} seconds {time.monotonic() - begin:.3f} warmest {warmest}")
"""


def partner(place):
    points, tls = place.port(), place.port()
    place.start(place.go("points", POINTS), points, port=points)
    place.run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "9", "-subj", "/CN=localhost",
              "-addext", "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out", "own.pem")
    public = Path("/etc/ssl/certs/ca-certificates.crt").read_text()
    place.write("authorities.pem", public + (place.folder / "own.pem").read_text())
    nginx(place, f"""
  listen 127.0.0.1:{tls} ssl; ssl_certificate {place.folder}/own.pem; ssl_certificate_key {place.folder}/key.pem;
  location / {{ proxy_pass http://points; proxy_http_version 1.1; proxy_set_header Connection ""; }}""",
          f"upstream points {{ server 127.0.0.1:{points}; keepalive 4; }}")
    return [PYTHON, str(place.write("partner.py", PARTNER)), str(tls), "kept" if place.fixed else "each", str(place.seconds)]


# An archive fetches the composites of the radars from a mirror, whose name has two addresses. The
# host of the first is switched off.
COMPOSITES = """
const fs = require("fs"), http = require("http"), zlib = require("zlib");
const { addresses, patience } = JSON.parse(fs.readFileSync(__dirname + "/mirror.json"));
const lookup = (name, options, found) => found(null, addresses.map(address => ({ address, family: 4 })));

const fetched = path => new Promise((done, failed) => {
  const asked = { host: "mirror.example", port: 80, path, agent: false, lookup, autoSelectFamilyAttemptTimeout: patience };
  http.get(asked, answer => {
    const pieces = [];
    answer.on("data", piece => pieces.push(piece));
    answer.on("end", () => answer.statusCode === 200 ? done(Buffer.concat(pieces)) : failed(answer.statusCode));
  }).on("error", failed);
});

(async () => {
  const begin = Date.now();
  for (let at = 0; at < 16; at++) {
    const image = await fetched(`/composite-${at}.raw`);
    fs.writeFileSync(`${__dirname}/kept-${at}.gz`, zlib.gzipSync(image));
  }
  console.log(`items 16 seconds ${(Date.now() - begin) / 1000}`);
})();
"""


def composites(place):
    inside = private_network(
        place, "ip link add uplink type veth peer name radio", "ip addr add 198.51.100.1/24 dev uplink",
        "ip link set uplink up", "ip link set radio up",
        "ip neigh add 198.51.100.7 lladdr 02:00:00:00:00:07 dev uplink nud permanent")
    mirror = place.folder / "mirror"
    mirror.mkdir()
    for at in range(16):
        row = bytes((at * byte >> 5) % 256 for byte in range(50000))
        (mirror / f"composite-{at}.raw").write_bytes(row * 20)
    config = place.write("mirror-nginx.conf", f"""
daemon off; user root; pid {place.folder}/nginx.pid; error_log {place.folder}/nginx.error;
events {{ }}
http {{ access_log off; server {{ listen 127.0.0.1:80; root {mirror}; }} }}
""")
    place.start(*inside, "nginx", "-c", config, path=place.folder / "nginx.pid")
    addresses = ["127.0.0.1"] if place.fixed else ["198.51.100.7", "127.0.0.1"]
    place.write("mirror.json", json.dumps({"addresses": addresses, "patience": round(250 * place.scale)}))
    return [*inside, "node", str(place.write("composites.js", COMPOSITES))]


# Control: members of an ensemble compute on all CPUs, and append a line to the common result after
# each hour, under a lock that they hold for some microseconds.
MEMBER = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

enum { SIDE = 200, STEPS = 130 };
static double field[2][SIDE][SIDE];

static double hour(void) {
    double sum = 0;
    for (int step = 0; step < STEPS; step++) {
        double (*from)[SIDE] = field[step % 2], (*to)[SIDE] = field[1 - step % 2];
        for (int y = 1; y < SIDE - 1; y++)
            for (int x = 1; x < SIDE - 1; x++) {
                double slope = from[y][x + 1] - from[y][x - 1];
                to[y][x] = from[y][x] + 0.1 * (from[y - 1][x] + from[y + 1][x] + from[y][x - 1] + from[y][x + 1] - 4 * from[y][x])
                    + 0.01 * slope / (1 + slope * slope);
            }
    }
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            sum += field[0][y][x];
    return sum / SIDE / SIDE;
}

int main(int count, char **words) {
    int member = atoi(words[1]), hours = atoi(words[2]);
    int result = open("ensemble.csv", O_WRONLY | O_CREAT | O_APPEND, 0644);
    srand(member);
    for (int i = 0; i < SIDE * SIDE; i++)
        field[0][i / SIDE][i % SIDE] = field[1][i / SIDE][i % SIDE] = rand() % 300 / 10.0;
    for (int at = 0; at < hours; at++) {
        double mean = hour();
        flock(result, LOCK_EX);
        dprintf(result, "%d;%d;%.3f\n", member, at, mean);
        flock(result, LOCK_UN);
    }
}
"""
ENSEMBLE = """#!/bin/bash
for member in $(seq $1); do
    ./member $member $2 &
done
wait
[ "$(wc -l < ensemble.csv)" = $(($1 * $2)) ]
"""


def ensemble(place):
    place.c("member", MEMBER)
    return [str(place.write("ensemble", ENSEMBLE)), str(2 * os.cpu_count()), "180"]


# Control: screens at bus stops show their forecast for a while, and then ask for the next one.
FORECAST = """<?php
$stop = (int) ($_GET["stop"] ?? 0);
$points = [];
for ($hour = 0; $hour < 48; $hour++) {
    $points[] = sprintf("%d,%.1f", 10 * $hour, 60 - 30 * sin(($hour - 9) / 24 * 2 * M_PI) - $stop % 20);
}
header("Content-Type: image/svg+xml");
echo '<svg xmlns="http://www.w3.org/2000/svg"><polyline points="', implode(" ", $points), '"/></svg>';
"""
SCREENS = """
const http = require("http");
const [port, screens, seconds] = process.argv.slice(2).map(Number);
const agent = new http.Agent({ keepAlive: true });
const begin = Date.now();
let shown = 0, open = screens;

function show(screen) {
  if (Date.now() > begin + 1000 * seconds) {
    if (--open === 0) {
      console.log(`items ${shown} seconds ${(Date.now() - begin) / 1000}`);
      agent.destroy();
    }
    return;
  }
  http.get({ host: "127.0.0.1", port, path: "/forecast?stop=" + screen, agent }, answer => {
    answer.resume();
    answer.on("end", () => { shown++; setTimeout(show, 300 + screen * 7 % 100, screen); });
  });
}

for (let screen = 0; screen < screens; screen++) setTimeout(show, screen * 17 % 300, screen);
"""


def screens(place):
    port = php(place, FORECAST, 3)
    return ["node", str(place.write("screens.js", SCREENS)), str(port), "24", str(place.seconds)]


COMPUTING = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="meteo_modems_of_four_lines",
        kind="lock-held-while-sleeping",
        truth="the four processes of dialout, in PHP, call one station at a time, because all take "
              "the same System V semaphore and hold it while a modem needs 20 ms to settle; with a "
              "semaphore for each line they call at once",
        load=stations,
        component=(r"dialout", r"\bphp", r"semaphore", r"\bsem(op|timedop)?\b"),
        mechanism=(*SLEEPS, *LOCKS, r"semaphore", r"sem(op|timedop)", r"\bpauses?\b", r"serial"),
        never=(*DISK, r"(dialout|php\S*) (\([^)]*\) )?(computes|runs its own code)"),
        halves=True,
        needs=("bash", "php"),
    ),
    System(
        name="meteo_strokes_of_a_continent",
        kind="expensive-command",
        truth="redis, which has one thread, computes GEOSEARCH over all 120,000 strokes of lightning "
              "within 2000 km, which warner asks for again and again, and the pages of the stations "
              "wait meanwhile; 15 km would do",
        load=strokes,
        rate=WRK,
        component=(r"redis", r"\bwarner\b", r"geosearch"),
        mechanism=(*COMPUTES, r"geo", r"\bcommands?\b", r"single[- ]thread", r"\bCPU\b", r"\bbusy\b", r"\bqueues?\b",
                   r"one (\w+ )?at a time", r"(requests?|calls?|quer(y|ies)) (of|from|by) (the )?warner",
                   r"warner[^;]*(requests?|calls?|quer(y|ies))"),
        never=(*DISK, r"(latest|wrk|warner|redis\S*) (\([^)]*\) )?sleeps",
               r"(latest|wrk|warner) (\([^)]*\) )?(computes|runs its own code)"),
        running=True,
        needs=("redis-server", "redis-cli", "go", "perl", "wrk"),
    ),
    System(
        name="meteo_foggy_airports",
        kind="slow-filter",
        truth="grep -E, whose expression has a back-reference, computes all the time on one CPU, and "
              "zcat, sed, cut, mawk and sort of the same pipeline wait for it; grep -P does the same "
              "in a fraction of the time",
        load=fog,
        component=(r"\bgrep",),
        mechanism=(*COMPUTES, r"\bCPU\b", r"\bbusy\b", r"\bfilter\b", r"slowest", r"\bregex", r"\bmatch"),
        never=(*DISK, r"(zcat|gzip|sed|grep|cut|mawk|sort) (\([^)]*\) )?sleeps",
               r"(zcat|gzip|sed|cut|mawk|sort) (\([^)]*\) )?(computes|runs its own code)"),
        needs=("bash", "zcat", "gzip", "sed", "grep", "mawk"),
    ),
    System(
        name="meteo_partner_with_all_authorities",
        kind="client-is-the-limit",
        truth="partner.py, the only client, computes most of the time, because it reads all "
              "authorities of its bundle into a new TLS context for each request; nginx and points, "
              "in Go, are idle",
        load=partner,
        rate=ITEMS,
        component=(r"partner", r"python", r"authorities\.pem"),
        mechanism=(*COMPUTES, r"\bCPU\b", r"\bbusy\b", r"load generator", r"\bclient\b", r"certificate",
                   r"\bTLS\b", r"\bSSL\b", r"authorities", r"libcrypto", r"libssl", r"X509", r"PEM"),
        never=(*DISK, r"(nginx|points) (\([^)]*\) )?(computes|runs its own code|sleeps)",
               r"(python3?|partner\S*) (\([^)]*\) )?sleeps"),
        needs=(PYTHON, "nginx", "go", "openssl"),
    ),
    System(
        name="meteo_mirror_with_a_dead_address",
        kind="dead-address-timeout",
        truth="composites.js, in node, waits 250 ms for the connection to the first address of the "
              "mirror, whose host is off, before it takes the second one, for each of 16 files",
        load=composites,
        rate=ITEMS,
        component=(r"\bnode\b", r"composites", r"198\.51\.100\.7", r"mirror\.example"),
        mechanism=(*SLEEPS, r"connect", r"\bSYN", r"time-?outs?", r"times out", r"retr(y|ies)", r"retransm", r"198\.51\.100\.7",
                   r"(never|not|no|without) (a |an )?(repl|answer|respon)", r"unreachable", r"address"),
        never=(*DISK, r"(nginx|node) (\([^)]*\) )?(computes|runs its own code)"),
        halves=True,
        needs=("node", "nginx", "ip", "unshare", "nsenter"),
    ),
    System(
        name="control_meteo_ensemble",
        kind="control",
        truth="twice as many members of an ensemble as there are CPUs compute on all of them; their "
              "lock of the common result is nearly always free",
        load=ensemble,
        acceptable=(*NOTHING, rf"\b(member|ensemble)\b.*{COMPUTING}", r"([Bb]oth|[Aa]ll|[Tt]he) (\d+ )?CPUs"),
        needs=("bash", "gcc"),
    ),
    System(
        name="control_meteo_screens",
        kind="control",
        truth="24 screens, in node, show each forecast for 300 to 400 ms before they ask for the "
              "next one; nginx and php-fpm reply at once and are idle most of the time",
        load=screens,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by", r"\b(node|screens\S*)\b.*(sleep|timer|until a time|clock|paced|think)",
                    r"\bidle\b", r"load generator"),
        needs=("node", "nginx", f"/usr/sbin/{PHP_FPM}"),
    ),
]
