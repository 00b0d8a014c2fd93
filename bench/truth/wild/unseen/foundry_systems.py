"""The ordering portal of a foundry: five faults in the middle or at the end of chains of services,
or in how one service calls the next, and two healthy parts of the same portal.
"""
import os
import pwd

from services import nginx, postgres, redis
from system import ITEMS, PYTHON, SLEEPS, WRK, System, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")


def proxy(place, server, mode="http"):
    """Starts haproxy in front of one server; returns its port."""
    front = place.port()
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode {mode}
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend portal
    bind 127.0.0.1:{front}
    default_backend inside
backend inside
    server inside 127.0.0.1:{server}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return front


# The page of a customer asks for the minutes of work that its open orders still need.
GATEWAY = """
const http = require("http");
const [port, backlog] = process.argv.slice(2).map(Number);
const agent = new http.Agent({ keepAlive: true, maxSockets: 16 });

http.createServer((request, response) => {
  const call = { host: "127.0.0.1", port: backlog, path: "/backlog" + request.url.slice(9), agent };
  http.get(call, answer => {
    let text = "";
    answer.on("data", piece => text += piece);
    answer.on("end", () => {
      const alloys = JSON.parse(text);
      const total = alloys.reduce((sum, alloy) => sum + alloy.minutes, 0);
      response.end(JSON.stringify({ alloys: alloys.length, hours: Math.round(total / 60) }));
    });
  }).on("error", error => response.writeHead(502).end(error.message));
}).listen(port, "127.0.0.1");
"""
BACKLOG = """
import psycopg2
from flask import Flask, jsonify, request

app = Flask(__name__)
base = None

@app.get("/backlog")
def backlog():
    global base
    if base is None:
        base = psycopg2.connect(host="127.0.0.1", port=PORT, user="postgres", dbname="postgres")
        base.autocommit = True
    cursor = base.cursor()
    cursor.execute('''
        select item->>'alloy' as alloy, count(*), sum((step->>'minutes')::int * (item->>'pieces')::int)
        from orders, jsonb_array_elements(items) item, jsonb_array_elements(item->'steps') step
        where customer = %s and step->>'state' <> 'done'
        group by 1 order by 3 desc''', (int(request.args["customer"]),))
    return jsonify([{"alloy": alloy, "steps": steps, "minutes": minutes} for alloy, steps, minutes in cursor])
"""
CUSTOMERS = """
local count = 0
request = function()
  count = count + 1
  return wrk.format("GET", "/customer?customer=" .. count % 12)
end
"""


def estimate(place):
    base = postgres(place, """
        create table orders (id int primary key, customer int, items jsonb);
        insert into orders select i, i % 12, (
            select jsonb_agg(jsonb_build_object('alloy', 'EN-' || (i + n) % 9, 'pieces', 1 + (i * n) % 40, 'steps', jsonb_build_array(
                jsonb_build_object('step', 'mould', 'minutes', 20 + i % 17, 'state', 'done'),
                jsonb_build_object('step', 'pour', 'minutes', 5 + n, 'state', case when i % 3 = 0 then 'done' else 'open' end),
                jsonb_build_object('step', 'grind', 'minutes', 9 + i % 5, 'state', 'open'))))
            from generate_series(1, 2) n) from generate_series(1, 4000) i;
        create index on orders (customer); analyze; checkpoint""", jit="off" if place.fixed else "on", fsync="off")
    port, gateway = place.port(), place.port()
    place.write("backlog.py", BACKLOG.replace("PORT", str(base)))
    place.start("/usr/bin/gunicorn", "-w", "4", "-b", f"127.0.0.1:{port}", "--chdir", place.folder, "backlog:app", port=port)
    place.start("node", place.write("gateway.js", GATEWAY), gateway, port, port=gateway)
    front = nginx(place, 'location / { proxy_pass http://gateway; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream gateway {{ server 127.0.0.1:{gateway}; keepalive 16; }}")
    load = wrk(f"http://127.0.0.1:{front}/", 4, place.seconds)
    return [*load[:1], "-s", str(place.write("customers.lua", CUSTOMERS)), *load[1:]]


# The offer for a casting needs the price of six parts, each from another supplier. A container
# with two CPUs has a common pool of one thread, and each request adds only its own thread.
OFFERS = """
import com.sun.net.httpserver.HttpServer;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.URL;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;

public class Main {
    static String suppliers;

    static int price(int supplier, String casting) {
        try {
            URL url = new URL("http://127.0.0.1:" + suppliers + "/price/" + supplier + "?" + casting);
            HttpURLConnection call = (HttpURLConnection) url.openConnection();
            try (InputStream answer = call.getInputStream()) {
                return Integer.parseInt(new String(answer.readAllBytes()).trim());
            }
        } catch (java.io.IOException error) {
            throw new RuntimeException(error);
        }
    }

    static int inStream(String casting) {
        return IntStream.range(0, 6).parallel().map(supplier -> price(supplier, casting)).sum();
    }

    static int inPool(ExecutorService pool, String casting) throws Exception {
        List<Callable<Integer>> calls = new ArrayList<>();
        for (int i = 0; i < 6; i++) {
            int supplier = i;
            calls.add(() -> price(supplier, casting));
        }
        int sum = 0;
        for (Future<Integer> answer : pool.invokeAll(calls))
            sum += answer.get();
        return sum;
    }

    public static void main(String[] words) throws Exception {
        suppliers = words[1];
        ExecutorService pool = words[2].equals("pool") ? Executors.newFixedThreadPool(48) : null;
        InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0]));
        HttpServer server = HttpServer.create(address, 100);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/offer", exchange -> {
            String casting = exchange.getRequestURI().getQuery();
            byte[] offer;
            try {
                offer = ("offer " + (pool == null ? inStream(casting) : inPool(pool, casting))).getBytes();
            } catch (Exception error) {
                throw new java.io.IOException(error);
            }
            exchange.sendResponseHeaders(200, offer.length);
            exchange.getResponseBody().write(offer);
            exchange.close();
        });
        server.start();
    }
}
"""
SUPPLIERS = """
package main

import ("fmt"; "net/http"; "os"; "strconv"; "time")

func main() {
	pause, _ := strconv.ParseFloat(os.Args[2], 64)
	http.HandleFunc("/price/", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Duration(pause * 1e9))
		sum := 100
		for _, letter := range r.URL.String() {
			sum = (sum * 31 + int(letter)) % 5000
		}
		fmt.Fprintln(w, sum)
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def common_pool(place):
    suppliers, offers = place.port(), place.port()
    place.start(place.go("suppliers", SUPPLIERS), suppliers, 0.010 * place.scale, port=suppliers)
    place.start("java", "-Dsun.net.httpserver.nodelay=true", "-Dhttp.maxConnections=64", "-XX:ActiveProcessorCount=2", "-Xmx128m",
                "-cp", place.java(OFFERS), "Main", offers, suppliers, "pool" if place.fixed else "stream", port=offers)
    return wrk(f"http://127.0.0.1:{proxy(place, offers)}/offer?casting=4711", 4, place.seconds)


# Asks for a quote for each drawing of an inquiry, four at a time.
INQUIRY = """#!/usr/bin/ruby
require "net/http"
port, count = ARGV.map(&:to_i)
drawings = Queue.new
count.times { |drawing| drawings << drawing }
drawings.close
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
4.times.map do
  Thread.new do
    Net::HTTP.start("127.0.0.1", port) do |http|
      while (drawing = drawings.pop)
        quote = http.get("/quote?drawing=#{drawing}")
        raise quote.body unless quote.code == "200"
      end
    end
  end
end.each(&:join)
puts "items #{count} seconds #{(Process.clock_gettime(Process::CLOCK_MONOTONIC) - start).round(3)}"
"""
QUOTES = """
import pika
from flask import Flask, request

app = Flask(__name__)
channel, answers = None, []

def took(channel, method, properties, body):
    answers.append(body)

@app.get("/quote")
def quote():
    global channel
    if channel is None:
        channel = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", PORT, heartbeat=0)).channel()
        if DIRECT:
            channel.basic_consume("amq.rabbitmq.reply-to", took, auto_ack=True)
    if DIRECT:
        queue = "amq.rabbitmq.reply-to"
    else:
        queue = channel.queue_declare("", durable=True, auto_delete=True).method.queue
        consumer = channel.basic_consume(queue, took, auto_ack=True)
    channel.basic_publish("", "drawings", request.args["drawing"], pika.BasicProperties(reply_to=queue))
    while not answers:
        channel.connection.process_data_events(10)
    if not DIRECT:
        channel.basic_cancel(consumer)
    return answers.pop()
"""
ESTIMATOR = """#!/usr/bin/python3
import sys
import pika

def estimate(channel, method, properties, body):
    drawing, volume = int(body), 0
    for layer in range(4000):
        volume += (drawing * 31 + layer * 17) % 900
    channel.basic_publish("", properties.reply_to, f"{volume} cm3, {volume * 0.0071:.1f} kg")
    channel.basic_ack(method.delivery_tag)

channel = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", int(sys.argv[1]), heartbeat=0)).channel()
channel.queue_declare("drawings")
channel.basic_qos(prefetch_count=4)
channel.basic_consume("drawings", estimate)
open(f"estimator-{sys.argv[2]}", "w").close()
channel.start_consuming()
"""


def rabbitmq(place):
    """Starts a broker with a port mapper of its own; returns its port."""
    folder, port, mapper, inner = place.folder, place.port(), place.port(), place.port()
    place.start("epmd", "-port", mapper, "-address", "127.0.0.1", port=mapper)
    plugins, config = place.write("plugins", "[].\n", mode=0o644), place.write("rabbitmq.conf", "log.file.level = error\n", mode=0o644)
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", "ERL_EPMD_PORT": str(mapper), "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": "foundry@localhost", "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1", "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(inner), "RABBITMQ_MNESIA_BASE": f"{folder}/broker", "RABBITMQ_LOG_BASE": f"{folder}/broker-log",
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins), "RABBITMQ_CONFIG_FILE": str(config), "RABBITMQ_PID_FILE": f"{folder}/broker.pid",
        "RABBITMQ_ADVANCED_CONFIG_FILE": f"{folder}/none.config", "RABBITMQ_CONF_ENV_FILE": f"{folder}/none.conf",
        "RABBITMQ_GENERATED_CONFIG_DIR": f"{folder}/generated",
    }
    place.start("/usr/lib/rabbitmq/bin/rabbitmq-server", port=port, env=environment)
    return port


def reply_queues(place):
    broker, port = rabbitmq(place), place.port()
    estimator = place.write("estimator", ESTIMATOR)
    for number in range(2):
        place.start(estimator, broker, number, path=place.folder / f"estimator-{number}")
    place.write("quotes.py", QUOTES.replace("PORT", str(broker)).replace("DIRECT", str(place.fixed)))
    place.start("/usr/bin/gunicorn", "-w", "4", "-b", f"127.0.0.1:{port}", "--chdir", place.folder, "quotes:app", port=port)
    front = nginx(place, f"location / {{ proxy_pass http://127.0.0.1:{port}; }}")
    return [str(place.write("inquiry", INQUIRY)), str(front), "900"]


# Takes the alloys of a pick list from the stock, over four connections.
PICKLIST = """#!/usr/bin/php -n
<?php
[, $port, $count] = $argv;
$links = [];
for ($i = 0; $i < 4; $i++) {
    $links[] = stream_socket_client("tcp://127.0.0.1:$port");
}
$start = microtime(true);
for ($pick = 0; $pick < $count; $pick += 4) {
    foreach ($links as $i => $link) {
        fwrite($link, sprintf("%d %d\\n", ($pick + $i) * 37 % 500, 1 + $pick % 9));
    }
    foreach ($links as $link) {
        if (!str_starts_with(fgets($link), "left ")) {
            exit("no stock\\n");
        }
    }
}
printf("items %d seconds %.3f\\n", $count, microtime(true) - $start);
"""
STOCK = r"""
#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <libpq-fe.h>
#include <netinet/tcp.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

// Takes what each line asks for from the stock, and answers what is left.
static void serve(int link, std::string base) {
    PGconn *connection = PQconnectdb(base.c_str());
    FILE *lines = fdopen(link, "r");
    char line[100];
    while (PQstatus(connection) == CONNECTION_OK && fgets(line, sizeof line, lines)) {
        int alloy, kilos;
        if (sscanf(line, "%d %d", &alloy, &kilos) != 2)
            break;
        char query[200], answer[100];
        snprintf(query, sizeof query, "update stock set kilos = kilos - %d where alloy = %d returning kilos", kilos, alloy);
        PGresult *result = PQexec(connection, query);
        if (PQntuples(result) != 1) {
            fprintf(stderr, "%s\n", PQerrorMessage(connection));
            break;
        }
        int length = snprintf(answer, sizeof answer, "left %s\n", PQgetvalue(result, 0, 0));
        PQclear(result);
        if (write(link, answer, length) < 0)
            break;
    }
    PQfinish(connection);
    fclose(lines);
}

int main(int, char **words) {
    int door = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(atoi(words[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(door, (sockaddr *)&address, sizeof address) || listen(door, 100))
        return 1;
    std::string base = std::string("host=127.0.0.1 dbname=stock user=postgres port=") + words[2];
    for (int link; (link = accept(door, nullptr, nullptr)) >= 0;) {
        setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        std::thread(serve, link, base).detach();
    }
}
"""


def pooler(place):
    base = postgres(place, """
        create table stock (alloy int primary key, kilos bigint);
        insert into stock select i, 100000000 from generate_series(0, 499) i; analyze; checkpoint""", fsync="off", synchronous_commit="off")
    port, stock = place.port(), place.port()
    config = place.write("pgbouncer.ini", f"""
[databases]
stock = host=127.0.0.1 port={base} dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
server_lifetime = {3600 if place.fixed else 0}
log_connections = 0
log_disconnections = 0
""")
    user = pwd.getpwnam("postgres")
    place.start("pgbouncer", config, port=port, user=user.pw_uid, group=user.pw_gid)
    program = place.built(STOCK, ".cc", "g++", "-O2", "-pthread", "-I/usr/include/postgresql", "-o", "{program}", "{source}", "-lpq")
    place.start(place.named(program, "stockd"), stock, port, port=stock)
    return [str(place.write("picklist", PICKLIST)), str(proxy(place, stock, mode="tcp")), "1000"]


# Sends the orders of a day to the intake, and waits until all are planned.
DAYPLAN = """#!/usr/bin/ruby
require "net/http"
port, count = ARGV.map(&:to_i)
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
Net::HTTP.start("127.0.0.1", port) do |http|
  count.times do |order|
    http.post("/order", "#{order} #{50 + order % 90}")
  end
  answer = http.get("/planned?count=#{count}")
  raise answer.body unless answer.code == "200"
end
puts "items #{count} seconds #{(Process.clock_gettime(Process::CLOCK_MONOTONIC) - start).round(3)}"
"""
INTAKE = """
package main

import ("bufio"; "fmt"; "io"; "net"; "net/http"; "os"; "sync")

var (
	door sync.Mutex
	link net.Conn
	replies *bufio.Reader
)

// ask sends a command to redis, and returns the last of the given number of lines of its reply.
func ask(lines int, words ...string) (line string) {
	text := fmt.Sprintf("*%d\\r\\n", len(words))
	for _, word := range words {
		text += fmt.Sprintf("$%d\\r\\n%s\\r\\n", len(word), word)
	}
	door.Lock()
	defer door.Unlock()
	io.WriteString(link, text)
	for ; lines > 0; lines-- {
		line, _ = replies.ReadString('\\n')
	}
	return
}

func main() {
	link, _ = net.Dial("tcp", "127.0.0.1:" + os.Args[2])
	replies = bufio.NewReader(link)
	http.HandleFunc("/order", func(w http.ResponseWriter, r *http.Request) {
		order, _ := io.ReadAll(r.Body)
		ask(1, "LPUSH", "orders", string(order))
		w.WriteHeader(202)
	})
	http.HandleFunc("/planned", func(w http.ResponseWriter, r *http.Request) {
		count := 0
		fmt.Sscan(r.URL.Query().Get("count"), &count)
		for ; count > 0; count-- {
			ask(5, "BRPOP", "planned", "0")
		}
		io.WriteString(w, "all are planned")
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""
# Plans one order after the other. All add to the load of the same furnace.
PLANNER = """#!/usr/bin/python3
import random, sys, time
import psycopg2, redis

store = redis.Redis(port=int(sys.argv[1]))
base = psycopg2.connect(host="127.0.0.1", port=sys.argv[2], user="postgres")
base.autocommit = True
cursor = base.cursor()
open(f"planner-{sys.argv[4]}", "w").close()

def melt(load, kilos):
    heat = 20.0
    for second in range(30000):
        heat += (1560 - heat) * kilos / (400000 + load)
    return round(heat)

def add(kilos):
    if sys.argv[3] == "add":
        degrees = melt(0, kilos)
        cursor.execute("update furnaces set version = version + 1, load = load + %s, degrees = %s where id = 1", (kilos, degrees))
        return
    while True:
        cursor.execute("select version, load from furnaces where id = 1")
        version, load = cursor.fetchone()
        degrees = melt(load, kilos)
        cursor.execute("update furnaces set version = %s, load = %s, degrees = %s where id = 1 and version = %s",
                       (version + 1, load + kilos, degrees, version))
        if cursor.rowcount == 1:
            return
        # Another planner was faster.
        time.sleep(random.uniform(0.03, 0.09))

while True:
    order, kilos = store.brpop("orders")[1].split()
    add(int(kilos))
    cursor.execute("insert into plan values (%s, 1, %s)", (int(order), int(kilos)))
    store.lpush("planned", order)
"""


def versions(place):
    base = postgres(place, """
        create table furnaces (id int primary key, version int, load bigint, degrees int) with (fillfactor = 20);
        create table plan (number int primary key, furnace int, kilos int);
        insert into furnaces select i, 0, 0, 20 from generate_series(1, 5) i; analyze; checkpoint""", fsync="off", synchronous_commit="off")
    store, intake = redis(place), place.port()
    planner = place.write("planner", PLANNER)
    for number in range(8):
        place.start(planner, store, base, "add" if place.fixed else "version", number, path=place.folder / f"planner-{number}")
    place.start(place.go("intake", INTAKE), intake, store, port=intake)
    return [str(place.write("dayplan", DAYPLAN)), str(intake), "1200"]


# Control: where is my casting? Each service of the chain keeps its connections.
TRACKING = """
package main

import ("bufio"; "fmt"; "io"; "net"; "net/http"; "os"; "sync/atomic")

type store struct {
	link net.Conn
	replies *bufio.Reader
}

func connect() store {
	link, err := net.Dial("tcp", "127.0.0.1:" + os.Args[2])
	if err != nil {
		panic(err)
	}
	return store{link, bufio.NewReader(link)}
}

func main() {
	pool := make(chan store, 16)
	for range 16 {
		pool <- connect()
	}
	filler := <-pool
	for casting := range 500 {
		place := fmt.Sprintf("hall %d", casting % 7)
		fmt.Fprintf(filler.link, "SET casting%d \\"%s\\"\\r\\n", casting, place)
		filler.replies.ReadString('\\n')
	}
	pool <- filler
	var count atomic.Int64
	http.HandleFunc("/where", func(w http.ResponseWriter, r *http.Request) {
		held := <-pool
		fmt.Fprintf(held.link, "GET casting%d\\r\\n", count.Add(1) % 500)
		held.replies.ReadString('\\n')
		place, _ := held.replies.ReadString('\\n')
		pool <- held
		io.WriteString(w, place)
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def tracking(place):
    store, port = redis(place), place.port()
    place.start(place.go("tracking", TRACKING), port, store, port=port)
    inner = nginx(place, 'location / { proxy_pass http://tracking; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream tracking {{ server 127.0.0.1:{port}; keepalive 16; }}")
    return wrk(f"http://127.0.0.1:{proxy(place, inner)}/where", 8, place.seconds)


# Control: the spectrometer sends a sample of the melt each 90 ms.
SPECTROMETER = r"""
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static double now(struct timespec *time) {
    clock_gettime(CLOCK_MONOTONIC, time);
    return time->tv_sec + time->tv_nsec / 1e9;
}

int main(int count, char **words) {
    (void)count;
    int link = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(link, (struct sockaddr *)&address, sizeof address))
        return 1;
    struct timespec next;
    double start = now(&next), end = start + atof(words[2]);
    int samples = 0;
    char text[4000];
    for (struct timespec time; now(&time) < end; samples++) {
        int carbon = 300 + samples * 37 % 60;
        int length = sprintf(text, "GET /sample?carbon=%d&silicon=%d HTTP/1.1\r\nHost: laboratory\r\n\r\n", carbon, carbon / 2);
        if (write(link, text, length) != length || (length = read(link, text, sizeof text - 1)) <= 0)
            return 1;
        text[length] = 0;
        if (strncmp(text, "HTTP/1.1 200", 12)) {
            fprintf(stderr, "%s\n", text);
            return 1;
        }
        next.tv_nsec += 90000000;
        if (next.tv_nsec >= 1000000000) {
            next.tv_nsec -= 1000000000;
            next.tv_sec++;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
    struct timespec time;
    printf("items %d seconds %.3f\n", samples, now(&time) - start);
    return 0;
}
"""
LABORATORY = """
import com.sun.net.httpserver.HttpServer;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.concurrent.Executors;

public class Main {
    public static void main(String[] words) throws Exception {
        Socket cache = new Socket("127.0.0.1", Integer.parseInt(words[1]));
        cache.setTcpNoDelay(true);
        BufferedReader replies = new BufferedReader(new InputStreamReader(cache.getInputStream()));
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 100);
        server.setExecutor(Executors.newFixedThreadPool(2));
        server.createContext("/sample", exchange -> {
            String sample = exchange.getRequestURI().getQuery();
            synchronized (cache) {
                cache.getOutputStream().write(("set sample 0 0 " + sample.length() + "\\r\\n" + sample + "\\r\\n").getBytes());
                replies.readLine();
            }
            byte[] verdict = "within limits".getBytes();
            exchange.sendResponseHeaders(200, verdict.length);
            exchange.getResponseBody().write(verdict);
            exchange.close();
        });
        server.start();
    }
}
"""


def samples(place):
    cache, laboratory, front = place.port(), place.port(), place.port()
    place.start("memcached", "-u", "root", "-l", "127.0.0.1", "-p", cache, "-t", "2", port=cache)
    place.start("java", "-Dsun.net.httpserver.nodelay=true", "-Xmx64m", "-cp", place.java(LABORATORY), "Main", laboratory, cache,
                port=laboratory)
    config = place.write("lighttpd.conf", f"""
server.modules = ("mod_proxy")
server.bind = "127.0.0.1"
server.port = {front}
server.document-root = "{place.folder}"
server.max-keep-alive-requests = 1000000
proxy.server = ("" => (("host" => "127.0.0.1", "port" => {laboratory})))
""")
    place.start("lighttpd", "-D", "-f", config, port=front)
    return [str(place.c("spectrometer", SPECTROMETER)), str(front), str(place.seconds)]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
CHAIN = r"(haproxy|nginx|tracking|redis|wrk|load generator)"
SYSTEMS = [
    System(
        name="foundry_backlog_of_a_customer",
        kind="jit-per-query",
        truth="postgres computes: it compiles each query of backlog.py anew with LLVM, because it "
              "expects a hundred elements in each array of JSON and thus a large result, although "
              "the query itself runs for few milliseconds",
        load=estimate,
        rate=WRK,
        component=(r"postgres",),
        mechanism=(*RUNS, r"\bjit", r"llvm", r"compil"),
        never=(*DISK, r"postgres (\([^)]*\) )?sleeps", r"\block"),
        code=(r"(?i)llvm", r"(?i)\bjit"),
        needs=("psql", "/usr/bin/gunicorn", "node", "nginx", "wrk"),
    ),
    System(
        name="foundry_offer_of_six_suppliers",
        kind="blocking-calls-in-common-pool",
        truth="java asks the six suppliers of an offer in a parallel stream, whose common pool has "
              "one thread for all requests, so that the calls, of 10 ms each, wait for one another "
              "(some of the waiting threads spin in helpComplete)",
        load=common_pool,
        rate=WRK,
        component=(r"\bjava\b", r"\bMain\b", r"ForkJoin", r"common ?pool", r"pool-\d", r"\boffers?\b",
                   r"suppliers?[^;]*(one (\w+ )?(call |request )?at a time|in turn|one after)"),
        mechanism=(r"(common|thread|small) ?pool", r"pool of", r"ForkJoin", r"parallel", r"one (\w+ )?(call |request |reply )?at a time",
                   r"\bone after\b", r"in turn", r"at once", r"\bfew(er)? threads", r"(one|single) thread",
                   r"for one another", r"concurren", r"helpComplete", r"\bspin"),
        never=(*DISK, r"java (\([^)]*\) )?sleeps"),
        code=(r"ForkJoin", r"helpComplete", r"awaitDone"),
        halves=True,
        running=True,
        needs=("java", "javac", "go", "haproxy", "wrk"),
    ),
    System(
        name="foundry_queue_for_each_reply",
        kind="reply-queue-per-call",
        truth="rabbitmq (beam.smp) declares and deletes a durable queue for each call, because "
              "quotes.py, under gunicorn, wants a new queue for each reply of estimator",
        load=reply_queues,
        rate=ITEMS,
        component=(r"beam", r"rabbit", r"\berl", r"mnesia", r"(gunicorn|quotes)[^;]*(queue|declar|beam|rabbit|broker|repl(y|ies)|round)"),
        mechanism=(*RUNS, r"queue", r"declar", r"round.?trips?", r"requests? (to|for each)", r"mnesia", r"fsync|fdatasync|\bsync",
                   r"mkdir|unlink|rename|director", r"wait(s|ing)? for [^;]*(repl(y|ies)|answers?|beam|disk)"),
        never=(r"(beam\S*|estimator) (\([^)]*\) )?sleeps", r"estimator (\([^)]*\) )?computes"),
        needs=("/usr/lib/rabbitmq/bin/rabbitmq-server", "epmd", "/usr/bin/gunicorn", "nginx", "ruby", PYTHON),
    ),
    System(
        name="foundry_pool_without_lifetime",
        kind="pool-keeps-no-connection",
        truth="pgbouncer closes each connection to postgres after one transaction (server_lifetime "
              "is 0), so that postgres forks and starts a process for each update of stockd, one "
              "after the other, because pgbouncer opens one connection at a time",
        load=pooler,
        rate=ITEMS,
        component=(r"postgres", r"postmaster", r"pgbouncer"),
        mechanism=(r"process(es)? (for|per|each|that)", r"\bfork", r"\bclone", r"\bstart(s|ed|ing|up)?\b", r"connect",
                   r"short[- ]lived", r"(new|another) (\w+ )?(process|connection)", r"\bspawn", r"creat(es|ing|ion)", r"\bexit",
                   r"page faults?", r"InitPostgres"),
        never=(*DISK, r"(postgres|pgbouncer) (\([^)]*\) )?sleeps", r"\block\b"),
        code=(r"InitPostgres", r"BackendStartup", r"ServerLoop", r"fork", r"clone", r"RelationCache", r"exit_mmap", r"copy_p"),
        needs=("psql", "pgbouncer", "g++", "haproxy", "php"),
    ),
    System(
        name="foundry_version_of_the_furnace",
        kind="optimistic-conflicts",
        truth="planner sleeps 30 to 90 ms each time another planner was faster to change the row of "
              "the furnace, because eight of them compare the version of this one row",
        load=versions,
        rate=ITEMS,
        component=(r"planner",),
        mechanism=(*SLEEPS, r"\bretr(y|ies)", r"conflict", r"back(s|ing)?.?off", r"\bpause"),
        never=(*DISK, r"planner (\([^)]*\) )?computes", r"\block\b"),
        needs=("psql", "redis-server", "go", "ruby", PYTHON),
    ),
    System(
        name="foundry_healthy_tracking",
        kind="control",
        truth="haproxy, nginx, tracking (in Go) and redis keep their connections and answer at "
              "once, and both CPUs are full",
        load=tracking,
        rate=WRK,
        acceptable=(*NOTHING, rf"{CHAIN}.*{COMPUTES}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs", r"load generator", r"client"),
        needs=("haproxy", "nginx", "go", "redis-server", "wrk"),
    ),
    System(
        name="foundry_healthy_samples",
        kind="control",
        truth="spectrometer sends a sample each 90 ms by intention; lighttpd, java and memcached "
              "are done long before the next one, and all are idle most of the time",
        load=samples,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by spectrometer", r"spectrometer.*(sleep|timer|until a time|\bpaced)", r"\bidle\b"),
        needs=("gcc", "lighttpd", "java", "javac", "memcached"),
    ),
]
