"""The services of a parcel carrier: five frequent faults of its gateways, jobs and loads, and two
healthy parts of the same carrier.
"""
from services import PHP_FPM, at, nginx, php, postgres, redis
from system import ITEMS, LOCKS, PYTHON, SLEEPS, WRK, System, wrk

DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# The page of a recipient asks the depot that has the parcel. There are two instances of the depot's
# service behind haproxy.
TRACKING = """
const http = require("http");
const [port, depots] = process.argv.slice(2).map(Number);
const agent = new http.Agent({ keepAlive: true, maxSockets: 32 });
let asked = 0;

http.createServer((request, response) => {
  const path = "/parcel?" + asked++ % 5000;
  http.get({ host: "127.0.0.1", port: depots, path, agent }, answer => {
    let text = "";
    answer.on("data", piece => text += piece);
    answer.on("end", () => {
      response.statusCode = answer.statusCode;
      response.end(`<h1>Your parcel</h1><p>${text}</p>`);
    });
  }).on("error", problem => { response.statusCode = 502; response.end(String(problem)); });
}).listen(port, "127.0.0.1");
"""
# An instance with the audit takes its two locks in both orders, and soon never replies again.
DEPOT = """
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Executors;

public class Main {
    static final Map<Integer, Integer> shelves = new HashMap<>();
    static final Map<Integer, String> events = new HashMap<>();

    static void pause() {
        try {
            Thread.sleep(50);
        } catch (InterruptedException problem) {
            throw new RuntimeException(problem);
        }
    }

    static void reload() {
        synchronized (shelves) {
            pause();
            synchronized (events) {
                for (int parcel = 0; parcel < 5000; parcel++) {
                    shelves.put(parcel, parcel % 70);
                    events.put(parcel, "arrived on belt " + parcel % 9);
                }
            }
        }
    }

    static void audit() {
        synchronized (events) {
            pause();
            synchronized (shelves) {
                events.keySet().retainAll(shelves.keySet());
            }
        }
    }

    public static void main(String[] words) throws Exception {
        Thread reload = new Thread(Main::reload, "reload");
        reload.start();
        if (words[1].equals("audit"))
            new Thread(Main::audit, "audit").start();
        reload.join(500);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 200);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/parcel", exchange -> {
            String query = exchange.getRequestURI().getQuery();
            int parcel = query == null ? 0 : Integer.parseInt(query);
            byte[] text;
            synchronized (shelves) {
                synchronized (events) {
                    text = (events.get(parcel) + ", shelf " + shelves.get(parcel)).getBytes();
                }
            }
            exchange.sendResponseHeaders(200, text.length);
            exchange.getResponseBody().write(text);
            exchange.close();
        });
        server.start();
    }
}
"""


def hung(place):
    first, second, balancer, front = (place.port() for _ in range(4))
    for port, mode in ((first, "plain"), (second, "audit")):
        place.start("java", "-Dsun.net.httpserver.nodelay=true", "-Xmx128m", "-cp", place.java(DEPOT), "Main", port, mode, port=port)
    check = "check inter 100ms fall 1 rise 100" if place.fixed else ""
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode http
    timeout connect 1s
    timeout client 30s
    timeout check 100ms
    timeout server {round(160 * place.scale)}ms
    retries 2
    option redispatch 1
    retry-on conn-failure response-timeout
frontend tracking
    bind 127.0.0.1:{balancer}
    default_backend depots
backend depots
    balance roundrobin
    option httpchk GET /parcel
    server north 127.0.0.1:{first} {check}
    server south 127.0.0.1:{second} {check}
""")
    place.start("haproxy", "-db", "-f", config, port=balancer)
    place.start("node", place.write("tracking.js", TRACKING), front, balancer, port=front)
    return wrk(f"http://127.0.0.1:{front}/", 8, place.seconds)


# A shop orders a label. The page puts the order into a queue, and looks for the image that one of
# the renderers stores.
ORDER = """<?php
function connected($port) {
    $address = "tcp://127.0.0.1:$port";
    return stream_socket_client($address, $number, $text, 5, STREAM_CLIENT_CONNECT | STREAM_CLIENT_PERSISTENT);
}

// Returns one bulk string of a reply, or null.
function bulk($store) {
    $length = (int) substr(fgets($store), 1);
    return $length < 0 ? null : substr(stream_get_contents($store, $length + 2), 0, -2);
}

$queue = connected(QUEUE);
$store = connected(STORE);
$parcel = bin2hex(random_bytes(8));
fwrite($queue, "put 100 0 60 " . strlen($parcel) . "\\r\\n$parcel\\r\\n");
fgets($queue);
if (PAUSE) {
    while (true) {
        fwrite($store, "LPOP label:$parcel\\r\\n");
        $image = bulk($store);
        if ($image !== null) {
            break;
        }
        usleep(PAUSE);
    }
} else {
    fwrite($store, "BLPOP label:$parcel 20\\r\\n");
    fgets($store);
    bulk($store);
    $image = bulk($store);
}
header("Content-Type: image/png");
echo $image;
"""
RENDERER = """#!/usr/bin/ruby
require "socket"
require "zlib"
queue, store = ARGV[0, 2].map { |port| TCPSocket.new("127.0.0.1", port.to_i) }
[queue, store].each { |socket| socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1) }

def chunk(kind, data)
  [data.bytesize, kind, data, Zlib.crc32(kind + data)].pack("NA4A*N")
end

# The bars of the code are black or white columns, on 240 rows; below is the code in dots.
def image(code)
  bars = code.bytes.flat_map { |byte| 8.times.map { |bit| byte[bit] == 1 ? 0 : 255 } * 2 }
  row = [0, *bars].pack("C*")
  dots = 60.times.map { |y| [0, *bars.each_index.map { |x| (x * x + y * code.sum) % 251 }].pack("C*") }
  size = [bars.size, 300, 8, 0, 0, 0, 0].pack("NNC5")
  "\\x89PNG\\r\\n\\x1a\\n".b + chunk("IHDR", size) + chunk("IDAT", Zlib.deflate(row * 240 + dots.join)) + chunk("IEND", "")
end

File.write("renderer-#{ARGV[2]}", "")
queue.write("reserve\\r\\n")
while (job = queue.gets.split)
  code = queue.gets.strip
  label = image(code)
  name = "label:#{code}"
  store.write("*3\\r\\n$5\\r\\nRPUSH\\r\\n$#{name.size}\\r\\n#{name}\\r\\n$#{label.bytesize}\\r\\n".b + label + "\\r\\n")
  store.gets
  queue.write("delete #{job[1]}\\r\\n")
  queue.gets
  queue.write("reserve\\r\\n")
end
"""


def polling(place):
    queue, store = place.port(), redis(place)
    place.start("beanstalkd", "-l", "127.0.0.1", "-p", queue, port=queue)
    renderer = place.write("renderer", RENDERER)
    for number in range(2):
        place.start(renderer, queue, store, number, path=place.folder / f"renderer-{number}")
    values = {"QUEUE": queue, "STORE": store, "PAUSE": round(100000 * place.fault)}
    page = ORDER
    for name, value in values.items():
        page = page.replace(name, str(value))
    return wrk(f"http://127.0.0.1:{php(place, page, 8)}/order", 6, place.seconds)


# The terminals of three vans send the telegrams that they have stored on the road, twenty at
# once, and wait until the last of them is confirmed.
TERMINALS = """
package main

import ("bufio"; "bytes"; "fmt"; "net"; "os"; "strconv"; "sync"; "time")

func upload(port string, terminal, count int) {
	link, err := net.Dial("tcp", "127.0.0.1:" + port)
	if err != nil {
		panic(err)
	}
	defer link.Close()
	answers := bufio.NewReader(link)
	for sent := 0; sent < count; sent += 20 {
		var text bytes.Buffer
		for i := sent; i < sent + 20; i++ {
			fmt.Fprintf(&text, "SCAN;%02d;%013d;%04d;%s\\n", terminal, 4006381000000 + i, i % 97,
				"delivered to the neighbour on the second floor; signed with a finger; no damage; van 17; tour of the morning; weight 2.4 kg")
		}
		if _, err := link.Write(text.Bytes()); err != nil {
			panic(err)
		}
		if _, err := answers.ReadString('\\n'); err != nil {
			panic(err)
		}
	}
}

func main() {
	count, _ := strconv.Atoi(os.Args[2])
	var all sync.WaitGroup
	begin := time.Now()
	for terminal := 0; terminal < 3; terminal++ {
		all.Add(1)
		go func() {
			defer all.Done()
			upload(os.Args[1], terminal, count)
		}()
	}
	all.Wait()
	fmt.Printf("items %d seconds %.3f\\n", 3 * count, time.Since(begin).Seconds())
}
"""
# A thread for each terminal reads telegrams, writes them into a journal, and counts the scans of
# each tour in memcached.
SCANGATE = r"""
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int counters_port;

struct terminal { int link; size_t from, to; char buffer[READ_SIZE]; };

static int next_letter(struct terminal *terminal) {
    if (terminal->from == terminal->to) {
        ssize_t got = read(terminal->link, terminal->buffer, sizeof terminal->buffer);
        if (got <= 0)
            return -1;
        terminal->from = 0;
        terminal->to = got;
    }
    return (unsigned char)terminal->buffer[terminal->from++];
}

static int connected(int port) {
    int link = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(link, (struct sockaddr *)&address, sizeof address))
        exit(1);
    return link;
}

static void *serve(void *argument) {
    struct terminal *terminal = argument;
    int counters = connected(counters_port), letter, number = 0;
    char name[40], line[500], answer[100];
    snprintf(name, sizeof name, "journal-%d", terminal->link);
    FILE *journal = fopen(name, "w");
    for (;;) {
        size_t length = 0;
        while ((letter = next_letter(terminal)) != '\n' && letter >= 0)
            if (length < sizeof line - 1)
                line[length++] = letter;
        if (letter < 0)
            break;
        line[length] = 0;
        unsigned sum = 7;
        for (size_t i = 0; i < length; i++)
            sum = sum * 31 + (unsigned char)line[i];
        fprintf(journal, "%s;%08x\n", line, sum);
        if (++number % 20)
            continue;
        int size = snprintf(answer, sizeof answer, "set tour%d 0 0 8\r\n%08x\r\n", number % 9, sum);
        if (write(counters, answer, size) < 0 || read(counters, answer, sizeof answer) <= 0 || write(terminal->link, "OK\n", 3) < 0)
            break;
    }
    fclose(journal);
    close(counters);
    close(terminal->link);
    free(terminal);
    return 0;
}

int main(int count, char **words) {
    int server = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    counters_port = atoi(words[count - 1]);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(server, (struct sockaddr *)&address, sizeof address) || listen(server, 50))
        return 1;
    for (;;) {
        struct terminal *terminal = calloc(1, sizeof *terminal);
        pthread_t thread;
        terminal->link = accept(server, 0, 0);
        if (terminal->link < 0 || pthread_create(&thread, 0, serve, terminal))
            return 1;
        pthread_detach(thread);
    }
}
"""


def telegrams(place):
    counters, port = place.port(), place.port()
    place.start("memcached", "-u", "root", "-l", "127.0.0.1", "-p", counters, "-t", "1", "-U", "0", port=counters)
    size = 4096 if place.fixed else 1
    place.start(place.c("scangate", SCANGATE, f"-DREAD_SIZE={size}"), port, counters, port=port)
    return [str(place.go("terminals", TERMINALS)), str(port), "20000"]


# Loads the manifests of an hour into the warehouse, and then the sums of each depot.
LOADHOUR = """#!/bin/bash
set -eo pipefail
clean() { tr -d '\\r' | grep -v '^#'; }
if [ "$1" = each ]; then
    for manifest in manifests/*.csv; do
        clean < "$manifest" | psql AT -q -c "copy scans from stdin with (format csv)"
    done
else
    cat manifests/*.csv | clean | psql AT -q -c "copy scans from stdin with (format csv)"
fi
psql AT -q -c "insert into hours select depot, date_trunc('hour', at), count(*), sum(grams) from scans group by 1, 2"
"""


def hour(place):
    base = postgres(place, """
        create table scans (barcode text, depot int, grams int, at timestamp, primary key (barcode, at));
        create table hours (depot int, hour timestamp, parcels int, grams bigint);
        checkpoint""", fsync="off")
    (place.folder / "manifests").mkdir()
    for tour in range(150):
        times = [f"2024-03-05 {6 + i % 9:02}:{i % 60:02}:{tour % 60:02}" for i in range(250)]
        rows = "".join(f"JJD{tour:04}{i:06},{(tour + i) % 25},{200 + i * 37 % 9000},{time}\r\n" for i, time in enumerate(times))
        place.write(f"manifests/tour{tour:03}.csv", f"# manifest of tour {tour}\r\n{rows}", mode=0o644)
    script = LOADHOUR.replace("AT", " ".join(at(base)))
    return [str(place.write("loadhour", script)), "all" if place.fixed else "each"]


# Plans the tours of the morning, two at a time.
PLANNER = """#!/usr/bin/python3
import http.client, sys, threading, time

port, count = map(int, sys.argv[1:])

def plan(first):
    router = http.client.HTTPConnection("127.0.0.1", port)
    for tour in range(first, count, 2):
        router.request("GET", f"/tour?{tour * 1709}")
        answer = router.getresponse()
        text = answer.read()
        if answer.status == 200:
            tours.append(text)

tours = []
threads = [threading.Thread(target=plan, args=(first,)) for first in range(2)]
begin = time.monotonic()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if len(tours) < count:
    sys.exit("tours are missing")
print(f"items {count} seconds {time.monotonic() - begin:.3f}")
"""
# Keeps the roads of the region in memory, and finds the shortest ways between the stops of a tour.
ROUTER = """
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.concurrent.Executors;

public class Main {
    static final int SIDE = 400;
    record Road(int to, double minutes, String name) {}
    record Step(int at, double minutes) {}
    static final List<List<Road>> roads = new ArrayList<>();

    static void build() {
        int[][] ways = {{0, 1}, {1, 0}, {0, -1}, {-1, 0}};
        for (int at = 0; at < SIDE * SIDE; at++) {
            List<Road> here = new ArrayList<>(4);
            for (int[] way : ways) {
                int x = at % SIDE + way[0], y = at / SIDE + way[1];
                if (x >= 0 && y >= 0 && x < SIDE && y < SIDE)
                    here.add(new Road(y * SIDE + x, 1 + (at * 31 + x * 17) % 13 / 5.0, "road " + x + "/" + y));
            }
            roads.add(here);
        }
    }

    static double shortest(int from, int to) {
        Map<Integer, Double> best = new HashMap<>();
        PriorityQueue<Step> next = new PriorityQueue<>((a, b) -> Double.compare(a.minutes, b.minutes));
        next.add(new Step(from, 0));
        while (!next.isEmpty()) {
            Step step = next.poll();
            if (step.at == to)
                return step.minutes;
            if (best.getOrDefault(step.at, 1e9) < step.minutes)
                continue;
            for (Road road : roads.get(step.at)) {
                double minutes = step.minutes + road.minutes;
                if (minutes < best.getOrDefault(road.to, 1e9)) {
                    best.put(road.to, minutes);
                    next.add(new Step(road.to, minutes));
                }
            }
        }
        return -1;
    }

    public static void main(String[] words) throws Exception {
        build();
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 100);
        server.setExecutor(Executors.newFixedThreadPool(2));
        server.createContext("/tour", exchange -> {
            int seed = Integer.parseInt(exchange.getRequestURI().getQuery());
            double minutes = 0;
            int x = 50 + seed % 150, y = 50 + seed / 150 % 150;
            for (int stop = 0; stop < 6; stop++) {
                int toX = x + (seed + stop * 7) % 31 - 15, toY = y + (seed + stop * 11) % 31 - 15;
                minutes += shortest(y * SIDE + x, toY * SIDE + toX);
                x = Math.max(40, Math.min(220, toX));
                y = Math.max(40, Math.min(220, toY));
            }
            byte[] text = String.format("%.1f minutes", minutes).getBytes();
            exchange.sendResponseHeaders(200, text.length);
            exchange.getResponseBody().write(text);
            exchange.close();
        });
        server.start();
    }
}
"""


def heap(place):
    port = place.port()
    size = "500m" if place.fixed else "76m"
    place.start("java", "-Dsun.net.httpserver.nodelay=true", "-XX:+UseSerialGC", f"-Xmx{size}", "-cp", place.java(ROUTER), "Main", port,
                port=port)
    return [str(place.write("planner", PLANNER)), str(port), "600"]


# Control: the images of labels come from nginx's cache, in front of a service that draws them.
LABELS = """
package main

import ("bytes"; "image"; "image/color"; "image/png"; "net/http"; "os")

func main() {
	http.HandleFunc("/label/", func(w http.ResponseWriter, r *http.Request) {
		label := image.NewGray(image.Rect(0, 0, 320, 120))
		for x := 0; x < 320; x++ {
			for y := 0; y < 120; y++ {
				if code := r.URL.Path[7 + x / 8 % (len(r.URL.Path) - 7)]; code >> (x % 8) & 1 == 0 {
					label.SetGray(x, y, color.Gray{255})
				}
			}
		}
		var data bytes.Buffer
		png.Encode(&data, label)
		w.Header().Set("Content-Type", "image/png")
		w.Header().Set("Cache-Control", "max-age=3600")
		w.Write(data.Bytes())
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""
VIEWERS = """
local label = 0
request = function()
  label = (label + 1) % 300
  return wrk.format("GET", "/label/" .. 7000 + label)
end
"""


def images(place):
    labels = place.port()
    place.start(place.go("labels", LABELS), labels, port=labels)
    front = nginx(place, """
  location / { proxy_pass http://labels; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_cache labels; }""", f"""
  proxy_cache_path {place.folder}/cache keys_zone=labels:2m use_temp_path=off;
  upstream labels {{ server 127.0.0.1:{labels}; keepalive 16; }}""")
    load = wrk(f"http://127.0.0.1:{front}", 8, place.seconds)
    return [*load[:1], "-s", str(place.write("viewers.lua", VIEWERS)), *load[1:]]


# Control: the doors of a hall report a parcel each 25 ms by the clock of the belt, and three
# workers of gunicorn have the time to look up its chute.
BELT = """
package main

import ("fmt"; "io"; "net/http"; "os"; "strconv"; "sync"; "time")

func main() {
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 32
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	var all sync.WaitGroup
	begin := time.Now()
	clock := time.NewTicker(25 * time.Millisecond)
	parcels := int(seconds * 40)
	for parcel := 0; parcel < parcels; parcel++ {
		<-clock.C
		all.Add(1)
		go func() {
			defer all.Done()
			answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%s/chute/%d", os.Args[1], parcel * 37 % 20000))
			if err != nil || answer.StatusCode != 200 {
				panic("no chute")
			}
			io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}()
	}
	all.Wait()
	fmt.Printf("items %d seconds %.3f\\n", parcels, time.Since(begin).Seconds())
}
"""
CHUTES = """
import psycopg2
from flask import Flask, jsonify

app = Flask(__name__)
cursors = []

@app.get("/chute/<int:parcel>")
def chute(parcel):
    if not cursors:
        base = psycopg2.connect(host="127.0.0.1", port=PORT, user="postgres")
        base.autocommit = True
        cursors.append(base.cursor())
    cursors[0].execute("select chute, tour from parcels where id = %s", (parcel,))
    number, tour = cursors[0].fetchone()
    cursors[0].execute("update parcels set scans = scans + 1 where id = %s", (parcel,))
    return jsonify(chute=number, tour=tour)
"""


def belt(place):
    base = postgres(place, """
        create table parcels (id int primary key, chute int, tour int, scans int);
        insert into parcels select i, i % 80, i % 33, 0 from generate_series(0, 20000) i;
        analyze; checkpoint""", synchronous_commit="off")
    port, front = place.port(), place.port()
    place.write("chutes.py", CHUTES.replace("PORT", str(base)))
    place.start("/usr/bin/gunicorn", "-w", "3", "-b", f"127.0.0.1:{port}", "--chdir", place.folder, "chutes:app", port=port)
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend hall
    bind 127.0.0.1:{front}
    default_backend chutes
backend chutes
    server chutes 127.0.0.1:{port}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return [str(place.go("belt", BELT)), str(front), str(place.seconds)]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="parcel_hung_depot",
        kind="hung-instance-timeout",
        truth="haproxy waits 160 ms, until its timeout, for the reply of the second instance of "
              "java, whose threads are in a deadlock, and then asks the other instance; without a "
              "health check it sends every second request to the hung one first",
        load=hung,
        rate=WRK,
        component=(r"haproxy", r"\bjava\b", r"\bdepot", r"\bsouth\b"),
        mechanism=(*SLEEPS, *LOCKS, r"time-?outs?", r"times out", r"\bh[au]ngs?\b", r"deadlock", r"retr(y|ies)", r"futex",
                   r"(never|not|no|without) (a )?(repl|answer|respon)",
                   r"(repl(y|ies)|answers?|responses?) (of|from|by) (the )?(\w+ )?(java|depot|south|Main)",
                   r"(java|depot|south|Main)[^;]*(repl(y|ies)|answers?|responds?)"),
        never=(*DISK, r"(haproxy|java|node|tracking\S*) (\([^)]*\) )?(computes|runs its own code)"),
        halves=True,
        running=True,
        needs=("haproxy", "java", "javac", "node", "wrk"),
    ),
    System(
        name="parcel_label_by_polling",
        kind="poll-interval",
        truth="the page in php-fpm sleeps 100 ms before it looks into redis again for the label, "
              "which the renderers have stored after a few milliseconds",
        load=polling,
        rate=WRK,
        component=(r"php",),
        mechanism=(*SLEEPS, r"\bpoll(s|ed|ing)\b", r"\bpauses?\b"),
        never=(*DISK, r"(renderer\S*|ruby|redis\S*|beanstalkd|nginx) (\([^)]*\) )?(sleeps|computes)"),
        halves=True,
        needs=("nginx", f"/usr/sbin/{PHP_FPM}", "beanstalkd", "redis-server", "ruby", "wrk"),
    ),
    System(
        name="parcel_telegrams_byte_by_byte",
        kind="unbuffered-reads",
        truth="scangate, in C, is in the kernel nearly all the time, because it reads the telegrams "
              "of the terminals with one system call for each byte",
        load=telegrams,
        rate=ITEMS,
        component=(r"scangate",),
        mechanism=(r"\bread\b", r"reads (one|a|single|small|few)", r"recv", r"system calls?\b", r"syscalls?\b", r"kernel", r"\bbytes?\b"),
        never=(*DISK, r"scangate (\([^)]*\) )?sleeps", r"memcached (\([^)]*\) )?(computes|sleeps)"),
        needs=("memcached", "gcc", "go"),
    ),
    System(
        name="parcel_manifests_of_an_hour",
        kind="process-per-item",
        truth="loadhour, in bash, starts tr, grep and psql anew for each of 150 manifests, and their "
              "start, with perl in front of psql and a new connection to postgres, takes nearly "
              "all of the time",
        load=hour,
        component=(r"loadhour", r"\bpsql\b", r"\bbash\b", r"\bperl\b", r"pg_wrapper",
                   r"postgres[^;]*(connection|fork|start)"),
        mechanism=(r"\bstart(s|ed|ing)?\b", r"start-?up", r"fork", r"\bexec", r"spawn", r"clone", r"\bconnects?\b", r"connection",
                   r"short-?lived", r"\bld\.so", r"librar(y|ies)", r"\d+ (\w+ )?(process|program)", r"one after (another|the other)",
                   r"(new|many) (process|program)", r"for each"),
        never=DISK,
        needs=("bash", "psql", "perl", "grep"),
    ),
    System(
        name="parcel_router_with_a_full_heap",
        kind="gc-heap-too-small",
        truth="the VM Thread of java, the router, computes full garbage collections most of the "
              "time while all other threads of it stand still, because the roads nearly fill the "
              "heap of 76 MB",
        load=heap,
        rate=ITEMS,
        component=(r"\bjava\b", r"VM Thread", r"\brouter\b", r"\bMain\b"),
        mechanism=(r"\bGC\b", r"garbage", r"\bcollect(s|ion|or|ing)", r"VM[ _]Thread", r"\bheap\b", r"[Mm]ark[-_ ]?([Ss]weep|[Cc]ompact)"),
        never=(*DISK, r"java (\([^)]*\) )?sleeps"),
        needs=("java", "javac", PYTHON),
    ),
    System(
        name="control_parcel_label_images",
        kind="control",
        truth="nginx has all images of labels in its cache and sends them as fast as wrk asks for "
              "them; both compute, and labels, in Go, is idle",
        load=images,
        rate=WRK,
        acceptable=(*NOTHING, rf"(nginx|wrk).*{COMPUTES}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs", r"load generator"),
        needs=("nginx", "go", "wrk"),
    ),
    System(
        name="control_parcel_belt",
        kind="control",
        truth="belt, in Go, sends a parcel each 25 ms by its own clock; haproxy, three workers of "
              "gunicorn and postgres reply long before the next one, and all are idle most of the "
              "time",
        load=belt,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by belt", r"\bbelt\b.*(sleep|timer|until a time|clock|paced)", r"\bidle\b", r"load generator"),
        needs=("haproxy", "/usr/bin/gunicorn", "psql", "go"),
    ),
]
