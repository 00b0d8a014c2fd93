"""The web services of an auction house for art: five frequent faults of proxies, caches, pools and
calls between services, and two healthy parts of the same house.
"""
import signal

from services import PHP_FPM, nginx, postgres, redis
from system import ITEMS, LOCKS, PYTHON, SLEEPS, WRK, System, number, wrk

AB = number(r"Requests per second:\s+([\d.]+)")
RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# The auctioneer calls a lot; the three screens of the saleroom show its page before the next one.
SALEROOM = """#!/usr/bin/ruby
require "net/http"

port, seconds = ARGV[0].to_i, ARGV[1].to_f
now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
screens = Array.new(3) { Net::HTTP.start("127.0.0.1", port) }
start, shown, lot = now.call, 0, 0
while now.call < start + seconds
  lot += 1
  pages = screens.map { |screen| Thread.new { screen.get("/lot/#{lot}") } }
  pages.each { |page| raise "no page" unless page.value.code == "200" }
  shown += screens.size
end
puts "items #{shown} seconds #{(now.call - start).round(3)}"
"""
# The page of a lot counts its visitors with a cookie, so that nginx may not store it.
LOTS = """
const http = require("http"), crypto = require("crypto");
const bids = Array.from({ length: 2500 }, (_, i) => ({ paddle: i * 7919 % 400, euro: 500 + i * 50 }));
let visits = 0;

function page(lot) {
  const best = new Map();
  for (const bid of bids) best.set(bid.paddle, Math.max(best.get(bid.paddle) || 0, bid.euro + lot));
  const order = [...best].sort((a, b) => b[1] - a[1]);
  const rows = order.map(([paddle, euro]) => {
    const sign = crypto.createHash("sha256").update(lot + ":" + paddle + ":" + euro).digest("hex");
    return `<tr id="${sign}"><td>${paddle}</td><td>${euro.toLocaleString("de")}</td></tr>`;
  });
  return `<h1>Lot ${lot}</h1><table>${rows.join("")}</table>`;
}

http.createServer((request, response) => {
  response.setHeader("Set-Cookie", "visit=" + ++visits);
  response.end(page(Number(request.url.slice(5))));
}).listen(Number(process.argv[2]), "127.0.0.1");
"""


def cache_lock(place):
    lots, folder = place.port(), place.folder
    place.start("node", place.write("lots.js", LOTS), lots, port=lots)
    lock = "off" if place.fixed else "on"
    front = nginx(place, f"""location / {{
        proxy_pass http://lots; proxy_http_version 1.1; proxy_set_header Connection "";
        proxy_cache pages; proxy_cache_valid 200 10s; proxy_cache_lock {lock}; }}""",
                  f"upstream lots {{ server 127.0.0.1:{lots}; keepalive 16; }} proxy_cache_path {folder}/pages keys_zone=pages:4m;")
    return [str(place.write("saleroom", SALEROOM)), str(front), str(place.seconds)]


# Prints the labels beside the paintings, from two threads.
LABELS = """#!/usr/bin/ruby
require "net/http"
require "digest"
require "zlib"

port, count = ARGV[0].to_i, ARGV[1].to_i
lots = Queue.new
count.times { |lot| lots << lot }
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
printers = Array.new(2) do
  Thread.new do
    http = Net::HTTP.start("127.0.0.1", port)
    while (lot = lots.pop(true) rescue nil)
      text = http.get("/label.php?lot=#{lot}")
      raise text.body unless text.code == "200"
      dots = (0...450).map { |row| Digest::SHA256.digest("#{text.body}#{row}") }
      Zlib.deflate(dots.join, 6)
    end
  end
end
printers.each(&:join)
puts "items #{count} seconds #{(Process.clock_gettime(Process::CLOCK_MONOTONIC) - start).round(3)}"
"""
# A text comes from the memcached of its key; if that does not answer, PHP writes the text itself.
LABEL = """<?php
$links = [];

function link_to($node) {
    global $links;
    if (!array_key_exists($node, $links)) {
        $links[$node] = @stream_socket_client("tcp://127.0.0.1:" . NODES[$node], $no, $why, PATIENCE / 1e6);
        if ($links[$node]) {
            stream_set_timeout($links[$node], 0, PATIENCE);
        }
    }
    return $links[$node];
}

function cached($key, $write) {
    global $links;
    $node = crc32($key) % count(NODES);
    if ($link = link_to($node)) {
        fwrite($link, "get $key\\r\\n");
        $head = fgets($link);
        if ($head === false) {
            // This page does not ask it a second time.
            $links[$node] = null;
            return $write($key);
        }
        if (preg_match("/^VALUE \\\\S+ \\\\d+ (\\\\d+)/", $head, $found)) {
            $text = stream_get_contents($link, (int) $found[1]);
            fgets($link);
            fgets($link);
            return $text;
        }
        $text = $write($key);
        fwrite($link, "set $key 0 0 " . strlen($text) . "\\r\\n$text\\r\\n");
        fgets($link);
        return $text;
    }
    return $write($key);
}

$lot = (int) $_GET["lot"];
foreach (["title", "artist", "owners", "estimate"] as $part) {
    $write = fn ($key) => wordwrap(str_repeat("The $part of $key, as our experts know it. ", 12), 40, "\\n", true);
    echo "<p>", htmlspecialchars(cached("$part:" . $lot % 60, $write)), "</p>\\n";
}
"""


def hung_node(place):
    pool, front, folder = place.port(), place.port(), place.folder
    nodes = []
    for i in range(3):
        nodes.append(place.port())
        # A memcached that is stopped still accepts connections, because the kernel does.
        memcached = place.start("memcached", "-u", "root", "-l", "127.0.0.1", "-p", nodes[-1], "-m", 32, "-t", 2, port=nodes[-1],
                                stop=signal.SIGKILL)
    if not place.fixed:
        memcached.send_signal(signal.SIGSTOP)
    settings = f"const NODES = [{', '.join(map(str, nodes))}];\nconst PATIENCE = {round(60000 * place.scale)};\n"
    place.write("label.php", LABEL.replace("<?php\n", "<?php\n" + settings))
    config = place.write("fpm.conf", f"""
[global]
daemonize = no
error_log = {folder}/fpm.log
[labels]
user = root
group = root
listen = 127.0.0.1:{pool}
pm = static
pm.max_children = 4
""")
    place.start(PHP_FPM, "-n", "-R", "-F", "-y", config, port=pool)
    web = place.write("apache.conf", f"""
{modules("mpm_event", "authz_core", "proxy", "proxy_fcgi")}
ServerRoot {folder}
ServerName gallery
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
ProxyPassMatch "^/(.*\\.php)$" "fcgi://127.0.0.1:{pool}{folder}/$1"
""")
    place.start("apache2", "-D", "FOREGROUND", "-f", web, port=front)
    return [str(place.write("labels", LABELS)), str(front), "120"]


def modules(*names):
    return "\n".join(f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in names)


# The first page of the catalogue: the dearest lots of the next sale.
CATALOGUE = """<?php
$lots = json_decode(file_get_contents(__DIR__ . "/lots.json"), true);
usort($lots, fn ($a, $b) => $b["estimate"] <=> $a["estimate"]);
echo "<h1>The next sale</h1>\\n";
foreach (array_slice($lots, 0, 25) as $lot) {
    printf("<p>%d. %s, %s: %s euro</p>\\n", $lot["number"], htmlspecialchars($lot["artist"]), htmlspecialchars($lot["title"]),
        number_format($lot["estimate"]));
}
"""


def cgi(place):
    front, pool, folder = place.port(), place.port(), place.folder
    lots = [f'{{"number": {i}, "artist": "Painter {i % 37}", "title": "Still life {i}", "estimate": {i * 7919 % 4000 * 10}}}'
            for i in range(1500)]
    place.write("lots.json", "[" + ",\n".join(lots) + "]")
    place.write("catalogue.php", CATALOGUE)
    if place.fixed:
        place.start("env", "PHP_FCGI_CHILDREN=4", "PHP_FCGI_MAX_REQUESTS=1000000", "php-cgi", "-b", f"127.0.0.1:{pool}", port=pool)
        part, rule = "fastcgi", f'fastcgi.server = (".php" => (("host" => "127.0.0.1", "port" => {pool})))'
    else:
        part, rule = "cgi", 'cgi.assign = (".php" => "/usr/bin/php-cgi")'
    web = place.write("lighttpd.conf", f"""
server.modules = ("mod_{part}")
server.bind = "127.0.0.1"
server.port = {front}
server.document-root = "{folder}"
server.max-keep-alive-requests = 10000000
{rule}
""")
    place.start("lighttpd", "-D", "-f", web, port=front)
    return ["ab", "-q", "-k", "-n", "240", "-c", "4", f"http://127.0.0.1:{front}/catalogue.php"]


# The head of the page of a sale: the current bid, and how many bidders are present. Each bidder who
# is present has a key with a time to live; the fix keeps a set for each sale besides.
PRESENCE = r"""
package main

import ("bufio"; "fmt"; "io"; "net"; "net/http"; "os"; "strconv"; "strings"; "sync/atomic")

type link struct { conn net.Conn; in *bufio.Reader }

func connect(port string) *link {
	conn, err := net.Dial("tcp", "127.0.0.1:" + port)
	if err != nil {
		panic(err)
	}
	return &link{conn, bufio.NewReader(conn)}
}

// reply returns the text of a reply, or the number of elements if it is an array.
func (l *link) reply() string {
	line, err := l.in.ReadString('\n')
	if err != nil {
		panic(err)
	}
	line = strings.TrimSpace(line)
	count, _ := strconv.Atoi(line[1:])
	if line[0] == '*' {
		for i := 0; i < count; i++ {
			l.reply()
		}
	} else if line[0] == '$' && count >= 0 {
		text := make([]byte, count + 2)
		io.ReadFull(l.in, text)
		return string(text[:count])
	}
	return line[1:]
}

func (l *link) ask(command string) string {
	fmt.Fprintf(l.conn, "%s\r\n", command)
	return l.reply()
}

func main() {
	port, store, bidders, mode := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	total, _ := strconv.Atoi(bidders)
	first := connect(store)
	out := bufio.NewWriter(first.conn)
	for sale := 0; sale < 40; sale++ {
		fmt.Fprintf(out, "SET bid:%d %d\r\n", sale, 1000 + sale)
		for paddle := 0; paddle < 12; paddle++ {
			fmt.Fprintf(out, "SET present:%d:%d 1 EX 600\r\nSADD paddles:%d %d\r\n", sale, paddle, sale, paddle)
		}
	}
	for i := 0; i < total; i++ {
		fmt.Fprintf(out, "SET visitor:%d seen EX 3600\r\n", i)
	}
	go out.Flush()
	for i := 0; i < 40 * 25 + total; i++ {
		first.reply()
	}
	pool := make(chan *link, 8)
	for i := 0; i < 8; i++ {
		pool <- connect(store)
	}
	var pages atomic.Int64
	http.HandleFunc("/head", func(w http.ResponseWriter, r *http.Request) {
		sale := pages.Add(1) % 40
		l := <-pool
		bid := l.ask(fmt.Sprintf("GET bid:%d", sale))
		var present string
		if mode == "keys" {
			present = l.ask(fmt.Sprintf("KEYS present:%d:*", sale))
		} else {
			present = l.ask(fmt.Sprintf("SCARD paddles:%d", sale))
		}
		pool <- l
		fmt.Fprintf(w, "<p>sale %d: %s euro, %s bidders</p>\n", sale, bid, present)
	})
	http.ListenAndServe("127.0.0.1:" + port, nil)
}
"""


def haproxy(place, port):
    """Starts haproxy before the server at `port`; returns its own port."""
    front = place.port()
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend gallery
    bind 127.0.0.1:{front}
    default_backend service
backend service
    http-reuse always
    server service 127.0.0.1:{port}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return front


def keys(place):
    store, presence = redis(place), place.port()
    mode = "set" if place.fixed else "keys"
    place.start(place.go("presence", PRESENCE), presence, store, 24000, mode, port=presence)
    return wrk(f"http://127.0.0.1:{haproxy(place, presence)}/head", 6, place.seconds)


# Settles the invoices of a sale, twelve at once.
SETTLEMENT = """
package main

import ("fmt"; "io"; "net/http"; "os"; "strconv"; "sync"; "time")

func main() {
	count, _ := strconv.Atoi(os.Args[2])
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 12
	invoices := make(chan int)
	var group sync.WaitGroup
	start := time.Now()
	for i := 0; i < 12; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for invoice := range invoices {
				answer, err := http.Post(fmt.Sprintf("http://127.0.0.1:%s/settle/%d", os.Args[1], invoice), "text/plain", nil)
				if err != nil || answer.StatusCode != 200 {
					fmt.Println("not settled:", invoice, err)
					os.Exit(1)
				}
				io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		}()
	}
	for invoice := 1; invoice <= count; invoice++ {
		invoices <- invoice
	}
	close(invoices)
	group.Wait()
	fmt.Printf("items %d seconds %.3f\\n", count, time.Since(start).Seconds())
}
"""
# A thread takes a connection to the database for the whole request, also while the bank pays.
TREASURY = """
import queue, urllib.request
import psycopg2
from flask import Flask

app = Flask(__name__)
pool = queue.LifoQueue()
for _ in range(SIZE):
    pool.put(psycopg2.connect(host="127.0.0.1", port=BASE, user="postgres"))

@app.post("/settle/<int:invoice>")
def settle(invoice):
    base = pool.get()
    try:
        with base, base.cursor() as cursor:
            cursor.execute("select euro from invoices where id = %s for update", (invoice,))
            euro, = cursor.fetchone()
            with urllib.request.urlopen(f"http://127.0.0.1:BANK/pay?euro={euro}") as answer:
                receipt = answer.read().decode()
            cursor.execute("update invoices set receipt = %s where id = %s", (receipt, invoice))
        return receipt
    finally:
        pool.put(base)
"""
BANK = """
const http = require("http");
let receipts = 0;
http.createServer((request, response) => {
  setTimeout(() => response.end("receipt " + ++receipts), 25);
}).listen(Number(process.argv[2]), "127.0.0.1");
"""


def pool(place):
    base = postgres(place, """
        create table invoices (id int primary key, euro int, receipt text);
        insert into invoices select i, i * 100 from generate_series(1, 5000) i;
        analyze; checkpoint""", fsync="off")
    bank, port = place.port(), place.port()
    place.start("node", place.write("bank.js", BANK), bank, port=bank)
    place.write("treasury.py", TREASURY.replace("SIZE", "12" if place.fixed else "2").replace("BASE", str(base)).replace("BANK", str(bank)))
    place.start("/usr/bin/gunicorn", "-k", "gthread", "-w", "1", "--threads", "12", "-b", f"127.0.0.1:{port}", "--chdir", place.folder,
                "treasury:app", port=port)
    return [str(place.go("settlement", SETTLEMENT)), str(port), "280"]


# Control: the dates of the viewings come from memory, through connections that are kept.
VIEWINGS = """
package main

import ("encoding/json"; "net/http"; "os"; "sync/atomic")

type viewing struct { Day, Hour, Places int; Hall string }

func main() {
	halls := []string{"east", "west", "garden"}
	var asked atomic.Int64
	http.HandleFunc("/viewings", func(w http.ResponseWriter, r *http.Request) {
		first := int(asked.Add(1))
		days := make([]viewing, 12)
		for i := range days {
			days[i] = viewing{i + 1, 10 + (first + i) % 8, 40 - i, halls[(first + i) % 3]}
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(days)
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def viewings(place):
    port = place.port()
    place.start(place.go("viewings", VIEWINGS), port, port=port)
    front = nginx(place, 'location / { proxy_pass http://viewings; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream viewings {{ server 127.0.0.1:{port}; keepalive 32; }}")
    return ["ab", "-q", "-k", "-n", "45000", "-c", "8", f"http://127.0.0.1:{front}/viewings"]


# Control: eight visitors look at each painting for a while before they turn the page.
VISITORS = """#!/usr/bin/python3
import http.client, sys, threading, time

port, end = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
pages = [0] * 8

def visit(number):
    web = http.client.HTTPConnection("127.0.0.1", port)
    time.sleep(number * 0.013)
    while time.monotonic() < end:
        web.request("GET", f"/painting.php?lot={pages[number] * 8 + number}")
        answer = web.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
        pages[number] += 1
        time.sleep(0.08 + 0.005 * number)

start = time.monotonic()
visitors = [threading.Thread(target=visit, args=(number,)) for number in range(8)]
for visitor in visitors:
    visitor.start()
for visitor in visitors:
    visitor.join()
print(f"items {sum(pages)} seconds {time.monotonic() - start:.3f}")
"""
PAINTING = """<?php
$store = stream_socket_client("tcp://127.0.0.1:STORE");
$key = "painting" . (int) $_GET["lot"] % 50;
fwrite($store, "get $key\\r\\n");
$head = fgets($store);
if (str_starts_with($head, "VALUE")) {
    $text = fgets($store);
    fgets($store);
} else {
    $text = "Oil on canvas, " . md5($key) . "\\r\\n";
    fwrite($store, "set $key 0 0 " . (strlen($text) - 2) . "\\r\\n$text");
    fgets($store);
}
echo "<p>$text</p>\\n";
"""


def visitors(place):
    store, port, web, folder = place.port(), place.port(), place.port(), place.folder
    place.start("memcached", "-u", "root", "-l", "127.0.0.1", "-p", store, "-m", 32, "-t", 2, port=store)
    place.write("painting.php", PAINTING.replace("STORE", str(store)))
    config = place.write("fpm.conf", f"""
[global]
daemonize = no
error_log = {folder}/fpm.log
[paintings]
user = root
group = root
listen = 127.0.0.1:{port}
pm = static
pm.max_children = 6
""")
    place.start(PHP_FPM, "-n", "-R", "-F", "-y", config, port=port)
    rules = place.write("lighttpd.conf", f"""
server.modules = ("mod_fastcgi")
server.bind = "127.0.0.1"
server.port = {web}
server.document-root = "{folder}"
server.max-keep-alive-requests = 10000000
fastcgi.server = (".php" => (("host" => "127.0.0.1", "port" => {port})))
""")
    place.start("lighttpd", "-D", "-f", rules, port=web)
    return [str(place.write("visitors", VISITORS)), str(haproxy(place, web)), str(place.seconds)]


NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
COMPUTES = r"(user|kernel|\brun|own code|preempted|interrupted|comput|\bCPU)"
SYSTEMS = [
    System(
        name="gallery_lock_of_the_cache",
        kind="cache-lock-poll",
        truth="nginx waits for its own timer: two of three requests for the page of a lot find "
              "proxy_cache_lock held and look again only after 500 ms, although lots.js, in node, "
              "answers in a few ms and its answer, which sets a cookie, is never stored",
        load=cache_lock,
        rate=ITEMS,
        component=(r"nginx",),
        mechanism=(*SLEEPS, *LOCKS, r"cache", r"\b(500|499|50\d)(\.\d+)? ?ms", r"time-?out", r"\bpaced\b"),
        never=(*DISK, r"(node|lots\S*) (\([^)]*\) )?sleeps"),
        needs=("nginx", "node", "ruby"),
    ),
    System(
        name="gallery_hung_memcached",
        kind="timeout-of-hung-cache",
        truth="php-fpm waits up to 60 ms, its timeout, for the reply of one of three memcached, which "
              "is stopped and answers nothing, for most of the labels",
        load=hung_node,
        rate=ITEMS,
        component=(r"php", r"\blabel\.php", r"memcached"),
        mechanism=(r"time-?out", r"until a time", r"timer", r"\bpoll", r"\bhung\b", r"\bstopped\b", r"no (reply|answer|response)",
                   r"\bwait[^;]*(memcached|port \d+|127\.0\.0\.1)", r"memcached[^;]*(\banswer|\brepl(y|ies)|\brespon[ds])"),
        never=(*DISK, r"(memcached|php\S*|apache2?) (\([^)]*\) )?computes"),
        halves=True,
        needs=("memcached", "apache2", f"/usr/sbin/{PHP_FPM}", "ruby"),
    ),
    System(
        name="gallery_catalogue_by_cgi",
        kind="process-per-request",
        truth="lighttpd starts a new php-cgi for each request by CGI, and the start of that program "
              "(fork, exec, libraries, extensions) takes far longer than the page",
        load=cgi,
        rate=AB,
        component=(r"php-cgi", r"lighttpd"),
        mechanism=(r"\bstart(s|ed|ing|up)?\b", r"\bfork", r"\bv?fork", r"\bclone", r"\bexec", r"\bspawn", r"(?<!-)\bCGI\b",
                   r"short-lived", r"short lived", r"new process", r"process(es)? (per|for each)", r"programs? (per|for each)",
                   r"\bld(\.so|-linux)", r"dynamic link", r"loads? (its )?librar", r"page faults?"),
        never=(*DISK, r"(lighttpd|php-cgi) (\([^)]*\) )?sleeps"),
        needs=("lighttpd", "php-cgi", "ab"),
    ),
    System(
        name="gallery_keys_of_bidders",
        kind="keys-command",
        truth="redis-server computes: presence, in Go, counts the bidders of a sale by KEYS, which "
              "looks at all 24000 keys for each page, in the one thread of redis",
        load=keys,
        rate=WRK,
        component=(r"redis",),
        mechanism=(*RUNS, r"\bKEYS\b", r"keysCommand", r"stringmatch", r"\bscan", r"one (\w+ )?at a time"),
        never=(*DISK, r"redis(-server)? (\([^)]*\) )?sleeps"),
        code=(r"keysCommand", r"stringmatch", r"dictNext"),
        running=True,
        needs=("redis-server", "haproxy", "go", "wrk"),
    ),
    System(
        name="gallery_two_connections",
        kind="connection-pool-too-small",
        truth="twelve threads of gunicorn (treasury) wait for one another for two connections to "
              "postgres, each of which a request holds also while bank.js takes 25 ms to pay",
        load=pool,
        rate=ITEMS,
        component=(r"gunicorn", r"treasury", r"python",
                   r"(bank|node)[^;]*(at a time|at once|in parallel|one after|concurren|only two|pool)"),
        mechanism=(*LOCKS, r"\bpool", r"for one another", r"semaphore", r"\bqueue", r"\bholds?\b", r"\bheld\b", r"at a time", r"at once",
                   r"only (two|2)", r"(two|2) (\w+ )?(connections|requests|threads)",
                   r"condition"),
        never=(*DISK, r"postgres (\([^)]*\) )?(sleeps|computes)"),
        needs=("psql", "node", "/usr/bin/gunicorn", "go", PYTHON),
    ),
    System(
        name="control_gallery_viewings",
        kind="control",
        truth="ab, nginx with connections that it keeps, and viewings, in Go, share two CPUs that are "
              "full or nearly so",
        load=viewings,
        rate=AB,
        acceptable=(*NOTHING, rf"(\bab\b|nginx|viewings).*{COMPUTES}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs", r"load generator",
                    r"\bab\b.*(client|load|one thread)"),
        needs=("nginx", "go", "ab"),
    ),
    System(
        name="control_gallery_visitors",
        kind="control",
        truth="eight visitors pause between two pages by intention; haproxy, lighttpd, six workers of "
              "php-fpm and memcached answer in a few ms and are idle most of the time",
        load=visitors,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by (visitors|python)", r"(visitors|python).*(sleep|timer|until a time|pause)", r"\bidle\b",
                    r"load generator"),
        needs=("memcached", "haproxy", "lighttpd", f"/usr/sbin/{PHP_FPM}", PYTHON),
    ),
]
