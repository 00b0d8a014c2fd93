"""The services of an airline at the airport: five faults of check-in, family pages, boards and
baggage, and two healthy parts of the same airline.
"""
import os
import pwd
import signal
from pathlib import Path

from services import PHP_FPM, at, mariadb, nginx, php, postgres, redis
from system import COMPUTES, ITEMS, LOCKS, PYTHON, SLEEPS, WRK, System, wrk

DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# Check-in stores a seat in postgres, whose copy in the other terminal must have it, too, before a
# boarding pass is printed. It speaks the protocol of postgres itself.
CHECKIN = """
package main

import ("bufio"; "encoding/binary"; "fmt"; "io"; "net"; "net/http"; "os"; "sync/atomic")

type base struct { link net.Conn; answers *bufio.Reader }

// Reads messages until the server is ready for a query.
func (b *base) ready() error {
	for failure := error(nil); ; {
		var head [5]byte
		if _, err := io.ReadFull(b.answers, head[:]); err != nil {
			return err
		}
		text := make([]byte, binary.BigEndian.Uint32(head[1:]) - 4)
		if _, err := io.ReadFull(b.answers, text); err != nil {
			return err
		}
		switch head[0] {
		case 'E':
			failure = fmt.Errorf("postgres: %q", text)
		case 'Z':
			return failure
		}
	}
}

func (b *base) query(text string) error {
	message := append([]byte{'Q', 0, 0, 0, 0}, text...)
	message = append(message, 0)
	binary.BigEndian.PutUint32(message[1:], uint32(len(message) - 1))
	b.link.Write(message)
	return b.ready()
}

func connected(port string) *base {
	link, err := net.Dial("tcp", "127.0.0.1:" + port)
	if err != nil {
		panic(err)
	}
	words := "\\x00\\x03\\x00\\x00user\\x00postgres\\x00database\\x00postgres\\x00\\x00"
	link.Write(append([]byte{0, 0, 0, byte(len(words) + 4)}, words...))
	b := &base{link, bufio.NewReader(link)}
	if err := b.ready(); err != nil {
		panic(err)
	}
	return b
}

func main() {
	bases := make(chan *base, 8)
	for i := 0; i < 8; i++ {
		bases <- connected(os.Args[2])
	}
	var count atomic.Int64
	http.HandleFunc("/checkin", func(w http.ResponseWriter, r *http.Request) {
		number := count.Add(1)
		b := <-bases
		err := b.query(fmt.Sprintf("update passengers set seat = '%d%c', present = true where id = %d",
			number / 6 % 40 + 1, 'A' + rune(number % 6), number * 7 % 20000))
		bases <- b
		if err != nil {
			http.Error(w, err.Error(), 500)
			return
		}
		fmt.Fprintf(w, "boarding pass %d\\n", number)
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def terminals(place):
    desk = postgres(place, """
        create table passengers (id int primary key, name text, seat text, present boolean);
        insert into passengers select i, 'passenger ' || i, '', false from generate_series(0, 20000) i;
        checkpoint""", fsync="off", cluster_name="east")
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"))
    user, home, port = pwd.getpwnam("postgres"), place.folder / "west", place.port()
    home.mkdir(mode=0o700)
    os.chown(home, user.pw_uid, user.pw_gid)
    as_user = {"user": user.pw_uid, "group": user.pw_gid, "env": {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}}
    place.run(programs / "pg_basebackup", *at(desk), "-D", home, "-R", "-c", "fast", "--no-sync", **as_user)
    settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "port": port, "fsync": "off",
                "cluster_name": "west", "recovery_min_apply_delay": f"{round(40 * place.fault)}ms"}
    words = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
    place.start(programs / "postgres", "-D", home, *words, port=port, stop=signal.SIGINT, **as_user)
    for text in ("alter system set synchronous_standby_names = '*'", "alter system set synchronous_commit = remote_apply",
                 "select pg_reload_conf()"):
        place.run("psql", *at(desk), "-q", "-c", text)
    place.run("sh", "-c", "for i in $(seq 200); do psql -h 127.0.0.1 -U postgres -Atp " + str(desk) +
              " -c 'select sync_state from pg_stat_replication' | grep -qx sync && exit; sleep 0.05; done; exit 1")
    front = place.port()
    place.start(place.go("checkin", CHECKIN), front, desk, port=front)
    return wrk(f"http://127.0.0.1:{front}/checkin", 6, place.seconds)


# A family looks at its booking; each of the panels of the page asks the departure control (DCS).
# The panels come with the cookie of the same traveller.
PANEL = """<?php
session_start(OPTIONS);
$traveller = $_SESSION["traveller"] ?? ["miles" => 0, "language" => "en"];
$control = stream_socket_client("tcp://127.0.0.1:DCS", $number, $text, 5, STREAM_CLIENT_CONNECT | STREAM_CLIENT_PERSISTENT);
fwrite($control, "BOOKING 7QX4KD SEGMENT " . mt_rand(1, 4) . "\\n");
[$flight, $gate, $seats] = explode(";", trim(fgets($control)));
$boxes = "";
foreach (explode(" ", $seats) as $seat) {
    $boxes .= "<li lang=" . $traveller["language"] . ">" . htmlspecialchars($seat) . "</li>";
}
echo "<section><h2>$flight, gate $gate</h2><ul>$boxes</ul></section>";
"""
DCS = """
package main

import ("bufio"; "fmt"; "net"; "os"; "strings"; "time")

// The teletype link to the host of the alliance takes 15 ms.
func host(words []string) string {
	time.Sleep(15 * time.Millisecond)
	return fmt.Sprintf("XA%s;B%d;%sA %sB %sC %sD\\n", words[3], len(words[1]), words[3], words[3], words[3], words[3])
}

func main() {
	server, err := net.Listen("tcp", "127.0.0.1:" + os.Args[1])
	if err != nil {
		panic(err)
	}
	for {
		link, err := server.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			defer link.Close()
			for lines := bufio.NewScanner(link); lines.Scan(); {
				if words := strings.Fields(lines.Text()); len(words) == 4 {
					link.Write([]byte(host(words)))
				}
			}
		}()
	}
}
"""


def family(place):
    control = place.port()
    place.start(place.go("dcs", DCS), control, port=control)
    sessions = place.folder / "sessions"
    sessions.mkdir()
    page = PANEL.replace("DCS", str(control)).replace("OPTIONS", '["read_and_close" => true]' if place.fixed else "")
    front = php(place, page, 8, settings=f"php_value[session.save_path] = {sessions}")
    load = wrk(f"http://127.0.0.1:{front}/panel", 8, place.seconds)
    return [*load[:-1], "-H", "Cookie: PHPSESSID=q8h2n5v0c1m7r4t6k3s9d2f1a0", load[-1]]


# The boards of a hall refresh together when a flight changes, each with a new connection.
BOARDS = """
package main

import ("fmt"; "io"; "net/http"; "os"; "strconv"; "sync"; "time")

func refresh(port string, board int) {
	answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%s/board/%d", port, board))
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || len(text) < 100 {
		panic("board stays dark")
	}
}

func main() {
	http.DefaultTransport.(*http.Transport).DisableKeepAlives = true
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	begin, refreshed := time.Now(), 0
	for time.Since(begin).Seconds() < seconds {
		var hall sync.WaitGroup
		for board := 0; board < 16; board++ {
			hall.Add(1)
			go func() {
				defer hall.Done()
				refresh(os.Args[1], board)
			}()
		}
		hall.Wait()
		refreshed += 16
	}
	fmt.Printf("items %d seconds %.3f\\n", refreshed, time.Since(begin).Seconds())
}
"""
# Python's HTTP server listens with a queue of five connections if a program does not set another.
FLIGHTS = """#!/usr/bin/python3
import http.server, sys

DEPARTURES = [(f"XA{100 + i}", f"{5 + i % 19:02}:{i * 5 % 60:02}", f"{'ABCD'[i % 4]}{i % 30 + 1}") for i in range(250)]

class Flights(http.server.BaseHTTPRequestHandler):
    wbufsize = -1

    def do_GET(self):
        board = int(self.path.rsplit("/", 1)[1])
        rows = sorted((time, flight, gate) for flight, time, gate in DEPARTURES if "ABCD".index(gate[0]) != board % 4)
        text = "\\n".join(f"{time:6}{flight:8}{gate:>4}" for time, flight, gate in rows).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass

class Server(http.server.ThreadingHTTPServer):
    SETTINGS

Server(("127.0.0.1", int(sys.argv[1])), Flights).serve_forever()
"""


def hall(place):
    port = place.port()
    settings = "request_queue_size = 256" if place.fixed else "daemon_threads = True"
    place.start(place.write("flights.py", FLIGHTS.replace("SETTINGS", settings)), port, port=port)
    return [str(place.go("boards", BOARDS)), str(port), str(place.seconds)]


# The desk for lost baggage looks for a bag by its tag, which is text in the table.
LOST = """
import itertools, os, pymysql

bases, numbers = [], itertools.count(os.getpid())

def application(environ, start):
    if not bases:
        bases.append(pymysql.connect(host="127.0.0.1", port=PORT, user="root", database="test", autocommit=True))
    tag = KIND(220000000 + next(numbers) * 7919 % 60000)
    with bases[0].cursor() as cursor:
        cursor.execute("select flight, belt, weight from bags where tag = %s", (tag,))
        flight, belt, weight = cursor.fetchone()
    text = f"{flight} belt {belt}, {weight} kg\\n".encode()
    start("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
    return [text]
"""


def baggage(place):
    base = mariadb(place, """
        create table bags (tag varchar(10) primary key, flight char(5), belt int, weight int) engine=innodb;
        insert into bags select 220000000 + seq, concat('XA', 100 + seq % 300), seq % 12, 5 + seq % 20 from seq_0_to_59999;
        analyze table bags""")
    port = place.port()
    place.write("lost.py", LOST.replace("PORT", str(base)).replace("KIND", "str" if place.fixed else "int"))
    place.start("/usr/bin/gunicorn", "-k", "gthread", "-w", "4", "--threads", "1", "-b", f"127.0.0.1:{port}", "--chdir",
                place.folder, "lost:application", port=port)
    front = nginx(place, 'location / { proxy_pass http://desk; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream desk {{ server 127.0.0.1:{port}; keepalive 8; }}")
    return wrk(f"http://127.0.0.1:{front}/lost", 4, place.seconds)


# The scanners at the belts wait until a bag's new place is stored; bagtrack stores up to 32 of them
# together in redis.
BAGTRACK = """
import com.sun.net.httpserver.HttpServer;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

public class Main {
    record Scan(int bag, CompletableFuture<String> stored) {}
    static final LinkedBlockingQueue<Scan> scans = new LinkedBlockingQueue<>();

    static void store(int port, long linger) {
        try (Socket redis = new Socket("127.0.0.1", port)) {
            redis.setTcpNoDelay(true);
            OutputStream out = redis.getOutputStream();
            BufferedReader in = new BufferedReader(new InputStreamReader(redis.getInputStream()));
            while (true) {
                List<Scan> together = new ArrayList<>();
                together.add(scans.take());
                long until = System.nanoTime() + linger;
                while (together.size() < 32) {
                    Scan next = scans.poll(until - System.nanoTime(), TimeUnit.NANOSECONDS);
                    if (next == null)
                        break;
                    together.add(next);
                }
                StringBuilder text = new StringBuilder();
                for (Scan scan : together)
                    text.append("HINCRBY bag:").append(scan.bag).append(" stage 1\\r\\n");
                out.write(text.toString().getBytes());
                for (Scan scan : together)
                    scan.stored.complete(in.readLine());
            }
        } catch (Exception problem) {
            problem.printStackTrace();
            System.exit(1);
        }
    }

    public static void main(String[] words) throws Exception {
        long linger = Long.parseLong(words[2]) * 1000;
        new Thread(() -> store(Integer.parseInt(words[1]), linger), "bag-store").start();
        AtomicInteger number = new AtomicInteger();
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 200);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/scan", exchange -> {
            Scan scan = new Scan(number.incrementAndGet() % 9000, new CompletableFuture<>());
            scans.add(scan);
            byte[] text = ("stage " + scan.stored.join()).getBytes();
            exchange.sendResponseHeaders(200, text.length);
            exchange.getResponseBody().write(text);
            exchange.close();
        });
        server.start();
    }
}
"""


def belts(place):
    store, port = redis(place), place.port()
    place.start("java", "-Dsun.net.httpserver.nodelay=true", "-Xmx128m", "-cp", place.java(BAGTRACK), "Main", port, store,
                round(30000 * place.fault), port=port)
    return wrk(f"http://127.0.0.1:{port}/scan", 6, place.seconds)


# Control: the offers of a journey are computed by as many threads as there are CPUs.
OFFERS = """
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.Arrays;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;

public class Main {
    static final int PORTS = 120;
    static final int[] fares = new int[PORTS * PORTS];

    // The cheapest journeys from one airport, with up to four flights.
    static int[] cheapest(int from, int day) {
        int[] best = new int[PORTS];
        Arrays.fill(best, 1 << 20);
        best[from] = 0;
        for (int flights = 0; flights < 4; flights++) {
            int[] next = best.clone();
            for (int via = 0; via < PORTS; via++)
                for (int to = 0; to < PORTS; to++)
                    next[to] = Math.min(next[to], best[via] + fares[via * PORTS + to] + (via * day ^ to) % 61);
            best = next;
        }
        return best;
    }

    public static void main(String[] words) throws Exception {
        for (int i = 0; i < fares.length; i++)
            fares[i] = 40 + (i * 7919 & 0xffff) % 700;
        AtomicInteger number = new AtomicInteger();
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 200);
        server.setExecutor(Executors.newFixedThreadPool(Runtime.getRuntime().availableProcessors()));
        server.createContext("/offers", exchange -> {
            int from = number.incrementAndGet() % PORTS;
            StringBuilder text = new StringBuilder();
            for (int day = 1; day <= 21; day++)
                text.append(Arrays.stream(cheapest(from, day)).sum()).append('\\n');
            byte[] bytes = text.toString().getBytes();
            exchange.sendResponseHeaders(200, bytes.length);
            exchange.getResponseBody().write(bytes);
            exchange.close();
        });
        server.start();
    }
}
"""


def offers(place):
    port = place.port()
    place.start("java", "-Dsun.net.httpserver.nodelay=true", "-Xmx128m", "-cp", place.java(OFFERS), "Main", port, port=port)
    front = nginx(place, 'location / { proxy_pass http://offers; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream offers {{ server 127.0.0.1:{port}; keepalive 16; }}")
    return wrk(f"http://127.0.0.1:{front}/offers", 8, place.seconds)


# Control: tower reports a movement each 30 ms, and three displays wait for it in redis' stream.
TOWER = """
package main

import ("bufio"; "fmt"; "net"; "os"; "strconv"; "strings"; "time")

func main() {
	link, err := net.Dial("tcp", "127.0.0.1:" + os.Args[1])
	if err != nil {
		panic(err)
	}
	answers := bufio.NewReader(link)
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	begin, movements := time.Now(), int(seconds * 1000 / 30)
	radar := time.NewTicker(30 * time.Millisecond)
	for number := 0; number < movements; number++ {
		<-radar.C
		fmt.Fprintf(link, "XADD movements MAXLEN 100 * flight XA%d stand %d\\r\\n", 100 + number % 300, number % 40)
		head, err := answers.ReadString('\\n')
		if err != nil || !strings.HasPrefix(head, "$") {
			panic(head)
		}
		answers.ReadString('\\n')
	}
	fmt.Printf("items %d seconds %.3f\\n", movements, time.Since(begin).Seconds())
}
"""
DISPLAY = """#!/usr/bin/python3
import pathlib, redis, sys

port, name = int(sys.argv[1]), sys.argv[2]
store = redis.Redis(port=port)
last = "$"
pathlib.Path(f"display-{name}").touch()
while True:
    for _, movements in store.xread({"movements": last}, block=10000):
        for last, movement in movements:
            store.hset(f"display:{name}", movement[b"stand"], movement[b"flight"])
"""


def movements(place):
    store = redis(place)
    display = place.write("display.py", DISPLAY)
    for name in ("east", "west", "transfer"):
        place.start(display, store, name, path=place.folder / f"display-{name}")
    return [str(place.go("tower", TOWER)), str(store), str(place.seconds)]


BUSY = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="airline_copy_in_the_other_terminal",
        kind="synchronous-standby-delay",
        truth="each commit of postgres waits until the synchronous standby (cluster west) has applied "
              "it, and the startup process of the standby waits 40 ms first "
              "(recovery_min_apply_delay)",
        load=terminals,
        rate=WRK,
        component=(r"postgres", r"standby", r"\bstartup\b", r"recover", r"\bwest\b", r"walreceiver"),
        mechanism=(*SLEEPS, r"standby", r"replica", r"\bappl(y|ies|ied)\b", r"recover", r"startup[^;]*waits", r"\bdelay",
                   r"pauses?\b"),
        never=(*DISK, r"row lock", r"(checkin|wrk) (\([^)]*\) )?(sleeps|computes)", r"postgres[^;]*\bcomputes"),
        halves=True,
        needs=("psql", "go", "wrk"),
    ),
    System(
        name="airline_panels_of_one_session",
        kind="session-lock",
        truth="session_start of PHP locks the file of the traveller's session until the page ends, so "
              "that only one panel of a family at a time asks dcs, and seven of eight php-fpm "
              "processes wait for the lock (flock)",
        load=family,
        rate=WRK,
        component=(r"php", r"session", r"sess_", r"\bpage\b"),
        mechanism=(*LOCKS, r"flock", r"lock(s|ed)\b", r"session", r"sess_"),
        never=(*DISK, r"(nginx|php-fpm\S*) (\([^)]*\) )?computes"),
        needs=("nginx", f"/usr/sbin/{PHP_FPM}", "go", "wrk"),
    ),
    System(
        name="airline_boards_of_a_hall",
        kind="listen-backlog",
        truth="flights.py listens with Python's queue of five connections, so that the kernel drops "
              "connections of the 16 boards, which come together, and they try again after a second",
        load=hall,
        rate=ITEMS,
        component=(r"flights", r"python"),
        mechanism=(r"back-?log", r"listen[^;]*(queue|full|socket)", r"accept\w* queue", r"queue[^;]*\bfull", r"\bSYNs?\b",
                   r"handshake", r"retransmi", r"re-?sen[dt]", r"drop(s|ped)?\b", r"overflow", r"\blost\b",
                   r"connect(s|ing)? (again|anew)", r"connections?[^;]*\b(is|are|be) accepted", r"connections?[^;]*\bretr(y|ies)"),
        never=(*DISK, r"(flights\S*|python3?|boards) (\([^)]*\) )?(sleeps|computes)", r"\bGIL\b"),
        needs=(PYTHON, "go"),
    ),
    System(
        name="airline_tag_of_a_lost_bag",
        kind="implicit-conversion",
        truth="mariadbd reads and compares all 60,000 rows for each query, because the page asks for "
              "a number and the tag is text, whose index is of no use then",
        load=baggage,
        rate=WRK,
        component=(r"mariadb", r"mysql"),
        mechanism=(*COMPUTES, r"CPU-bound", r"on (a|the) CPU", r"\bscan", r"\bindex",
                   r"(long|slow|expensive|each|per) quer(y|ies)"),
        never=(*DISK, *LOCKS, r"(gunicorn|lost|nginx|wrk) (\([^)]*\) )?(computes|sleeps)", r"mariadbd? (\([^)]*\) )?sleeps"),
        needs=("nginx", "mariadbd", "mariadb", "/usr/bin/gunicorn", "wrk"),
    ),
    System(
        name="airline_scans_stored_together",
        kind="batch-linger",
        truth="the thread bag-store of java waits 30 ms for more scans, up to 32, before it stores the "
              "six that are there in redis, and all six scanners wait for it",
        load=belts,
        rate=WRK,
        component=(r"\bjava\b", r"bag-store", r"bagtrack", r"\bMain\b"),
        mechanism=(*SLEEPS, r"time-?out", r"times out", r"linger", r"batch", r"timed", r"pauses?\b"),
        never=(*DISK, r"(redis\S*|java|bag-store) (\([^)]*\) )?computes", r"redis\S* (\([^)]*\) )?sleeps"),
        halves=True,
        needs=("java", "javac", "redis-server", "wrk"),
    ),
    System(
        name="control_airline_offers",
        kind="control",
        truth="java computes offers in as many threads as there are CPUs, which are all busy; nginx "
              "and wrk need little",
        load=offers,
        rate=WRK,
        acceptable=(*NOTHING, rf"(java|Main|pool-\d).*{BUSY}", r"([Bb]oth|[Aa]ll|[Tt]he) (\w+ )?CPUs"),
        needs=("nginx", "java", "javac", "wrk"),
    ),
    System(
        name="control_airline_movements",
        kind="control",
        truth="tower, in Go, reports a movement each 30 ms by its own clock; three displays in Python "
              "wait for it in a stream of redis, and all are idle most of the time",
        load=movements,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by tower", r"\btower\b.*(sleep|timer|until a time|clock|paced)", r"\bidle\b",
                    r"load generator"),
        needs=("redis-server", "go", PYTHON),
    ),
]
