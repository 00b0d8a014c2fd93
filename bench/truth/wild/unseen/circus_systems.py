"""The services of a travelling circus: five frequent faults inside one service (its threads,
its condition variable, its memory, its log, its worker processes), and two healthy services.
"""
from services import nginx, redis
from system import ITEMS, PYTHON, WRK, System, number, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# Sells tickets: each order asks the payment provider. The queue of the executor is unbounded, so
# that it never has more threads than its core size, whatever its maximum is.
BOXOFFICE = """
import com.sun.net.httpserver.HttpServer;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.URL;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

public class Main {
    public static void main(String[] words) throws Exception {
        int core = Integer.parseInt(words[2]);
        AtomicInteger count = new AtomicInteger(), orders = new AtomicInteger();
        InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0]));
        HttpServer server = HttpServer.create(address, 200);
        server.setExecutor(new ThreadPoolExecutor(core, 96, 60, TimeUnit.SECONDS, new LinkedBlockingQueue<>(),
            task -> new Thread(task, "order-" + count.incrementAndGet())));
        server.createContext("/order", exchange -> {
            int order = orders.incrementAndGet();
            URL provider = new URL("http://127.0.0.1:" + words[1] + "/pay?order=" + order + "&cents=" + (900 + order % 40 * 50));
            HttpURLConnection payment = (HttpURLConnection) provider.openConnection();
            byte[] receipt;
            try (InputStream answer = payment.getInputStream()) {
                receipt = answer.readAllBytes();
            }
            byte[] ticket = ("ticket " + order + " " + new String(receipt)).getBytes();
            exchange.sendResponseHeaders(200, ticket.length);
            exchange.getResponseBody().write(ticket);
            exchange.close();
        });
        server.start();
    }
}
"""
PAYMENTS = """
const http = require("http"), { URLSearchParams } = require("url");
const [port, pause] = process.argv.slice(2).map(Number);

// The bank answers after some milliseconds.
http.createServer((request, response) => {
  const payment = new URLSearchParams(request.url.split("?")[1]);
  setTimeout(() => response.end(JSON.stringify({ paid: Number(payment.get("cents")), order: payment.get("order") })), pause);
}).listen(port, "127.0.0.1");
"""


def executor(place):
    payments, office, front = place.port(), place.port(), place.port()
    place.start("node", place.write("payments.js", PAYMENTS), payments, 6, port=payments)
    core = 80 if place.fixed else 2
    place.start("java", "-Dsun.net.httpserver.nodelay=true", "-Dhttp.maxConnections=96", "-Xmx256m", "-cp", place.java(BOXOFFICE),
                "Main", office, payments, core, port=office)
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend tickets
    bind 127.0.0.1:{front}
    default_backend office
backend office
    server office 127.0.0.1:{office}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return wrk(f"http://127.0.0.1:{front}/order", 64, place.seconds)


# Plans the loads of the wagons. One thread reads the orders of all connections into a queue, from
# which many planners take them.
WAGONS = r"""
#include <algorithm>
#include <arpa/inet.h>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <netinet/tcp.h>
#include <thread>
#include <unistd.h>
#include <vector>

struct Order {
    int link, town;
};
static std::mutex guard;
static std::condition_variable arrived;
static std::deque<Order> orders;

// Returns how many wagons the crates for a town need: the heaviest first, each into the first wagon
// with room.
static int wagons_for(int town) {
    std::vector<int> crates, wagons;
    for (int i = 0; i < 150; i++)
        crates.push_back(40 + (town * 7919 + i * 104729) % 460);
    std::sort(crates.rbegin(), crates.rend());
    for (int crate : crates) {
        auto place = std::find_if(wagons.begin(), wagons.end(), [&](int load) { return load + crate <= 1000; });
        if (place == wagons.end())
            wagons.push_back(crate);
        else
            *place += crate;
    }
    return wagons.size();
}

static void planner() {
    for (;;) {
        Order order;
        {
            std::unique_lock<std::mutex> lock(guard);
            arrived.wait(lock, [] { return !orders.empty(); });
            order = orders.front();
            orders.pop_front();
        }
        std::string answer = std::to_string(wagons_for(order.town)) + " wagons\n";
        if (write(order.link, answer.data(), answer.size()) < 0)
            return;
    }
}

int main(int, char **words) {
    int planners = atoi(words[2]), one = 1;
    bool all = !strcmp(words[3], "all");
    int door = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(atoi(words[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(door, (sockaddr *)&address, sizeof address) || listen(door, 100))
        return 1;
    std::vector<std::thread> threads;
    for (int i = 0; i < planners; i++)
        threads.emplace_back(planner);
    std::vector<pollfd> links{{door, POLLIN, 0}};
    std::map<int, std::string> begun;
    while (poll(links.data(), links.size(), -1) > 0) {
        if (links[0].revents) {
            int link = accept(door, nullptr, nullptr);
            setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            links.push_back({link, POLLIN, 0});
        }
        for (size_t i = 1; i < links.size(); i++) {
            if (!links[i].revents)
                continue;
            char piece[4096];
            int link = links[i].fd, length = read(link, piece, sizeof piece);
            if (length <= 0) {
                close(link);
                begun.erase(link);
                links.erase(links.begin() + i--);
                continue;
            }
            std::string &text = begun[link].append(piece, length);
            for (size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
                {
                    std::lock_guard<std::mutex> lock(guard);
                    orders.push_back({link, atoi(text.c_str())});
                }
                if (all)
                    arrived.notify_all();
                else
                    arrived.notify_one();
            }
        }
    }
}
"""
LOADMASTER = """
package main

import ("bufio"; "fmt"; "net"; "os"; "strconv"; "sync"; "time")

func main() {
	count, _ := strconv.Atoi(os.Args[2])
	var team sync.WaitGroup
	start := time.Now()
	for first := 0; first < 4; first++ {
		team.Add(1)
		go func() {
			defer team.Done()
			link, err := net.Dial("tcp", "127.0.0.1:"+os.Args[1])
			if err != nil {
				panic(err)
			}
			answers := bufio.NewReader(link)
			for town := first; town < count; town += 4 {
				fmt.Fprintf(link, "%d\\n", town)
				if _, err := answers.ReadString('\\n'); err != nil {
					panic(err)
				}
			}
		}()
	}
	team.Wait()
	fmt.Printf("items %d seconds %.3f\\n", count, time.Since(start).Seconds())
}
"""


def herd(place):
    port = place.port()
    program = place.built(WAGONS, ".cc", "g++", "-O2", "-pthread", "-o", "{program}", "{source}")
    place.start(place.named(program, "wagons"), port, 64, "one" if place.fixed else "all", port=port)
    return [str(place.go("loadmaster", LOADMASTER)), str(port), "12000"]


# Draws the map of free seats. It keeps all visitors of the tour in memory.
SEATMAP = """
package main

import ("encoding/json"; "fmt"; "net/http"; "os"; "sync/atomic")

type Seat struct {
	Row, Number int
	Label       *string
}

type Visitor struct {
	name  *string
	seats []*Seat
	next  *Visitor
}

func main() {
	var first *Visitor
	for i := 0; i < 300000; i++ {
		name := fmt.Sprint("visitor ", i)
		visitor := &Visitor{name: &name, next: first}
		for k := 0; k < 3; k++ {
			visitor.seats = append(visitor.seats, &Seat{i % 30, k, &name})
		}
		first = visitor
	}
	var shows atomic.Int64
	http.HandleFunc("/seats", func(w http.ResponseWriter, r *http.Request) {
		show := int(shows.Add(1))
		free := []*Seat{}
		for row := 0; row < 12; row++ {
			for number := 0; number < 20; number++ {
				if (show*31+row*17+number*7)%3 > 0 {
					label := fmt.Sprintf("%c%d", 'A'+row, number)
					free = append(free, &Seat{row, number, &label})
				}
			}
		}
		json.NewEncoder(w).Encode(free)
	})
	http.HandleFunc("/visitor", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, *first.name)
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def memory_limit(place):
    port = place.port()
    limit = [] if place.fixed else ["GOMEMLIMIT=70MiB"]
    place.start("env", *limit, place.go("seatmap", SEATMAP), port, port=port)
    front = nginx(place, """location / {
        proxy_pass http://seatmap; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffers 8 16k;
    }""", f"upstream seatmap {{ server 127.0.0.1:{port}; keepalive 32; }}")
    return wrk(f"http://127.0.0.1:{front}/seats", 8, place.seconds)


# Books the best free seat. Its log goes to standard output, a pipe to the log shipper, one line at
# a time under the lock of the log's handler.
BOOKING = """
package main

import ("fmt"; "log/slog"; "net/http"; "os"; "sync/atomic")

func main() {
	options := slog.HandlerOptions{}
	if os.Args[2] == "debug" {
		options.Level = slog.LevelDebug
	}
	log := slog.New(slog.NewJSONHandler(os.Stdout, &options))
	var bookings atomic.Int64
	http.HandleFunc("/book", func(w http.ResponseWriter, r *http.Request) {
		booking := int(bookings.Add(1))
		best, most := 0, -1
		for row := 1; row <= 24; row++ {
			score, free := (booking*7+row*13)%101, (booking+row)%4
			log.Debug("row examined", "booking", booking, "row", row, "free", free, "score", score, "phone", fmt.Sprint("555 ", 100000+booking))
			if free > 0 && score > most {
				best, most = row, score
			}
		}
		log.Info("booked", "booking", booking, "row", best)
		fmt.Fprintln(w, "booking", booking, "row", best)
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""
# Hides what is private in each field, and writes the entries into the log of the day.
LOGSHIP = """#!/usr/bin/ruby
require "json"
require "time"

PRIVATE = {
  /\\b\\d{4} \\d{4} \\d{4} (\\d{4})\\b/ => "card \\\\1",
  /\\b555 \\d{4}(\\d+)\\b/ => "phone \\\\1",
  /[\\w.]+@([\\w.]+)/ => "someone at \\\\1"
}

File.open(ARGV[0], "w") do |shipped|
  STDIN.each_line do |line|
    entry = JSON.parse(line)
    entry["time"] = Time.parse(entry["time"]).utc.iso8601(3)
    entry.transform_values! { |value| PRIVATE.reduce(value.to_s) { |text, (found, shown)| text.gsub(found, shown) } }
    shipped.puts(JSON.generate(entry))
  end
end
"""


def debug_log(place):
    port = place.port()
    shipper, booking = place.write("logship", LOGSHIP), place.go("booking", BOOKING)
    level = "info" if place.fixed else "debug"
    place.start("sh", "-c", f"{booking} {port} {level} | {shipper} {place.folder}/shipped.log", port=port)
    return ["ab", "-q", "-l", "-k", "-c", "8", "-n", "6000", f"http://127.0.0.1:{port}/book"]


# Plans the tour from each town, in two processes. The table of roads is in a dictionary of the
# process of a manager, which the others ask for each road, or copy once.
TOURPLAN = """#!/usr/bin/python3
import multiprocessing, sys, time

def begin_planner(shared, mode):
    global roads
    roads = shared.copy() if mode == "copy" else shared

def plan(town):
    "Visits the nearest of ten unvisited neighbours, 100 times."
    seen, length = {town}, 0
    for _ in range(100):
        near = [(roads[town, step], (town + step) % 3000) for step in range(1, 11)]
        cost, town = min((it for it in near if it[1] not in seen), default=near[0])
        seen.add(town)
        length += cost
    return length

if __name__ == "__main__":
    towns, mode = int(sys.argv[1]), sys.argv[2]
    with multiprocessing.Manager() as manager:
        shared = manager.dict({(town, step): (town * 31 + step * 17) % 97 + 5.5 for town in range(3000) for step in range(1, 11)})
        begin = time.monotonic()
        with multiprocessing.Pool(2, begin_planner, (shared, mode)) as pool:
            shortest = min(pool.imap_unordered(plan, range(towns), chunksize=4))
    print(f"items {towns} seconds {time.monotonic() - begin:.3f} shortest {shortest}")
"""


def manager(place):
    job = place.write("tourplan", TOURPLAN)
    return [str(job), "200", "copy" if place.fixed else "ask"]


# Control: eight turnstiles, one visitor each 45 ms by intention; the answer comes in a few
# milliseconds.
TURNSTILES = """#!/usr/bin/ruby
require "net/http"
port, seconds = ARGV[0].to_i, ARGV[1].to_f
clock = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
start = clock.call
admitted = 8.times.map do |gate|
  Thread.new do
    Net::HTTP.start("127.0.0.1", port) do |http|
      count = 0
      while clock.call < start + seconds
        answer = http.get("/admit?ticket=#{gate * 1000 + count}")
        raise answer.body unless answer.code == "200"
        count += 1
        pause = start + count * 0.045 + gate * 0.005 - clock.call
        sleep(pause) if pause > 0
      end
      count
    end
  end
end.sum(&:value)
puts "items #{admitted} seconds #{(clock.call - start).round(3)}"
"""
ADMISSION = """
import os
from urllib.parse import parse_qs
import redis.asyncio

store = redis.asyncio.Redis(port=int(os.environ["TICKETS"]))

async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    ticket = parse_qs(scope["query_string"].decode())["ticket"][0]
    new = await store.sadd("admitted", ticket)
    body = (b"welcome" if new else b"again") + b" " + ticket.encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})
"""


def turnstiles(place):
    store, port = redis(place), place.port()
    place.write("admission.py", ADMISSION)
    place.start("/usr/bin/uvicorn", "--host", "127.0.0.1", "--port", port, "--no-access-log", "--lifespan", "off",
                "--app-dir", place.folder, "admission:app", port=port, env={"TICKETS": str(store), "PATH": "/usr/bin:/bin"})
    front = nginx(place, 'location / { proxy_pass http://admission; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream admission {{ server 127.0.0.1:{port}; keepalive 16; }}")
    return [str(place.write("turnstiles", TURNSTILES)), str(front), str(place.seconds)]


# Control: four threads print posters as fast as the CPUs permit.
POSTERS = """
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.zip.Deflater;

public class Main {
    static byte[] poster(int town) {
        byte[] picture = new byte[60000];
        for (int y = 0; y < 200; y++)
            for (int x = 0; x < 300; x++)
                picture[y * 300 + x] = (byte) ((x * x + y * y + town * 37) / 900 * 13 + (x & y) / 40);
        Deflater packer = new Deflater(6);
        packer.setInput(picture);
        packer.finish();
        byte[] packed = new byte[70000];
        int length = packer.deflate(packed);
        packer.end();
        return java.util.Arrays.copyOf(packed, length);
    }

    public static void main(String[] words) throws Exception {
        AtomicInteger towns = new AtomicInteger();
        InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0]));
        HttpServer server = HttpServer.create(address, 100);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/poster", exchange -> {
            byte[] poster = poster(towns.incrementAndGet());
            exchange.sendResponseHeaders(200, poster.length);
            exchange.getResponseBody().write(poster);
            exchange.close();
        });
        server.start();
    }
}
"""


def posters(place):
    port = place.port()
    place.start("java", "-Dsun.net.httpserver.nodelay=true", "-Xmx256m", "-cp", place.java(POSTERS), "Main", port, port=port)
    front = nginx(place, 'location / { proxy_pass http://posters; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream posters {{ server 127.0.0.1:{port}; keepalive 16; }}")
    return wrk(f"http://127.0.0.1:{front}/poster", 8, place.seconds)


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="circus_two_threads_for_orders",
        kind="executor-core-size",
        truth="the executor of java (the box office) has only two threads, because its queue is "
              "unbounded, and each of them waits 6 ms for payments.js; the orders of 64 clients "
              "wait in the queue",
        load=executor,
        rate=WRK,
        component=(r"\bjava\b", r"\border-\d", r"box ?office"),
        mechanism=(r"\b(two|2)\b (\w+ )?(threads?|requests?|connections?|workers?|calls?|at (once|a time)|orders?)",
                   r"\bpool\b", r"executor", r"threads? (are|is) (all )?(busy|occupied)", r"at (once|a time)", r"concurren",
                   r"few threads", r"more threads", r"\b(all|both|every)\b[^;]*threads?", r"(?<!run )\bqueue",
                   r"one after (the other|another)"),
        never=(*DISK, r"(java|order-\d+) (\([^)]*\) )?sleeps", r"^[^;]*(java|order-\d+|haproxy) (\([^)]*\) )?computes"),
        running=True,
        needs=("haproxy", "node", "java", "javac", "wrk"),
    ),
    System(
        name="circus_wagons_wake_everyone",
        kind="notify-all-herd",
        truth="wagons wakes all of its 64 threads for each order (notify_all on one condition "
              "variable), and all but one find the queue empty, after they have waited for one "
              "another's lock",
        load=herd,
        rate=ITEMS,
        component=(r"wagons",),
        mechanism=(r"\bwak(e|es|ing|en|ed)\b", r"wake-?ups?", r"notif", r"condition", r"herd", r"futex", r"switch(es|ing)",
                   r"\block", r"mutex", r"wait for one another"),
        never=(*DISK, r"wagons (\([^)]*\) )?sleeps"),
        needs=("g++", "go"),
    ),
    System(
        name="circus_seatmap_without_memory",
        kind="memory-limit-gc",
        truth="seatmap, in Go, collects garbage all the time: it scans its heap of visitors again "
              "and again, because that heap is as large as its memory limit",
        load=memory_limit,
        rate=WRK,
        component=(r"seatmap",),
        mechanism=(r"\bgc", r"garbage", r"collect(s|or|ion)", r"\bscan", r"\bmark", r"memory limit", r"\bsweep",
                   r"\bheap"),
        never=(*DISK, r"seatmap (\([^)]*\) )?sleeps"),
        running=True,
        needs=("nginx", "go", "wrk"),
    ),
    System(
        name="circus_log_of_each_row",
        kind="debug-log-into-slow-pipe",
        truth="logship, in ruby, computes: it parses each line of the debug log of booking, in Go, "
              "which writes 25 lines for each request, under the lock of its log, and waits until "
              "there is room in the pipe",
        load=debug_log,
        rate=number(r"Requests per second:\s+([\d.]+)"),
        component=(r"logship", r"\bruby\b", r"\bbooking\b[^;]*(pipe|\blog|writ|stdout|standard output)"),
        mechanism=(*RUNS, r"\bpipe", r"\blog(s|ging)?\b", r"pars(es|ing)", r"json", r"writ(es|e|ing)", r"standard output",
                   r"reads? (too )?slowly"),
        never=(*DISK, r"(booking|logship|ruby) (\([^)]*\) )?sleeps"),
        needs=("go", "ruby", "ab"),
    ),
    System(
        name="circus_roads_asked_one_by_one",
        kind="manager-proxy-per-access",
        truth="the processes of tourplan, in python, wait for the one process that holds the table "
              "of roads (multiprocessing.Manager), which they ask for each single road over its "
              "socket",
        load=manager,
        rate=ITEMS,
        component=(r"tourplan", r"python"),
        mechanism=(r"manager", r"proxy", r"\bsocket", r"round.?trip", r"requests?\b", r"\banswer", r"\brepl(y|ies)", r"messages?\b",
                   r"\bask(s|ed|ing)?\b", r"(?<!system )\bcalls?\b", r"\bserves?\b", r"one (\w+ )?at a time", r"one thread", r"pickl",
                   r"waits? for (it|tourplan|python|the other|another|one another)", r"\bGIL\b"),
        never=(*DISK, r"(tourplan|python3?) (\([^)]*\) )?sleeps"),
        needs=(PYTHON,),
    ),
    System(
        name="circus_turnstiles_at_their_pace",
        kind="control",
        truth="healthy: each of eight turnstiles admits a visitor each 45 ms by its own clock, and "
              "nginx, uvicorn and redis answer within a few milliseconds",
        load=turnstiles,
        rate=ITEMS,
        acceptable=(*NOTHING, r"(turnstiles|ruby)[^;]*(sleeps|timer|until a time|own clock|paced)", r"\bpaced\b", r"own pace",
                    r"load generator", r"\bidle\b"),
        needs=("nginx", "/usr/bin/uvicorn", "redis-server", "ruby", PYTHON),
    ),
    System(
        name="circus_posters_at_full_speed",
        kind="control",
        truth="healthy: the CPUs are full, because four threads of java draw and pack posters as "
              "fast as eight connections ask for them through nginx",
        load=posters,
        rate=WRK,
        acceptable=(*NOTHING, r"java[^;]*" + COMPUTES, r"computes", r"own code", r"\bCPU", r"load generator"),
        needs=("nginx", "java", "javac", "wrk"),
    ),
]
