"""The newsroom of a newspaper: five faults of services and message systems that are frequent in
production, and two healthy parts of the same newsroom.

The programs that need no library speak the protocols of NATS, redis and beanstalkd themselves.
"""
from services import nginx, php, redis
from system import ITEMS, PYTHON, SLEEPS, WRK, System, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")
DISK = r"(waits? for|reads? from|writes? to) (the |a )?disk"


def does(names, verb):
    """Returns a pattern for "NAME (pid 123), VERB"."""
    return rf"\b({names})\S*( \([^)]*\))?,? {verb}"


def nats(place):
    port = place.port()
    place.start("nats-server", "-a", "127.0.0.1", "-p", port, port=port)
    return port


# Serves the stories of the wire, each with the tags that it requests over NATS.
WIREDESK = """
package main

import ("bufio"; "fmt"; "io"; "net"; "net/http"; "os"; "strings"; "sync"; "sync/atomic")

var (
	bus net.Conn
	writing, asking sync.Mutex
	asked = map[string]chan string{}
	last int64
)

func send(text string) {
	writing.Lock()
	io.WriteString(bus, text)
	writing.Unlock()
}

func receive(in *bufio.Reader) {
	for {
		line, err := in.ReadString('\\n')
		if err != nil { os.Exit(1) }
		words := strings.Fields(line)
		if words[0] == "PING" { send("PONG\\r\\n") }
		if words[0] != "MSG" { continue }
		var size int
		fmt.Sscan(words[len(words) - 1], &size)
		text := make([]byte, size + 2)
		io.ReadFull(in, text)
		asking.Lock()
		answer := asked[words[1]]
		delete(asked, words[1])
		asking.Unlock()
		answer <- string(text[:size])
	}
}

func story(number int64) string {
	text := make([]string, 300)
	for i := range text { text[i] = fmt.Sprintf("word%d", (number + 7) * int64(i * i) % 97) }
	return strings.Join(text, " ")
}

func tags(text string) string {
	inbox := fmt.Sprintf("_INBOX.wiredesk.%d", atomic.AddInt64(&last, 1))
	answer := make(chan string, 1)
	asking.Lock()
	asked[inbox] = answer
	asking.Unlock()
	send(fmt.Sprintf("PUB tags %s %d\\r\\n%s\\r\\n", inbox, len(text), text))
	return <-answer
}

func main() {
	var err error
	bus, err = net.Dial("tcp", "127.0.0.1:" + os.Args[2])
	if err != nil { panic(err) }
	send("CONNECT {\\"verbose\\":false}\\r\\nSUB _INBOX.wiredesk.* 1\\r\\n")
	go receive(bufio.NewReader(bus))
	http.HandleFunc("/story", func(w http.ResponseWriter, r *http.Request) {
		text := story(atomic.LoadInt64(&last) % 1000)
		fmt.Fprintf(w, "%s\\ntags: %s\\n", text, tags(text))
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""

# Collects stories into a batch, and tags the batch when it is full or when the window is over.
TAGGER = """
const fs = require("fs"), net = require("net");
const [port, most, milliseconds] = process.argv.slice(2).map(Number);
const bus = net.connect(port, "127.0.0.1");
let batch = [], timer = null, rest = "";

function tags(text) {
  const counts = new Map();
  for (let round = 0; round < 12; round++)
    for (const word of text.split(" ")) counts.set(word, (counts.get(word) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).slice(0, 5).map(pair => pair[0]).join(" ");
}

function flush() {
  clearTimeout(timer);
  timer = null;
  const stories = batch;
  batch = [];
  bus.write(stories.map(story => {
    const found = tags(story.text);
    return `PUB ${story.inbox} ${found.length}\\r\\n${found}\\r\\n`;
  }).join(""));
}

function take(story) {
  batch.push(story);
  if (batch.length >= most || !milliseconds) flush();
  else timer ||= setTimeout(flush, milliseconds);
}

bus.setNoDelay(true);
bus.on("connect", () => {
  bus.write('CONNECT {"verbose":false}\\r\\nSUB tags 1\\r\\n');
  fs.writeFileSync("tagger-ready", "");
});
bus.on("data", part => {
  rest += part.toString("latin1");
  for (let end; (end = rest.indexOf("\\r\\n")) >= 0;) {
    const words = rest.slice(0, end).split(" ");
    let next = end + 2;
    if (words[0] === "PING") bus.write("PONG\\r\\n");
    if (words[0] === "MSG") {
      next += Number(words[4]) + 2;
      if (rest.length < next) return;
      take({ inbox: words[3], text: rest.slice(end + 2, next - 2) });
    }
    rest = rest.slice(next);
  }
});
"""


def batches(place):
    bus, port = nats(place), place.port()
    milliseconds = round(20 * place.fault)
    place.start("node", place.write("tagger.js", TAGGER), bus, 64, milliseconds, path=place.folder / "tagger-ready")
    place.start(place.go("wiredesk", WIREDESK), port, bus, port=port)
    front = nginx(place, 'location / { proxy_pass http://wire; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream wire {{ server 127.0.0.1:{port}; keepalive 16; }}")
    return wrk(f"http://127.0.0.1:{front}/story", 8, place.seconds)


# The page of a section: its headlines are found by a pattern of keys or by a set of keys.
SECTION = r"""<?php
function answer($store) {
    $line = rtrim(fgets($store));
    $count = (int) substr($line, 1);
    if ($line[0] == "*") {
        $all = [];
        for ($i = 0; $i < $count; $i++) $all[] = answer($store);
        return $all;
    }
    return $line[0] == "$" ? substr(stream_get_contents($store, $count + 2), 0, -2) : $line;
}

function ask($store, ...$words) {
    $text = "*" . count($words) . "\r\n";
    foreach ($words as $word) $text .= "$" . strlen($word) . "\r\n$word\r\n";
    fwrite($store, $text);
    return answer($store);
}

$store = pfsockopen("127.0.0.1", PORT);
$section = $_GET["section"];
$keys = FIND;
rsort($keys);
echo "<h1>$section</h1><ul>";
foreach (ask($store, "MGET", ...array_slice($keys, 0, 10)) as $headline)
    echo "<li>" . htmlspecialchars(ucfirst($headline)) . "</li>";
echo "</ul>";
"""
BY_PATTERN = 'ask($store, "KEYS", "headline:$section:*")'
BY_SET = 'ask($store, "SMEMBERS", "section:$section")'


def sections(place):
    store = redis(place)
    lines = [f"SET headline:politics:{i} 'minister denies <report {i}>'\nSADD section:politics headline:politics:{i}" for i in range(20)]
    lines += [f"SET photograph:{i} 'negative in drawer {i % 311}'" for i in range(round(60000 * place.scale))]
    place.run("redis-cli", "-p", store, "--pipe", input="\n".join(lines) + "\n")
    page = SECTION.replace("PORT", str(store)).replace("FIND", BY_SET if place.fixed else BY_PATTERN)
    web, front = php(place, page, 4), place.port()
    config = place.write("haproxy.cfg", f"""
global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
listen newspaper
  bind 127.0.0.1:{front}
  server web 127.0.0.1:{web}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return wrk(f"http://127.0.0.1:{front}/page.php?section=politics", 6, place.seconds)


# Eight readers open one article after the other.
READERS = """#!/usr/bin/ruby
require "net/http"
port, articles = ARGV.map(&:to_i)
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
threads = 8.times.map do |reader|
  Thread.new do
    Net::HTTP.start("127.0.0.1", port) do |newspaper|
      (articles / 8).times do |article|
        answer = newspaper.get("/article/#{article}?reader=#{reader}")
        raise answer.body unless answer.body.include?("whole text")
      end
    end
  end
end
threads.each(&:join)
seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
puts "items #{articles / 8 * 8} seconds #{seconds.round(3)}"
"""

# Serves articles, and asks the paywall by JSON-RPC on one connection, which carries many calls.
EDITION = """
const http = require("http"), net = require("net"), readline = require("readline");
const [port, paywall] = process.argv.slice(2).map(Number);
const link = net.connect(paywall, "127.0.0.1"), waiting = new Map();
let last = 0;
link.setNoDelay(true);
readline.createInterface({ input: link }).on("line", line => {
  const answer = JSON.parse(line);
  waiting.get(answer.id)(answer.result);
  waiting.delete(answer.id);
});
http.createServer((request, response) => {
  const url = new URL(request.url, "http://newspaper"), id = ++last;
  waiting.set(id, paid => response.end(url.pathname + (paid ? ": whole text" : ": teaser")));
  const params = [url.searchParams.get("reader")];
  link.write(JSON.stringify({ jsonrpc: "2.0", id, method: "allowed", params }) + "\\n");
}).listen(port, "127.0.0.1");
"""

# Each call is a task of the event loop. With "threads", a thread asks the accounts, and not the
# event loop itself.
PAYWALL = """#!/usr/bin/python3
import asyncio, http.client, json, sys, threading
from concurrent.futures import ThreadPoolExecutor

port, accounts, threads = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "threads"
pool, local, tasks = ThreadPoolExecutor(16), threading.local(), set()

def subscribed(reader):
    if not hasattr(local, "accounts"):
        local.accounts = http.client.HTTPConnection("127.0.0.1", accounts)
    local.accounts.request("GET", f"/account?reader={reader}")
    return json.loads(local.accounts.getresponse().read())["subscribed"]

async def answer(call, out):
    reader = call["params"][0]
    if threads:
        result = await asyncio.get_running_loop().run_in_executor(pool, subscribed, reader)
    else:
        result = subscribed(reader)
    out.write(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}).encode() + b"\\n")

async def serve(lines, out):
    while line := await lines.readline():
        task = asyncio.create_task(answer(json.loads(line), out))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", port)
    await server.serve_forever()

asyncio.run(main())
"""
ACCOUNTS = """
package main

import ("fmt"; "net/http"; "os"; "time")

func main() {
	pause, _ := time.ParseDuration(os.Args[2])
	http.HandleFunc("/account", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(pause)
		fmt.Fprintf(w, `{"reader": %q, "subscribed": true}`, r.URL.Query().Get("reader"))
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def articles(place):
    port, paywall, accounts = (place.port() for _ in range(3))
    place.start(place.go("accounts", ACCOUNTS), accounts, f"{0.008 * place.scale}s", port=accounts)
    place.start(place.write("paywall", PAYWALL), paywall, accounts, "threads" if place.fixed else "loop", port=paywall)
    place.start("node", place.write("edition.js", EDITION), port, paywall, port=port)
    return [str(place.write("readers", READERS)), str(port), "440"]


# Four threads renew one subscription after the other, each on its own connection.
RENEWALS = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static const char *path;
static int each;

static void *renew(void *argument) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    int office = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(office, (struct sockaddr *)&address, sizeof address)) exit(1);
    for (int i = 0; i < each; i++) {
        char text[64];
        int size = sprintf(text, "renew %ld\n", ((long)argument * 50021 + i * 7919L) % 1000003);
        if (write(office, text, size) != size || read(office, text, sizeof text) <= 0) exit(1);
    }
    close(office);
    return NULL;
}

int main(int count, char **words) {
    struct timespec begin, end;
    pthread_t threads[4];
    path = words[1];
    each = atoi(words[2]) / 4;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, renew, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("items %d seconds %.3f\n", each * 4,
           end.tv_sec - begin.tv_sec + (end.tv_nsec - begin.tv_nsec) * 1e-9);
}
"""

# Keeps all subscribers in memory, and makes an invoice for each renewal.
SUBSCRIPTIONS = """
import java.io.*;
import java.net.*;
import java.nio.channels.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;

public class Main {
    record Subscriber(int number, String name, String street, int years) {}
    static final int COUNT = 300000;
    static final Map<Integer, Subscriber> ALL = new ConcurrentHashMap<>(2 * COUNT);

    static int invoice(Subscriber one) {
        List<String> lines = new ArrayList<>();
        for (int issue = 0; issue < 312; issue++)
            lines.add(one.name() + ": issue " + issue + " for " + one.street());
        return String.join("\\n", lines).hashCode();
    }

    static void serve(SocketChannel channel) {
        try (channel) {
            BufferedReader in = new BufferedReader(new InputStreamReader(Channels.newInputStream(channel)));
            OutputStream out = Channels.newOutputStream(channel);
            for (String line; (line = in.readLine()) != null;) {
                int number = Integer.parseInt(line.substring(6)) % COUNT;
                Subscriber old = ALL.get(number);
                Subscriber renewed = new Subscriber(number, old.name(), old.street(), old.years() + 1);
                ALL.put(number, renewed);
                out.write(("invoice " + invoice(renewed) + "\\n").getBytes());
            }
        } catch (IOException error) { throw new UncheckedIOException(error); }
    }

    public static void main(String[] words) throws Exception {
        for (int i = 0; i < COUNT; i++)
            ALL.put(i, new Subscriber(i, "Reader no. " + i, "Mill Lane " + i % 4001, i % 40));
        ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        Path temporary = Path.of(words[0] + ".new");
        server.bind(UnixDomainSocketAddress.of(temporary));
        Files.move(temporary, Path.of(words[0]));
        ExecutorService threads = Executors.newCachedThreadPool();
        while (true) {
            SocketChannel channel = server.accept();
            threads.execute(() -> serve(channel));
        }
    }
}
"""


def renewals(place):
    office = place.folder / "office"
    heap = "-Xmx600m" if place.fixed else "-Xmx80m"
    place.start("java", heap, "-XX:+UseParallelGC", "-cp", place.java(SUBSCRIPTIONS), "Main", office, path=office)
    return [str(place.c("renewals", RENEWALS)), str(office), "9000"]


# Sends all stories of the night, and waits until the desks have edited them.
AGENCY = r"""#!/usr/bin/perl
use strict;
use warnings;
use IO::Socket::INET;
use Time::HiRes qw(time);

my ($port, $stories) = @ARGV;
my $store = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") or die "no redis";
$store->autoflush(1);

sub command {
    print $store join "", "*" . @_ . "\r\n", map { "\$" . length($_) . "\r\n$_\r\n" } @_;
}

my $start = time;
for my $number (1 .. $stories) {
    my $agency = $number % 20 ? "northern press" : "harbour news";
    command("LPUSH", "wire", qq({"agency": "$agency", "number": $number, "text": "The mayor said"}));
    <$store>;
}
for (1 .. $stories) {
    command("BRPOP", "edited", 0);
    <$store> for 1 .. 5;
}
printf "items %d seconds %.3f\n", $stories, time - $start;
"""

# Passes each story to one of four desks.
ROUTER = """
package main

import ("bufio"; "encoding/json"; "fmt"; "hash/fnv"; "io"; "net"; "os"; "strconv"; "strings")

type Story struct { Agency string; Number int }

func connect(port string) net.Conn {
	conn, err := net.Dial("tcp", "127.0.0.1:" + port)
	if err != nil { panic(err) }
	return conn
}

func pop(store net.Conn, in *bufio.Reader) []byte {
	io.WriteString(store, "*3\\r\\n$5\\r\\nBRPOP\\r\\n$4\\r\\nwire\\r\\n$1\\r\\n0\\r\\n")
	for i := 0; i < 3; i++ { in.ReadString('\\n') }
	line, err := in.ReadString('\\n')
	if err != nil { os.Exit(1) }
	size, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	text := make([]byte, size + 2)
	io.ReadFull(in, text)
	return text[:size]
}

func main() {
	store, bus, key := connect(os.Args[1]), connect(os.Args[2]), os.Args[3]
	io.WriteString(bus, "CONNECT {\\"verbose\\":false}\\r\\n")
	go func() {
		lines := bufio.NewScanner(bus)
		for lines.Scan() {
			if lines.Text() == "PING" { io.WriteString(bus, "PONG\\r\\n") }
		}
	}()
	in := bufio.NewReader(store)
	os.WriteFile("router-ready", nil, 0644)
	for {
		text := pop(store, in)
		var story Story
		if json.Unmarshal(text, &story) != nil { continue }
		desk := uint32(story.Number)
		if key == "agency" {
			sum := fnv.New32a()
			sum.Write([]byte(story.Agency))
			desk = sum.Sum32()
		}
		fmt.Fprintf(bus, "PUB desk.%d %d\\r\\n%s\\r\\n", desk % 4, len(text), text)
	}
}
"""

# Edits one story after the other. A pause stands for the work of the editor.
DESK = """#!/usr/bin/ruby
require "json"
require "socket"
bus_port, store_port, number, pause = ARGV[0].to_i, ARGV[1].to_i, ARGV[2].to_i, ARGV[3].to_f
bus, store = TCPSocket.new("127.0.0.1", bus_port), TCPSocket.new("127.0.0.1", store_port)
bus.write("CONNECT {\\"verbose\\":false}\\r\\nSUB desk.#{number} 1\\r\\nPING\\r\\n")
while line = bus.gets
  case line
  when /^PING/ then bus.write("PONG\\r\\n")
  when /^PONG/ then File.write("desk-#{number}-ready", "")
  when /^MSG .* (\\d+)\\r/
    story = JSON.parse(bus.read($1.to_i + 2))
    sleep pause
    done = story["number"].to_s
    store.write("*3\\r\\n$5\\r\\nLPUSH\\r\\n$6\\r\\nedited\\r\\n$#{done.length}\\r\\n#{done}\\r\\n")
    store.gets
  end
end
"""


def desks(place):
    store, bus = redis(place), nats(place)
    desk = place.write("desk", DESK)
    for number in range(4):
        place.start(desk, bus, store, number, 0.004 * place.scale, path=place.folder / f"desk-{number}-ready")
    key = "number" if place.fixed else "agency"
    place.start(place.go("router", ROUTER), store, bus, key, path=place.folder / "router-ready")
    return [str(place.write("agency", AGENCY)), str(store), "900"]


# Control: one short bulletin each 80 ms by intention.
TICKER = r"""#!/usr/bin/perl
use strict;
use warnings;
use IO::Socket::INET;
use Time::HiRes qw(time sleep);

my ($port, $seconds) = @ARGV;
my $queue = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") or die "no beanstalkd";
$queue->autoflush(1);
my ($start, $bulletins) = (time, 0);
while (time < $start + $seconds) {
    my $text = "bulletin $bulletins: rain in the evening";
    printf $queue "put 100 0 60 %d\r\n%s\r\n", length $text, $text;
    die "not queued" unless <$queue> =~ /^INSERTED/;
    $bulletins++;
    my $rest = $start + $bulletins * 0.08 - time;
    sleep $rest if $rest > 0;
}
printf "items %d seconds %.3f\n", $bulletins, time - $start;
"""
TYPESETTER = r"""#!/usr/bin/php
<?php
$queue = stream_socket_client("tcp://127.0.0.1:$argv[1]");
$telegraph = stream_socket_client("unix://$argv[2]");
touch("typesetter-ready");
while (true) {
    fwrite($queue, "reserve\r\n");
    [, $job, $size] = explode(" ", rtrim(fgets($queue)));
    $text = rtrim(stream_get_contents($queue, (int) $size + 2));
    fwrite($telegraph, strtoupper(wordwrap($text, 20, " / ")) . "\n");
    fgets($telegraph);
    fwrite($queue, "delete $job\r\n");
    fgets($queue);
}
"""
TELEGRAPH = """
package main

import ("bufio"; "fmt"; "net"; "os")

func main() {
	tape, err := os.Create("tape")
	if err != nil { panic(err) }
	server, err := net.Listen("unix", os.Args[1])
	if err != nil { panic(err) }
	for {
		sender, err := server.Accept()
		if err != nil { panic(err) }
		go func() {
			lines := bufio.NewScanner(sender)
			for lines.Scan() {
				fmt.Fprintln(tape, lines.Text())
				fmt.Fprintln(sender, "printed")
			}
		}()
	}
}
"""


def bulletins(place):
    queue, line = place.port(), place.folder / "line"
    place.start("beanstalkd", "-l", "127.0.0.1", "-p", queue, port=queue)
    place.start(place.go("telegraph", TELEGRAPH), line, path=line)
    place.start(place.write("typesetter", TYPESETTER), queue, line, path=place.folder / "typesetter-ready")
    return [str(place.write("ticker", TICKER)), str(queue), str(place.seconds)]


# Control: three darkrooms share the photographs of a day, and compute on all CPUs.
PICTUREDESK = """#!/usr/bin/ruby
require "socket"
port, photographs = ARGV.map(&:to_i)
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
store = TCPSocket.new("127.0.0.1", port)
photographs.times { |number| store.write("LPUSH negatives #{number}\\r\\n") }
photographs.times { store.gets }
photographs.times do
  store.write("BRPOP prints 0\\r\\n")
  5.times { store.gets }
end
seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
puts "items #{photographs} seconds #{seconds.round(3)}"
"""
DARKROOM = r"""
#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/socket.h>
#include <vector>

// Makes a photograph from its number, blurs it, and returns its brightness.
static unsigned print(unsigned number) {
    const int side = 400;
    std::vector<unsigned> now(side * side), next(side * side);
    for (auto &point : now) point = (number = number * 1664525 + 1013904223) >> 24;
    for (int round = 0; round < 24; round++) {
        for (int y = 1; y < side - 1; y++)
            for (int x = 1; x < side - 1; x++) {
                int i = y * side + x;
                next[i] = (now[i] * 4 + now[i - 1] + now[i + 1] + now[i - side] + now[i + side]) / 8;
            }
        now.swap(next);
    }
    unsigned sum = 0;
    for (auto point : now) sum += point;
    return sum;
}

int main(int count, char **words) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(atoi(words[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int store = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(store, (sockaddr *)&address, sizeof address)) return 1;
    FILE *in = fdopen(store, "r");
    char line[64];
    while (true) {
        dprintf(store, "BRPOP negatives 0\r\n");
        for (int i = 0; i < 5; i++)
            if (!fgets(line, sizeof line, in)) return 0;
        dprintf(store, "LPUSH prints %u\r\n", print(atoi(line)));
        if (!fgets(line, sizeof line, in)) return 0;
    }
}
"""


def photographs(place):
    store = redis(place)
    program = place.built(DARKROOM, ".cpp", "g++", "-O2", "-o", "{program}", "{source}")
    darkroom = place.named(program, "darkroom")
    for _ in range(3):
        place.start(darkroom, store)
    return [str(place.write("picturedesk", PICTUREDESK)), str(store), "1600"]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
SYSTEMS = [
    System(
        name="newsroom_tags_in_batches",
        kind="batch-window",
        truth="node (tagger.js) waits for a timer of 20 ms before it tags a batch, because eight "
              "requests never fill its batch of 64, and wiredesk waits for the tags over NATS",
        load=batches,
        rate=WRK,
        component=(r"tagger", r"\bnode\b"),
        mechanism=(*SLEEPS, r"batch", r"window", r"time-?out", r"\bdelay", r"\blinger"),
        never=(DISK, does("wiredesk|nginx|nats-server", "(sleeps|computes)"), does("node|tagger", "computes")),
        change="x0",
        halves=True,
        needs=("nats-server", "node", "go", "nginx", "wrk"),
    ),
    System(
        name="newsroom_section_by_pattern",
        kind="keys-by-pattern",
        truth="redis-server compares all its 60000 keys with a pattern (KEYS) for each page of a "
              "section, one command at a time, and php-fpm waits for its replies",
        load=sections,
        rate=WRK,
        component=(r"redis",),
        mechanism=(*RUNS, r"\bKEYS\b", r"pattern", r"one (\w+ )?at a time", r"scans?\b"),
        never=(DISK, does("redis|php-fpm", "sleeps"), does("php-fpm|haproxy|nginx", "computes")),
        halves=True,
        running=True,
        needs=("redis-server", "redis-cli", "nginx", "haproxy", "wrk"),
    ),
    System(
        name="newsroom_paywall_blocks_its_loop",
        kind="blocking-call-in-event-loop",
        truth="the event loop of paywall, in Python, itself waits for each reply of accounts, so "
              "that it has one request at a time on the way, and the other calls of node "
              "(edition.js) wait in its socket",
        load=articles,
        rate=ITEMS,
        component=(r"paywall", r"python", r"asyncio"),
        mechanism=(r"one (\w+ )?(at a time|after (the other|another))", r"(serves|sends|has) one \w+",
                   r"waits? (in \w+ )?(for|on) (\w+ ){0,3}(repl|answer|respons|accounts)", r"requests? to",
                   r"\basks\b", r"event loop", r"\bblock(s|ed|ing)\b", r"wait for one another",
                   r"one thread", r"synchronous"),
        never=(DISK, does("paywall|python3?", "(sleeps|computes)"), does("node|edition|readers|accounts", "computes")),
        change="x0.125",
        halves=True,
        needs=(PYTHON, "node", "ruby", "go"),
    ),
    System(
        name="newsroom_subscribers_fill_the_heap",
        kind="heap-too-small",
        truth="java collects garbage most of the time, because its heap of 80 MB (-Xmx) is little "
              "larger than the subscribers that it keeps, and the threads that make invoices for "
              "renewals wait meanwhile",
        load=renewals,
        rate=ITEMS,
        component=(r"\bjava\b", r"\bGC\b", r"\bVM Thread", r"subscriptions"),
        mechanism=(r"garbage", r"\bGC\b", r"collect", r"\bheap\b", r"\bVM Thread", r"stop.the.world"),
        never=(DISK, does("renewals", "(sleeps|computes)"), does("java", "sleeps")),
        needs=("java", "javac", "gcc"),
    ),
    System(
        name="newsroom_stories_of_one_agency",
        kind="hot-partition",
        truth="one of the four desks, in ruby, sleeps 4 ms for each of 19 of 20 stories, one at a "
              "time, because router selects the desk by the agency and almost all stories come "
              "from one agency, while the other desks are idle",
        load=desks,
        rate=ITEMS,
        component=(r"\bdesk", r"\bruby", r"\brouter"),
        mechanism=(*SLEEPS, r"one (\w+ )?(at a time|after (the other|another))", r"partition", r"\bskew", r"uneven",
                   r"(serves|edits|handles) one \w+", r"one of (the )?(four|4)", r"hot key"),
        never=(DISK, does("router|redis-server|nats-server|agency", "(sleeps|computes)"),
               does("desk|ruby", "computes")),
        change="x0.25",
        halves=True,
        needs=("redis-server", "nats-server", "ruby", "perl", "go"),
    ),
    System(
        name="control_newsroom_bulletins",
        kind="control",
        truth="ticker, in Perl, sends a bulletin each 80 ms by intention; beanstalkd, typesetter, in "
              "PHP, and telegraph are done long before the next one, and all are idle most of the "
              "time",
        load=bulletins,
        rate=ITEMS,
        acceptable=(r"paced by (ticker|perl)", r"(ticker|perl).*(sleep|timer|until a time)",
                    r"\bidle\b", r"[Nn]othing stands out", r"no single program"),
        needs=("beanstalkd", "php", "perl", "go"),
    ),
    System(
        name="control_newsroom_darkrooms",
        kind="control",
        truth="three processes of darkroom, in C++, share the photographs of a list in redis, and "
              "both CPUs are full of their computation",
        load=photographs,
        rate=ITEMS,
        acceptable=(rf"(darkroom|redis|picturedesk|ruby).*{COMPUTES}", r"(both|all|the) (\d+ )?CPUs",
                    r"[Nn]othing stands out", r"no single program"),
        needs=("redis-server", "ruby", "g++"),
    ),
]
