"""The systems of a coffee roaster with a web shop and a warehouse: five frequent faults of its order
pipeline, its shop, its builds, its label printing and its stock database, and two healthy parts.
"""
import signal

from services import PHP_FPM, mariadb, nginx, php, redis
from system import ITEMS, LOCKS, PYTHON, WRK, System, wrk

DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# Starts the packers of the day. The orders that were paid during the night are in a queue already,
# and each packer gets a parcel number for an order from the carrier.
PACKINGLINE = """#!/usr/bin/python3
import http.client, json, os, signal, sys, time
import pika

broker, carrier, packers, prefetch, orders = map(int, sys.argv[1:])

def channel():
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker)).channel()

def pack():
    queue, link = channel(), http.client.HTTPConnection("127.0.0.1", carrier)

    def paid(queue, delivery, _, body):
        order = json.loads(body)
        grams = sum(bag["grams"] for bag in order["bags"])
        link.request("POST", "/parcels", json.dumps({"order": order["id"], "grams": grams}))
        parcel = json.load(link.getresponse())
        queue.basic_publish("", "packed", json.dumps({**order, **parcel}).encode())
        queue.basic_ack(delivery.delivery_tag)

    queue.basic_qos(prefetch_count=prefetch)
    queue.basic_consume("paid", paid)
    queue.start_consuming()

begin, children = time.monotonic(), []
for _ in range(packers):
    child = os.fork()
    if not child:
        pack()
    children.append(child)
packed = channel()
for count, _ in enumerate(packed.consume("packed", auto_ack=True), 1):
    if count == orders:
        break
print(f"items {count} seconds {time.monotonic() - begin:.3f}")
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""
NIGHTORDERS = """#!/usr/bin/python3
import json, sys
import pika

queue = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", int(sys.argv[1]))).channel()
queue.queue_declare("paid", durable=True)
queue.queue_declare("packed")
queue.confirm_delivery()
for order in range(int(sys.argv[2])):
    bags = [{"coffee": f"lot {(order + i) % 40}", "grams": 250 + i * 250} for i in range(order % 4 + 1)]
    queue.basic_publish("", "paid", json.dumps({"id": order, "bags": bags}).encode())
"""
CARRIER = """
const http = require("http");
let parcels = 0;
http.createServer((request, response) => {
  let text = "";
  request.on("data", piece => text += piece).on("end", () => {
    const { order, grams } = JSON.parse(text), parcel = `R${order}-${++parcels}`;
    setTimeout(() => response.end(JSON.stringify({ parcel, cents: 390 + Math.ceil(grams / 1000) * 80 })), 12);
  });
}).listen(Number(process.argv[2]), "127.0.0.1");
"""


def rabbit(place):
    """Starts rabbitmq and its name service with all files in the folder; returns its port."""
    port, names, link, folder = place.port(), place.port(), place.port(), place.folder
    place.start("epmd", "-port", names, "-address", "127.0.0.1", port=names)
    config = place.write("rabbitmq.conf", f"listeners.tcp.default = 127.0.0.1:{port}\nlog.console = true\nlog.file = false\n", mode=0o644)
    environment = {
        "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": folder, "ERL_EPMD_PORT": names, "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": "orders@localhost", "RABBITMQ_MNESIA_BASE": folder / "mnesia", "RABBITMQ_LOG_BASE": folder / "log",
        "RABBITMQ_CONFIG_FILE": config, "RABBITMQ_ENABLED_PLUGINS_FILE": place.write("plugins", "[]."), "RABBITMQ_DIST_PORT": link,
        "RABBITMQ_PID_FILE": folder / "rabbitmq.pid", "RABBITMQ_ALLOW_INPUT": 1,
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-noinput -kernel inet_dist_use_interface {127,0,0,1}"}
    environment = {key: str(value) for key, value in environment.items()}
    place.start("/usr/lib/rabbitmq/bin/rabbitmq-server", port=port, stop=signal.SIGKILL, env=environment)
    return port


def prefetch(place):
    broker, carrier, orders = rabbit(place), place.port(), 240
    place.start("node", place.write("carrier.js", CARRIER), carrier, port=carrier)
    place.run(place.write("nightorders", NIGHTORDERS), broker, orders)
    # 0 is the default of the broker: as many orders as there are.
    line = place.write("packingline", PACKINGLINE)
    return [str(line), str(broker), str(carrier), "4", "1" if place.fixed else "0", str(orders)]


# The page of a coffee: its data come from redis, and the recommendations from another service. With
# a breaker, the shop does without recommendations for 30 s after three failures.
SHOPFRONT = """
import com.sun.net.httpserver.HttpServer;
import java.io.*;
import java.net.*;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.*;

public class Main {
    static int store, recommender, patience;
    static boolean breaker;
    static final AtomicInteger failures = new AtomicInteger();
    static final AtomicLong closed = new AtomicLong();

    // One connection to redis for each thread.
    static final ThreadLocal<Socket> links = ThreadLocal.withInitial(() -> {
        try {
            Socket link = new Socket("127.0.0.1", store);
            link.setTcpNoDelay(true);
            return link;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    });

    static String coffee(int number) throws IOException {
        Socket link = links.get();
        link.getOutputStream().write(("GET coffee:" + number + "\\r\\n").getBytes());
        InputStream in = link.getInputStream();
        int length = 0;
        for (int c = in.read(); c != '\\n'; c = in.read())
            if (c >= '0' && c <= '9')
                length = length * 10 + c - '0';
        byte[] text = in.readNBytes(length);
        in.readNBytes(2);
        return new String(text, StandardCharsets.UTF_8);
    }

    static String recommended(int number) {
        if (breaker && System.currentTimeMillis() < closed.get())
            return "";
        try {
            URL address = new URL("http://127.0.0.1:" + recommender + "/similar?coffee=" + number);
            HttpURLConnection call = (HttpURLConnection) address.openConnection();
            call.setConnectTimeout(patience);
            call.setReadTimeout(patience);
            String answer = new String(call.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            failures.set(0);
            return answer;
        } catch (IOException error) {
            if (failures.incrementAndGet() >= 3)
                closed.set(System.currentTimeMillis() + 30000);
            return "";
        }
    }

    static String page(int number) throws IOException {
        String[] fields = coffee(number).split("[|]");
        StringBuilder page = new StringBuilder("<h1>" + fields[0] + "</h1><table>");
        for (int i = 1; i < fields.length; i++)
            for (int grams = 250; grams <= 1000; grams *= 2)
                page.append(String.format("<tr><td>%s<td>%d g<td>%.2f</tr>", fields[i], grams, grams * (20 + i) / 1000.0));
        return page.append("</table>").append(recommended(number)).toString();
    }

    public static void main(String[] words) throws Exception {
        store = Integer.parseInt(words[1]);
        recommender = Integer.parseInt(words[2]);
        patience = Integer.parseInt(words[3]);
        breaker = words[4].equals("breaker");
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 200);
        server.setExecutor(Executors.newFixedThreadPool(6));
        AtomicInteger guests = new AtomicInteger();
        server.createContext("/coffee", exchange -> {
            byte[] page = page(guests.incrementAndGet() % 60).getBytes();
            exchange.sendResponseHeaders(200, page.length);
            exchange.getResponseBody().write(page);
            exchange.close();
        });
        server.start();
    }
}
"""
# It first waits for its new model, which a job of the night should have written into a pipe.
RECOMMENDER = """#!/usr/bin/perl
use strict;
use warnings;
use IO::Socket::INET;

my $server = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $ARGV[0], Listen => 4096)
    or die "no socket: $!";
open my $pipe, "<", "model.pipe" or die "no model: $!";
my %similar = map { chomp; split / /, $_, 2 } <$pipe>;
while (my $client = $server->accept) {
    my ($coffee) = <$client> =~ /coffee=(\\d+)/;
    my $text = $similar{$coffee} // "";
    print $client "HTTP/1.0 200 OK\\r\\nContent-Length: ", length $text, "\\r\\n\\r\\n$text";
    close $client;
}
"""


def unanswered(place):
    store, shop, recommender, front = redis(place), place.port(), place.port(), place.port()
    fill = [f'SET coffee:{i} "Lot {i}|whole bean|espresso|filter|french press|moka|turkish|cold brew|capsule"' for i in range(60)]
    place.run("redis-cli", "-p", store, input="\n".join(fill))
    place.run("mkfifo", place.folder / "model.pipe")
    place.start(place.write("recommender", RECOMMENDER), recommender, port=recommender)
    place.start("java", "-Dsun.net.httpserver.nodelay=true", "-Xmx128m", "-cp", place.java(SHOPFRONT), "Main",
                shop, store, recommender, round(60 * place.scale), "breaker" if place.fixed else "always", port=shop)
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend roastery
    bind 127.0.0.1:{front}
    default_backend shop
backend shop
    server shop 127.0.0.1:{shop}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return wrk(f"http://127.0.0.1:{front}/coffee", 6, place.seconds)


# The build of the software of the roasting machine: each object contains the version of the source.
MAKEFILE = """
VERSION {assign} $(shell git describe --always --dirty)
OBJECTS := $(patsubst src/%.c,build/%.o,$(wildcard src/*.c))

build/roaster: $(OBJECTS)
\tgcc -o $@ $^

build/%.o: src/%.c
\t@mkdir -p build
\tgcc -O1 -DVERSION='"$(VERSION)"' -c -o $@ $<
"""
MODULE = """
const char *version_%(name)s(void) {
    return VERSION;
}

/* Returns the heat of the drum for a bean of this temperature. */
double %(name)s(const double *beans, int count) {
    double heat = 0;
    for (int i = 0; i < count; i++)
        heat = heat * 0.9 + (beans[i] - %(number)d) * 0.1;
    return heat;
}
"""


def version(place):
    home, modules = place.folder / "roaster", 45
    for folder in ("src", "profiles"):
        (home / folder).mkdir(parents=True)
    (home / "Makefile").write_text(MAKEFILE.format(assign=":=" if place.fixed else "="))
    (home / ".gitignore").write_text("build/\n")
    for i in range(modules):
        (home / "src" / f"zone{i}.c").write_text(MODULE % {"name": f"zone{i}", "number": i})
    (home / "src" / "main.c").write_text("int main(void) { return 0; }\n")
    # The profiles of all roasts are in the same repository. Links are made faster than files.
    for roast in range(50):
        (home / "profiles" / f"plan{roast}.csv").write_text(f"seconds,celsius\n0,{180 + roast}\n600,{215 + roast % 9}\n")
    for i in range(480):
        lot = home / "profiles" / f"lot{i}"
        lot.mkdir()
        for roast in range(50):
            (lot / f"roast{roast}.csv").hardlink_to(home / "profiles" / f"plan{roast}.csv")
    git = ["git", "-c", "user.name=build", "-c", "user.email=build@roastery.internal", "-c", "gc.auto=0", "-c", "core.fsync=none"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Roaster 4.2"]):
        place.run(*git, *words, cwd=home)
    return ["env", "-u", "MAKEFLAGS", "-u", "MAKELEVEL", "make", "-s", "-j2", "-C", str(home)]


# The page that prints the label of a bag: it sends a head and then the text of the label over a
# lasting connection to the print server, and waits for its confirmation.
LABELS = """<?php
$bag = random_int(1, 9000);
$printer = pfsockopen("127.0.0.1", PORT);
$head = sprintf("^XA bag %d copies 1\\n", $bag);
$text = "";
for ($line = 0; $line < 12; $line++) {
    $text .= sprintf("line %d lot %d roasted for batch %d\\n", $line, ($bag * 7 + $line) % 97, $bag);
}
$text .= "^XZ\\n";
if (ONCE) {
    fwrite($printer, $head . $text);
} else {
    fwrite($printer, $head);
    fwrite($printer, $text);
}
printf("<p>Bag %d: %s</p>", $bag, fgets($printer));
"""
PRINTSERVER = r"""
#include <arpa/inet.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { WIDTH = 832, HEIGHT = 600 };

/* Draws the bars and dots of a line of text, and returns the dots that are black. */
static int draw(uint8_t *label, const char *text, int line) {
    int black = 0;
    for (int y = line * 40; y < line * 40 + 40 && y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) {
            unsigned letter = (unsigned char)text[x / 12 % strlen(text)];
            int dot = (letter * 2654435761u >> (x % 12 + y % 16)) & 1;
            label[y * WIDTH + x] = dot;
            black += dot;
        }
    return black;
}

static void *client(void *word) {
    int link = (intptr_t)word;
    FILE *in = fdopen(link, "r");
    uint8_t *label = calloc(WIDTH, HEIGHT);
    char text[200];
    int line = 0, black = 0;
    while (fgets(text, sizeof text, in)) {
        if (strncmp(text, "^XZ", 3)) {
            black += draw(label, text, line++);
            continue;
        }
        char answer[60];
        int length = snprintf(answer, sizeof answer, "printed %d dots\n", black);
        if (send(link, answer, length, MSG_NOSIGNAL) < 0)
            break;
        line = black = 0;
    }
    free(label);
    fclose(in);
    return NULL;
}

int main(int count, char **words) {
    int server = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[count - 1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(server, (struct sockaddr *)&address, sizeof address) || listen(server, 50))
        return 1;
    for (;;) {
        intptr_t link = accept(server, NULL, NULL);
        pthread_t thread;
        if (link >= 0 && !pthread_create(&thread, NULL, client, (void *)link))
            pthread_detach(thread);
    }
}
"""


def two_writes(place):
    printer = place.port()
    place.start(place.c("printserver", PRINTSERVER), printer, port=printer)
    page = LABELS.replace("PORT", str(printer)).replace("ONCE", "true" if place.fixed else "false")
    return wrk(f"http://127.0.0.1:{php(place, page, 3)}/label", 3, place.seconds)


# Four tills take orders: each takes bags out of the stock and notes the order.
ORDERINTAKE = """#!/usr/bin/python3
import random, sys, time
from concurrent.futures import ProcessPoolExecutor
import pymysql

port, seconds, tills, skus = map(int, sys.argv[1:])

def till(number):
    link = pymysql.connect(host="127.0.0.1", port=port, user="root", database="test", autocommit=True)
    cursor, chance, count, end = link.cursor(), random.Random(number), 0, time.monotonic() + seconds
    while time.monotonic() < end:
        sku, bags = chance.randrange(1, skus), chance.randrange(1, 5)
        cursor.execute("update stock set free = free - %s where sku = %s", (bags, sku))
        cursor.execute("insert into orders (sku, bags) values (%s, %s)", (sku, bags))
        count += 1
    return count

begin = time.monotonic()
with ProcessPoolExecutor(tills) as pool:
    count = sum(pool.map(till, range(tills)))
print(f"items {count} seconds {time.monotonic() - begin:.3f}")
"""
# The screen in the warehouse shows the value of each shelf.
SHELFSCREEN = """#!/bin/sh
while :; do
    mariadb --no-defaults -h 127.0.0.1 -P "$1" -u root test -e "
        select shelf, count(*), sum(free), sum(free * cents) / 100 as value, count(distinct origin),
               avg(datediff(now(), roasted)) as days, max(if(free < 20, sku, 0)) as empty
        from stock join batches using (batch) group by shelf order by value desc" > shelves.txt
    sleep 0.02
done
"""


def table_lock(place):
    skus, engine = 140000, "InnoDB" if place.fixed else "MyISAM"
    port = mariadb(place, f"""
        create table stock (sku int primary key, shelf int not null, batch int not null, free int not null, cents int not null);
        create table batches (batch int primary key, origin varchar(20) not null, roasted date not null);
        create table orders (id int auto_increment primary key, sku int, bags int) engine=InnoDB;
        insert into batches select seq, concat('farm ', seq % 300), date_sub(now(), interval seq % 200 day) from seq_1_to_9000;
        insert into stock select seq, seq % 700, seq % 9000 + 1, 5000 + seq % 90, 600 + seq % 1500 from seq_1_to_{skus}""",
                   f"--default-storage-engine={engine}", "--innodb-flush-log-at-trx-commit=2")
    place.start(place.write("shelfscreen", SHELFSCREEN), port, path=place.folder / "shelves.txt")
    return [str(place.write("orderintake", ORDERINTAKE)), str(port), str(place.seconds), "4", str(skus)]


# Control: the probe in the drum measures each 60 ms by intention, and the log has long written the
# value when the next one comes.
DRUMPROBE = """#!/usr/bin/perl
use strict;
use warnings;
use IO::Handle;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC sleep);

my ($port, $seconds) = @ARGV;
open my $out, "|-", "mosquitto_pub", "-h", "127.0.0.1", "-p", $port, "-q", "1", "-t", "drum/beans", "-l"
    or die "no publisher: $!";
$out->autoflush(1);
my ($begin, $count) = (clock_gettime(CLOCK_MONOTONIC), 0);
while ((my $now = clock_gettime(CLOCK_MONOTONIC) - $begin) < $seconds) {
    printf $out "%.3f %.2f\\n", $now, 180 + 30 * sin($now / 3);
    $count++;
    my $rest = $count * 0.06 - (clock_gettime(CLOCK_MONOTONIC) - $begin);
    sleep($rest) if $rest > 0;
}
printf "items %d seconds %.3f\\n", $count, clock_gettime(CLOCK_MONOTONIC) - $begin;
"""
ROASTLOG = """#!/usr/bin/python3
import sqlite3, sys
import paho.mqtt.client as mqtt

base = sqlite3.connect("roasts.db", isolation_level=None)
base.execute("pragma journal_mode = wal")
base.execute("create table beans (seconds real, celsius real)")

def note(client, _, message):
    seconds, celsius = map(float, message.payload.split())
    base.execute("insert into beans values (?, ?)", (seconds, celsius))
    rise, = base.execute("select max(celsius) - min(celsius) from beans where seconds > ?", (seconds - 10,)).fetchone()
    if rise > 25:
        client.publish("drum/burner", "lower")

client = mqtt.Client("roastlog")
client.on_message = note
client.on_subscribe = lambda *_: open("roastlog-ready", "w").close()
client.connect("127.0.0.1", int(sys.argv[1]))
client.subscribe("drum/beans", qos=1)
client.loop_forever()
"""


def drum(place):
    port = place.port()
    config = place.write("mosquitto.conf", f"listener {port} 127.0.0.1\nallow_anonymous true\nuser root\npersistence false\n", mode=0o644)
    place.start("mosquitto", "-c", config, port=port)
    place.start(place.write("roastlog", ROASTLOG), port, path=place.folder / "roastlog-ready")
    return [str(place.write("drumprobe", DRUMPROBE)), str(port), str(place.seconds)]


# Control: the price list of the shop, which has enough connections to memcached; nginx keeps its
# connections to it, and the CPUs are full.
PRICELIST = r"""
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
)

type Coffee struct {
	Name  string
	Cents int
	Notes []string
}

type Link struct {
	net.Conn
	in *bufio.Reader
}

var page = template.Must(template.New("page").Parse(
	"<h1>{{.Name}}</h1>{{range .Notes}}<p>{{.}}</p>{{end}}<p>{{.Cents}} cents</p>"))

func (link Link) get(key string) (coffee Coffee, err error) {
	var length, flags int
	var name string
	fmt.Fprintf(link, "get %s\r\n", key)
	if _, err = fmt.Fscanf(link.in, "VALUE %s %d %d\r\n", &name, &flags, &length); err != nil {
		return
	}
	text := make([]byte, length+len("\r\nEND\r\n"))
	if _, err = io.ReadFull(link.in, text); err == nil {
		err = json.Unmarshal(text[:length], &coffee)
	}
	return
}

func main() {
	pool := make(chan Link, 16)
	for i := 0; i < 16; i++ {
		link, err := net.Dial("tcp", "127.0.0.1:"+os.Args[2])
		if err != nil {
			panic(err)
		}
		pool <- Link{link, bufio.NewReader(link)}
	}
	link := <-pool
	for i := 0; i < 50; i++ {
		text, _ := json.Marshal(Coffee{fmt.Sprint("Lot ", i), 900 + i*10, []string{"plum", "cocoa", "hazelnut"}})
		fmt.Fprintf(link, "set coffee%d 0 0 %d\r\n%s\r\n", i, len(text), text)
		link.in.ReadString('\n')
	}
	pool <- link
	var guests atomic.Int64
	http.HandleFunc("/price", func(w http.ResponseWriter, r *http.Request) {
		link := <-pool
		coffee, err := link.get(fmt.Sprint("coffee", guests.Add(1)%50))
		pool <- link
		if err != nil {
			http.Error(w, err.Error(), 502)
			return
		}
		page.Execute(w, coffee)
	})
	http.ListenAndServe("127.0.0.1:"+os.Args[1], nil)
}
"""


def prices(place):
    port, cache = place.port(), place.port()
    place.start("memcached", "-l", "127.0.0.1", "-p", cache, "-u", "root", "-m", "32", "-t", "2", port=cache)
    place.start(place.go("pricelist", PRICELIST), port, cache, port=port)
    front = nginx(place, 'location / { proxy_pass http://pricelist; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream pricelist {{ server 127.0.0.1:{port}; keepalive 32; }}")
    return wrk(f"http://127.0.0.1:{front}/price", 8, place.seconds)


RUNS = (r"comput", r"\buser\b", r"runs its own code", r"\bruns? on", r"\bCPU")
COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="roastery_greedy_packer",
        kind="unlimited-prefetch",
        truth="one of the four processes of packingline has fetched all orders from the queue of "
              "rabbitmq, because its prefetch is not limited, and makes all calls of carrier.js "
              "(12 ms each) one at a time, while the other three have nothing to do",
        load=prefetch,
        rate=ITEMS,
        component=(r"packing ?line", r"prefetch"),
        mechanism=(r"one (\w+ )?at a time", r"one after (the other|another)", r"prefetch", r"previous",
                   r"\b(only )?(one|1) (of|process|worker|thread|connection)", r"single (process|worker|thread|connection)",
                   r"serial", r"sequential", r"in (parallel|sequence)", r"concurren", r"\b(three|others?|rest)\b[^;]*(idle|nothing|wait)"),
        never=(*DISK, r"(beam|rabbit|packingline)\S* (\([^)]*\) )?computes"),
        needs=("/usr/lib/rabbitmq/bin/rabbitmq-server", "epmd", "node", PYTHON),
    ),
    System(
        name="roastery_silent_recommender",
        kind="timeout-of-dead-service",
        truth="each page of the shop, in java, waits for its timeout of 60 ms, because the "
              "recommender, in perl, accepts connections and does not answer, and the shop has no "
              "circuit breaker",
        load=unanswered,
        rate=WRK,
        component=(r"\bjava\b", r"\bMain\b", r"recommender", r"\bperl\b"),
        mechanism=(r"time[- ]?(d )?out", r"sleep", r"timer", r"until a time", r"\bpoll",
                   r"(no|never|without|not) (a |an )?(reply|replie|answer|respon)", r"60 ms",
                   r"for (the |a )?(recommender|perl)", r"fifo|model\.pipe|\bpipe\b"),
        never=(*DISK, r"(java|perl|redis-server|haproxy|recommender)\S* (\([^)]*\) )?computes"),
        change="x0",
        halves=True,
        running=True,
        needs=("java", "javac", "redis-server", "redis-cli", "haproxy", "perl", "wrk", "mkfifo"),
    ),
    System(
        name="roastery_version_of_each_object",
        kind="shell-function-per-target",
        truth="make starts `git describe --dirty` for each object and waits for it, because the "
              "variable with the version is expanded anew in each recipe; git examines all files of "
              "the repository each time",
        load=version,
        component=(r"\bgit\b", r"\bmake\b[^;]*(shell|describe|one (\w+ )?at a time|serial)"),
        mechanism=(*RUNS, r"kernel", r"describe", r"\bshell\b", r"lstat|newfstatat|\bstat\b|\bfiles\b", r"start",
                   r"fork|exec|spawn", r"process(es)? for each", r"one (\w+ )?at a time", r"\bwaits? for\b[^;]*\bgit\b",
                   r"each (object|target|recipe|file)", r"child", r"(new|short|many) process"),
        never=(*DISK, r"git (\([^)]*\) )?sleeps"),
        needs=("git", "make", "gcc"),
    ),
    System(
        name="roastery_label_in_two_writes",
        kind="nagle-delayed-ack",
        truth="the page in php sends each label in two small writes, so that the kernel holds the "
              "second one back until the print server's delayed acknowledgement of the first comes "
              "after 40 ms",
        load=two_writes,
        rate=WRK,
        component=(r"\bphp", r"printserver", r"label", r"page\.php"),
        mechanism=(r"[Nn]agle", r"\b(delayed|held back|holds back)\b", r"\b[Aa][Cc][Kk]", r"acknowledg", r"NODELAY",
                   r"(two|small|second|several) (small )?(write|segment|packet|send)", r"\bTCP[^;]*timer"),
        never=(*DISK, r"(php\S*|printserver) (\([^)]*\) )?(computes|sleeps)"),
        needs=("nginx", f"/usr/sbin/{PHP_FPM}", "gcc", "wrk"),
    ),
    System(
        name="roastery_stock_table_lock",
        kind="table-lock",
        truth="the orders wait in mariadbd for the lock of the whole table of the stock, which is "
              "of the engine MyISAM, while the query of shelfscreen reads it",
        load=table_lock,
        rate=ITEMS,
        component=(r"mariadbd?", r"mysqld?", r"shelfscreen"),
        mechanism=(*LOCKS, r"locked", r"MyISAM", r"futex", r"\bcondition\b", r"\bholds?\b", r"\bheld\b",
                   r"for (each other|another|other) (thread|connection|session|quer)"),
        never=(*DISK, r"mariadbd? (\([^)]*\) )?sleeps"),
        needs=("mariadbd", "mariadb", "mariadb-install-db", PYTHON),
    ),
    System(
        name="control_roastery_drum",
        kind="control",
        truth="drumprobe, in perl, publishes a temperature each 60 ms by intention; mosquitto and "
              "roastlog are done long before the next one, and all are idle most of the time",
        load=drum,
        rate=ITEMS,
        acceptable=(*NOTHING, r"\b[Pp]aced\b", r"(drumprobe|perl).*(sleep|timer|until a time)", r"\bidle\b"),
        needs=("mosquitto", "mosquitto_pub", "perl", PYTHON),
    ),
    System(
        name="control_roastery_prices",
        kind="control",
        truth="pricelist, in go, renders pages with data from memcached behind nginx with lasting "
              "connections, and both CPUs are full",
        load=prices,
        rate=WRK,
        acceptable=(*NOTHING, rf"(pricelist|nginx|memcached|wrk).*{COMPUTES}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs", r"load generator",
                    r"own code"),
        needs=("memcached", "nginx", "go", "wrk"),
    ),
]
