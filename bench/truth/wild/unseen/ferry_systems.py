"""The services of a ferry line: calls in a circle, retries in three layers, a trust store that is
read for each call, a connection that no balancer can spread, a thread pool for each request, and
two healthy systems.
"""
from services import redis
from system import COMPUTES, ITEMS, PYTHON, SLEEPS, WRK, System, wrk

# The server of the JDK sends the head and the body of an answer by two small writes.
NO_DELAY = "-Dsun.net.httpserver.nodelay=true"

# Bookings of a sailing. The server of the JDK has one thread unless it is given more: it reads and
# answers one request after the other. `/load` tells how full the sailing is, on the port of the
# bookings and on that for the management.
BOOKINGS = """
import com.sun.net.httpserver.*;
import java.net.InetSocketAddress;
import java.net.URL;
import java.security.MessageDigest;
import java.util.concurrent.atomic.AtomicLong;

public class Main {
    static final AtomicLong booked = new AtomicLong();

    static void answer(HttpExchange exchange, String text) throws java.io.IOException {
        byte[] body = text.getBytes();
        exchange.sendResponseHeaders(200, body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }

    static HttpServer server(String port) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(port)), 64);
        server.createContext("/load", exchange -> answer(exchange, booked.get() % 400 + "\\n"));
        return server;
    }

    static int seal(String price) {
        try {
            byte[] seal = ("sailing 11 for " + price).getBytes();
            for (int i = 0; i < 30000; i++) {
                seal = MessageDigest.getInstance("SHA-256").digest(seal);
            }
            return seal[0];
        } catch (java.security.NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }

    public static void main(String[] words) throws Exception {
        URL tariffs = new URL("http://127.0.0.1:" + words[2] + "/price");
        HttpServer bookings = server(words[0]);
        bookings.createContext("/book", exchange -> {
            String price;
            try (var body = tariffs.openStream()) {
                price = new String(body.readAllBytes()).trim();
            }
            booked.incrementAndGet();
            answer(exchange, price + " " + seal(price) + "\\n");
        });
        // Compiled before the first booking.
        for (int i = 0; i < 50; i++) {
            seal("" + i);
        }
        server(words[1]).start();
        bookings.start();
    }
}
"""
# The price depends on how full the sailing is. If bookings does not answer in time, it is the
# price of a day in the season.
TARIFFS = """
package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	patience, _ := time.ParseDuration(os.Args[3])
	client := &http.Client{Timeout: patience}
	http.HandleFunc("/price", func(out http.ResponseWriter, _ *http.Request) {
		load := "400"
		if answer, err := client.Get("http://127.0.0.1:" + os.Args[2] + "/load"); err == nil {
			if text, err := io.ReadAll(answer.Body); err == nil {
				load = strings.TrimSpace(string(text))
			}
			answer.Body.Close()
		}
		rule := sha256.Sum256([]byte(load))
		for i := 0; i < 3000; i++ {
			rule = sha256.Sum256(rule[:])
		}
		fmt.Fprintf(out, "%d\\n", 20+int(rule[0])%30)
	})
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
"""


def circle(place):
    booking, management, price = place.port(), place.port(), place.port()
    asked = management if place.fixed else booking
    place.start(place.go("tariffs", TARIFFS), price, asked, f"{40 * place.scale:g}ms", port=price)
    place.start("java", "-Xmx128m", "-XX:+UseSerialGC", NO_DELAY, "-cp", place.java(BOOKINGS), "Main", booking, management, price, port=booking)
    return wrk(f"http://127.0.0.1:{booking}/book", 4, place.seconds)


# The database of members asks the shard of a member. One of its shards is gone.
MEMBERS = r"""#!/usr/bin/ruby
require "digest"
require "socket"
server = TCPServer.new("127.0.0.1", ARGV[0].to_i)
loop do
  Thread.new(server.accept) do |peer|
    peer.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
    while (line = peer.gets)
      nil while peer.gets.to_s.strip != ""
      number = line[/\d+/].to_i
      sleep ARGV[1].to_f
      points = Digest::SHA256.hexdigest(number.to_s)[0, 4].to_i(16)
      status = number % 12 == 7 ? "503 Service Unavailable" : "200 OK"
      peer.write("HTTP/1.1 #{status}\r\nContent-Length: #{points.to_s.size}\r\n\r\n#{points}")
    end
  end
end
"""
LOYALTY = """
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
)

func main() {
	tries, _ := strconv.Atoi(os.Args[3])
	http.HandleFunc("/", func(out http.ResponseWriter, request *http.Request) {
		for i := 0; i < tries; i++ {
			answer, err := http.Get("http://127.0.0.1:" + os.Args[2] + request.URL.Path)
			if err != nil {
				continue
			}
			points, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if answer.StatusCode == 200 {
				fmt.Fprintf(out, "points %s", points)
				return
			}
		}
		http.Error(out, "no points", 503)
	})
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
"""
CHECKIN = """
const http = require("http");
const [port, loyalty, tries] = process.argv.slice(2).map(Number);
const agent = new http.Agent({ keepAlive: true });

function points(path) {
  return new Promise((resolve, reject) => {
    http.get({ agent, host: "127.0.0.1", port: loyalty, path }, (answer) => {
      let text = "";
      answer.on("data", (part) => { text += part; });
      answer.on("end", () => (answer.statusCode === 200 ? resolve(text) : reject(new Error(text))));
    }).on("error", reject);
  });
}

http.createServer(async (request, response) => {
  for (let i = 0; i < tries; i++) {
    try {
      response.end(JSON.stringify({ passenger: request.url, points: await points(request.url) }));
      return;
    } catch (error) {
      // The next try.
    }
  }
  response.statusCode = 503;
  response.end("{}");
}).listen(port, "127.0.0.1");
"""
# The desk tries three times before a passenger goes on board without points.
DESK = """#!/usr/bin/python3
import hashlib, http.client, json, sys, time

checkin = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
start = time.monotonic()
for passenger in range(int(sys.argv[2])):
    for _ in range(3):
        checkin.request("GET", f"/{passenger}")
        answer = checkin.getresponse()
        found = json.loads(answer.read())
        if answer.status == 200:
            break
    hashlib.pbkdf2_hmac("sha256", str(found).encode(), b"boarding pass", 1500)
print(f"items {sys.argv[2]} seconds {time.monotonic() - start:.3f}")
"""


def layers(place):
    members, loyalty, checkin = place.port(), place.port(), place.port()
    # Without the fault only the desk tries again.
    tries = 1 if place.fixed else 3
    place.start(place.write("members", MEMBERS), members, 0.006 * place.scale, port=members)
    place.start(place.go("loyalty", LOYALTY), loyalty, members, tries, port=loyalty)
    place.start("node", place.write("checkin.js", CHECKIN), checkin, loyalty, tries, port=checkin)
    return [str(place.write("desk", DESK)), str(checkin), "288"]


# The customs office takes declarations by TLS only.
CUSTOMS = """
package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("/", func(out http.ResponseWriter, request *http.Request) {
		text, _ := io.ReadAll(request.Body)
		fmt.Fprintf(out, "%x\\n", sha256.Sum256(text))
	})
	panic(http.ListenAndServeTLS("127.0.0.1:"+os.Args[1], os.Args[2], os.Args[3], nil))
}
"""
# Takes manifests from redis and declares them. The authorities that it trusts come from one file
# with all of them, as requests and httpx have it. `each` makes a client for each declaration.
DECLARER = """#!/usr/bin/python3
import hashlib, http.client, json, ssl, sys
import redis

def client():
    return http.client.HTTPSConnection("127.0.0.1", int(sys.argv[2]), context=ssl.create_default_context(cafile=sys.argv[3]))

queue = redis.Redis(port=int(sys.argv[1]))
customs = client()
while True:
    manifest = json.loads(queue.blpop("manifests")[1])
    if sys.argv[4] == "each":
        customs.close()
        customs = client()
    weight = sum(piece["kg"] for piece in manifest["pieces"])
    seal = hashlib.pbkdf2_hmac("sha256", str(weight).encode(), b"seal", 8000).hex()
    customs.request("POST", "/", json.dumps({**manifest, "weight": weight, "seal": seal}))
    queue.rpush("cleared", customs.getresponse().read())
"""
# Four manifests are under way at a time.
FREIGHT = """
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	store, err := net.Dial("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		panic(err)
	}
	in := bufio.NewReader(store)
	// An answer is a number, or the name of the list and its entry.
	ask := func(words ...string) {
		text := fmt.Sprintf("*%d\\r\\n", len(words))
		for _, word := range words {
			text += fmt.Sprintf("$%d\\r\\n%s\\r\\n", len(word), word)
		}
		io.WriteString(store, text)
		line, _ := in.ReadString('\\n')
		if line[0] == '*' {
			for i := 0; i < 2; i++ {
				size, _ := in.ReadString('\\n')
				length, _ := strconv.Atoi(strings.TrimSpace(size[1:]))
				io.ReadFull(in, make([]byte, length+2))
			}
		}
	}
	pieces := make([]string, 60)
	for i := range pieces {
		pieces[i] = fmt.Sprintf(`{"container": "FRRU%07d", "kg": %d, "goods": "mixed"}`, i, 900+i)
	}
	put := func(number int) {
		ask("RPUSH", "manifests", fmt.Sprintf(`{"ship": %d, "pieces": [%s]}`, number, strings.Join(pieces, ",")))
	}
	for i := 0; i < 4; i++ {
		put(i)
	}
	length, _ := strconv.ParseFloat(os.Args[2], 64)
	start, items := time.Now(), 0
	for time.Since(start).Seconds() < length {
		ask("BLPOP", "cleared", "0")
		items++
		put(items + 3)
	}
	fmt.Printf("items %d seconds %.3f\\n", items, time.Since(start).Seconds())
}
"""


def trust(place):
    store, customs = redis(place), place.port()
    key, certificate = place.folder / "customs.key", place.folder / "customs.pem"
    place.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30", "-subj", "/CN=customs",
              "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate)
    with open("/etc/ssl/certs/ca-certificates.crt") as authorities:
        bundle = place.write("authorities.pem", authorities.read() + certificate.read_text())
    place.start(place.go("customs", CUSTOMS), customs, certificate, key, port=customs)
    place.start(place.write("declarer", DECLARER), store, customs, bundle, "once" if place.fixed else "each")
    return [str(place.go("freight", FREIGHT)), str(store), str(place.seconds)]


# Two calls at a time, as many as it has connections to its provider.
RATES = """#!/usr/bin/python3
import concurrent.futures, sys, time
import grpc

def quote(request, context):
    time.sleep(float(sys.argv[2]))
    return b"%d" % (sum(request) % 90)

server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=2))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("Rates", {"Quote": grpc.unary_unary_rpc_method_handler(quote)}),))
server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
server.start()
server.wait_for_termination()
"""
# All twelve threads have one channel, which is one connection.
QUOTES = """#!/usr/bin/python3
import sys, threading, time
import grpc

quote = grpc.insecure_channel(f"127.0.0.1:{sys.argv[1]}").unary_unary("/Rates/Quote")
start, counts = time.monotonic(), [0] * 12

def asks(number):
    while time.monotonic() < start + float(sys.argv[2]):
        quote(b"crossing %d" % counts[number], wait_for_ready=True, timeout=20)
        counts[number] += 1

threads = [threading.Thread(target=asks, args=(number,)) for number in range(len(counts))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(f"items {sum(counts)} seconds {time.monotonic() - start:.3f}")
"""


def pinned(place):
    front, alive = place.port(), place.port()
    backs = {name: place.port() for name in ("rates_a", "rates_b", "rates_c")}
    for name, port in backs.items():
        place.start(place.write(name, RATES), port, 0.015 * place.scale, port=port)
    # A balancer of connections has nothing to choose after the first one; one of requests has.
    mode, proto = ("http", "proto h2") if place.fixed else ("tcp", "")
    servers = "\n".join(f"  server {name} 127.0.0.1:{port} {proto}" for name, port in backs.items())
    config = place.write("haproxy.cfg", f"""
defaults
  timeout connect 1s
  timeout client 60s
  timeout server 60s
listen rates
  bind 127.0.0.1:{front} {proto}
  mode {mode}
  balance roundrobin
{servers}
frontend alive
  bind 127.0.0.1:{alive}
  mode http
  monitor-uri /
""")
    # A look whether it listens on the other port does not count as a connection to `rates`.
    place.start("haproxy", "-db", "-f", config, port=alive)
    return [str(place.write("quotes", QUOTES)), str(front), str(place.seconds)]


# Looks at all legs of a journey at once. `each` makes a pool of threads for each request.
JOURNEYS = """
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.*;
import java.util.concurrent.*;

public class Main {
    static int leg(int number) {
        int best = Integer.MAX_VALUE;
        for (int i = 1; i < 12000; i++) {
            best = Math.min(best, (number * 31 + i * 17) % 9973);
        }
        return best;
    }

    public static void main(String[] words) throws Exception {
        boolean each = words[1].equals("each");
        ExecutorService shared = Executors.newFixedThreadPool(24);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 64);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/", exchange -> {
            ExecutorService pool = each ? Executors.newFixedThreadPool(24) : shared;
            List<Callable<Integer>> legs = new ArrayList<>();
            for (int i = 0; i < 24; i++) {
                int number = i;
                legs.add(() -> leg(number));
            }
            StringBuilder found = new StringBuilder("[0");
            try {
                for (Future<Integer> leg : pool.invokeAll(legs)) {
                    found.append(",").append(leg.get());
                }
            } catch (InterruptedException | ExecutionException error) {
                throw new java.io.IOException(error);
            }
            if (each) {
                pool.shutdown();
            }
            byte[] body = found.append("]").toString().getBytes();
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
    }
}
"""
PORTAL = """
const http = require("http");
const port = Number(process.argv[2]);
const agent = new http.Agent({ keepAlive: true, maxSockets: 3 });
const start = process.hrtime.bigint();
const seconds = () => Number(process.hrtime.bigint() - start) / 1e9;
let items = 0;

function journey() {
  return new Promise((resolve, reject) => {
    http.get({ agent, host: "127.0.0.1", port, path: `/?journey=${items}` }, (answer) => {
      let text = "";
      answer.on("data", (part) => { text += part; });
      answer.on("end", () => resolve(JSON.parse(text).sort()));
    }).on("error", reject);
  });
}

async function visitor() {
  while (seconds() < Number(process.argv[3])) {
    await journey();
    items++;
  }
}

Promise.all([visitor(), visitor(), visitor()]).then(() => {
  console.log(`items ${items} seconds ${seconds().toFixed(3)}`);
  process.exit(0);
});
"""


def pools(place):
    port = place.port()
    place.start("java", "-Xmx256m", "-XX:+UseSerialGC", NO_DELAY, "-cp", place.java(JOURNEYS), "Main", port, "shared" if place.fixed else "each", port=port)
    return ["node", str(place.write("portal.js", PORTAL)), str(port), str(place.seconds)]


# Signs what it is sent, a line for each line, and tells how many there were.
STAMPS = """
package main

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
)

func main() {
	var lock sync.Mutex
	count := 0
	http.HandleFunc("/metrics", func(out http.ResponseWriter, _ *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		fmt.Fprintf(out, "stamps %d\\n", count)
	})
	go http.ListenAndServe("127.0.0.1:"+os.Args[2], nil)
	door, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		panic(err)
	}
	for {
		peer, err := door.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			in := bufio.NewReader(peer)
			for {
				line, err := in.ReadBytes('\\n')
				if err != nil {
					return
				}
				stamp := sha256.Sum256(line)
				for i := 0; i < 12000; i++ {
					stamp = sha256.Sum256(stamp[:])
				}
				lock.Lock()
				count++
				lock.Unlock()
				fmt.Fprintf(peer, "%x\\n", stamp)
			}
		}()
	}
}
"""
# Four threads fill forms and have them stamped.
FORMS = """
import java.io.*;
import java.net.Socket;
import java.security.MessageDigest;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;

public class Main {
    public static void main(String[] words) throws Exception {
        long start = System.nanoTime(), end = start + (long) (Double.parseDouble(words[1]) * 1e9);
        AtomicInteger items = new AtomicInteger();
        ExecutorService desks = Executors.newFixedThreadPool(4);
        for (int i = 0; i < 4; i++) {
            desks.submit(() -> {
                Socket stamps = new Socket("127.0.0.1", Integer.parseInt(words[0]));
                stamps.setTcpNoDelay(true);
                BufferedReader in = new BufferedReader(new InputStreamReader(stamps.getInputStream()));
                while (System.nanoTime() < end) {
                    byte[] form = ("form " + items.get()).getBytes();
                    for (int round = 0; round < 5000; round++) {
                        form = MessageDigest.getInstance("SHA-256").digest(form);
                    }
                    stamps.getOutputStream().write(("form " + form[0] + "\\n").getBytes());
                    in.readLine();
                    items.incrementAndGet();
                }
                return 0;
            });
        }
        desks.shutdown();
        desks.awaitTermination(1, TimeUnit.MINUTES);
        System.out.printf(java.util.Locale.ROOT, "items %d seconds %.3f%n", items.get(), (System.nanoTime() - start) / 1e9);
    }
}
"""
# Reads the numbers ten times in a second.
SCRAPER = """#!/usr/bin/python3
import sys, time, urllib.request

while True:
    with urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/metrics") as answer:
        answer.read()
    time.sleep(0.1)
"""


def stamped(place):
    door, numbers = place.port(), place.port()
    place.start(place.go("stamps", STAMPS), door, numbers, port=door)
    place.start(place.write("scraper", SCRAPER), numbers)
    return ["java", "-Xmx128m", "-XX:+UseSerialGC", "-cp", str(place.java(FORMS)), "Main", str(door), str(place.seconds)]


# Takes the departures from NATS; six threads look every 20 ms whether there is one for them, and
# give it to the signs at the quay.
QUAY = """
import java.io.*;
import java.net.*;
import java.util.concurrent.*;

public class Main {
    static final BlockingQueue<String> departures = new LinkedBlockingQueue<>();

    public static void main(String[] words) throws Exception {
        Socket broker = new Socket("127.0.0.1", Integer.parseInt(words[0]));
        broker.setTcpNoDelay(true);
        OutputStream out = broker.getOutputStream();
        URL signs = new URL("http://127.0.0.1:" + words[1] + "/");
        for (int i = 0; i < 6; i++) {
            new Thread(() -> {
                try {
                    while (true) {
                        String reply = departures.poll(20, TimeUnit.MILLISECONDS);
                        if (reply == null) {
                            continue;
                        }
                        try (InputStream body = signs.openStream()) {
                            body.readAllBytes();
                        }
                        synchronized (out) {
                            out.write(("PUB " + reply + " 2\\r\\nok\\r\\n").getBytes());
                        }
                    }
                } catch (Exception error) {
                    System.exit(1);
                }
            }, "quay-" + i).start();
        }
        out.write("CONNECT {\\"verbose\\":false}\\r\\nSUB departures 1\\r\\nPING\\r\\n".getBytes());
        BufferedReader in = new BufferedReader(new InputStreamReader(broker.getInputStream()));
        for (String line; (line = in.readLine()) != null; ) {
            if (line.startsWith("PONG")) {
                new File("quay.ready").createNewFile();
            } else if (line.startsWith("MSG")) {
                departures.put(line.split(" ")[3]);
                in.readLine();
            }
        }
    }
}
"""
# A sign takes 3 ms to turn its plates, one text at a time.
SIGNS = """
const http = require("http");
let turned = Promise.resolve();
http.createServer((request, response) => {
  turned = turned.then(() => new Promise((resolve) => setTimeout(resolve, 3)));
  turned.then(() => response.end("shown"));
}).listen(Number(process.argv[2]), "127.0.0.1");
"""
# There is a departure every 70 ms.
TIMETABLE = r"""#!/usr/bin/ruby
require "socket"
broker = TCPSocket.new("127.0.0.1", ARGV[0].to_i)
broker.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
broker.write("CONNECT {\"verbose\":false}\r\nSUB shown 1\r\n")
now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
start, items = now.call, 0
while now.call < start + ARGV[1].to_f
  broker.write("PUB departures shown 6\r\nline 3\r\n")
  nil until broker.gets.start_with?("MSG")
  broker.gets
  items += 1
  rest = start + 0.07 * items - now.call
  sleep rest if rest > 0
end
puts format("items %d seconds %.3f", items, now.call - start)
"""


def shown(place):
    broker, signs = place.port(), place.port()
    place.start("nats-server", "-a", "127.0.0.1", "-p", broker, port=broker)
    place.start("node", place.write("signs.js", SIGNS), signs, port=signs)
    place.start("java", "-Xmx64m", "-XX:+UseSerialGC", "-cp", place.java(QUAY), "Main", broker, signs, path=place.folder / "quay.ready")
    return [str(place.write("timetable", TIMETABLE)), str(broker), str(place.seconds)]


SYSTEMS = [
    System(
        name="ferry_price_in_a_circle",
        kind="circular-call",
        truth="the only request thread of java (bookings) waits for tariffs, which asks java in vain how full the sailing is, until its timeout of 40 ms is over",
        load=circle,
        rate=WRK,
        component=(r"tariffs", r"java", r"HTTP-Dispatcher"),
        mechanism=(*SLEEPS, r"time-?out", r"deadline", r"wait for (one another|each other)", r"waits? for each other", r"circle|circular|\bcycle",
                   r"tariffs[^.;]* waits? (for|on) (an? (answer|reply) (of|from) )?(java|HTTP-Dispatcher)"),
        never=(r"(java|tariffs|HTTP-Dispatcher) computes (most|nearly|all)", r"garbage|collector"),
        change="x0",
        halves=True,
        needs=("java", "javac", "go", "wrk"),
    ),
    System(
        name="ferry_points_tried_again",
        kind="retry-amplification",
        truth="desk, checkin and loyalty try each failed request three times, so that members, which sleeps 6 ms for each, has 27 for every twelfth passenger",
        load=layers,
        rate=ITEMS,
        component=(r"members", r"loyalty"),
        mechanism=(*SLEEPS, r"retr(y|ies)", r"tr(y|ies) again", r"\b(more|many|several) (calls|requests|tries)"),
        never=(r"(members|loyalty|checkin|node|desk) computes (most|nearly|all)", r"(comput\w+|runs its own code)[^.;]* is the bottleneck"),
        change="x0.37",
        halves=True,
        needs=("node", "go", "ruby", PYTHON),
    ),
    System(
        name="ferry_trust_for_each_manifest",
        kind="trust-store-per-call",
        truth="declarer, in python, reads and parses the certificates of all authorities anew for each manifest that it declares, and computes",
        load=trust,
        rate=ITEMS,
        component=(r"declarer", r"python"),
        mechanism=(*COMPUTES, r"\bssl\b", r"\btls\b", r"crypto", r"certificate", r"authorities", r"X509"),
        never=(r"(customs|redis(-server)?|freight)[^.;,]* (computes most|is the bottleneck)", r"interpreter lock|\bGIL\b"),
        needs=("redis-server", "go", "openssl", PYTHON),
    ),
    System(
        name="ferry_rates_on_one_connection",
        kind="connection-pinned-to-a-replica",
        truth="haproxy balances connections, and quotes has only one, so that all calls go to rates_a, which sleeps 15 ms in each of two at a time, while rates_b and rates_c are idle",
        load=pinned,
        rate=ITEMS,
        component=(r"rates_a", r"haproxy[^;]* one (connection|server)"),
        mechanism=(*SLEEPS, r"one connection", r"balanc", r"uneven", r"other (two|servers|replicas)[^.;]* idle", r"\bpool\b", r"threads? (are|is) busy"),
        never=(r"rates_[bc][^.;,]* (is the bottleneck|sleeps)", r"(quotes|haproxy)[^.;,]* (computes|runs its own code)"),
        change="x0.33",
        halves=True,
        running=True,
        needs=("haproxy", PYTHON),
    ),
    System(
        name="ferry_journeys_pool_each",
        kind="thread-pool-per-request",
        truth="java makes a pool of 24 threads for each request, and waits for the start of one after the other, though each of them has some microseconds of work",
        load=pools,
        rate=ITEMS,
        component=(r"java", r"pool-\d"),
        mechanism=(r"\b(start(s|ing|ed)?|creat(es?|ing|ion)|spawn\w*|clon(es?|ing)|ends?|ending|new|short-liv(ed|ing))\b[^.;]{0,40}\b(threads?|tasks?|pools?)\b",
                   r"\b(threads?|tasks?|pools?)\b[^.;]{0,40}\b(starts?|started|creat(ed|es|ion)|ends?|ended|lives?|exits?|exited)\b",
                   r"\bclone", r"\bfork", r"\b(mmap|munmap|mprotect|madvise)\b", r"address.space", r"\bexits?\b"),
        never=(r"garbage|collector", r"node[^.;,]* (computes most|is the bottleneck)"),
        needs=("java", "javac", "node"),
    ),
    System(
        name="control_ferry_stamps",
        kind="control",
        truth="four threads of java fill forms and stamps signs them; both compute, and both CPUs are full; scraper asks ten times in a second and sleeps in between by intention",
        load=stamped,
        rate=ITEMS,
        acceptable=(r"(java|stamps|pool-\d)[^.;]*(comput|runs its own code|\buser\b)", r"CPUs? (are|is) (all )?(full|busy)", r"(java|stamps|pool-\d)[^.;]*wait\w* for (a|the) CPU"),
        needs=("java", "javac", "go", PYTHON),
    ),
    System(
        name="control_ferry_departures",
        kind="control",
        truth="timetable has a departure each 70 ms by intention, which NATS, java and node (signs.js) show in some ms; all are idle most of the time",
        load=shown,
        rate=ITEMS,
        acceptable=(r"timetable[^.;]*(sleep|timer|until a time|idle)",),
        needs=("nats-server", "java", "javac", "node", "ruby"),
    ),
]
