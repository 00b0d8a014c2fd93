"""The messages of a postal service: five frequent faults of brokers, queues, their producers and
their workers, and two healthy parts of the same post office.
"""
import os
import pwd
import signal

from services import PHP_FPM, php, redis
from system import ITEMS, PYTHON, SLEEPS, WRK, System, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# Asks for the duty on each declaration that the stream of nats-server gives it, and clears it.
CUSTOMSDESK = """
package main

import ("bufio"; "encoding/json"; "fmt"; "io"; "net"; "net/http"; "os"; "strconv"; "strings"; "sync")

type Declaration struct {
	Number int
	Goods, Country string
	Value float64
}

func main() {
	bus, err := net.Dial("tcp", "127.0.0.1:" + os.Args[1])
	if err != nil {
		panic(err)
	}
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 32
	var writing sync.Mutex
	publish := func(subject, text string) {
		writing.Lock()
		defer writing.Unlock()
		fmt.Fprintf(bus, "PUB %s %d\\r\\n%s\\r\\n", subject, len(text), text)
	}
	request := func(subject, text string) {
		writing.Lock()
		defer writing.Unlock()
		fmt.Fprintf(bus, "PUB $JS.API.%s desk.replies %d\\r\\n%s\\r\\n", subject, len(text), text)
	}
	clearance := func(text []byte, token string) {
		var declaration Declaration
		json.Unmarshal(text, &declaration)
		answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%s/duty?goods=%s&country=%s", os.Args[2], declaration.Goods, declaration.Country))
		if err != nil {
			return
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		percent, _ := strconv.ParseFloat(strings.TrimSpace(string(body)), 64)
		publish("cleared", fmt.Sprintf("%d %.2f", declaration.Number, declaration.Value * percent / 100))
		publish(token, "+ACK")
	}
	fmt.Fprintf(bus, "CONNECT {\\"verbose\\":false}\\r\\nSUB desk.replies 1\\r\\nSUB desk.declarations 2\\r\\n")
	request("STREAM.CREATE.CUSTOMS", `{"name":"CUSTOMS","subjects":["declarations"],"storage":"memory"}`)
	lines := bufio.NewReader(bus)
	for replies := 0;; {
		line, err := lines.ReadString('\\n')
		if err != nil {
			return
		}
		words := strings.Fields(line)
		if words[0] == "PING" {
			writing.Lock()
			fmt.Fprintf(bus, "PONG\\r\\n")
			writing.Unlock()
		}
		if words[0] != "MSG" {
			continue
		}
		length, _ := strconv.Atoi(words[len(words) - 1])
		text := make([]byte, length + 2)
		io.ReadFull(lines, text)
		if words[2] == "2" {
			go clearance(text[:length], words[3])
			continue
		}
		if strings.Contains(string(text), `"error"`) {
			panic(string(text))
		}
		replies++
		if replies == 1 {
			request("CONSUMER.DURABLE.CREATE.CUSTOMS.desk", `{"stream_name":"CUSTOMS","config":{"durable_name":"desk",` +
				`"deliver_subject":"desk.declarations","ack_policy":"explicit","max_ack_pending":` + os.Args[3] + `}}`)
		} else {
			os.WriteFile("customsdesk-ready", nil, 0o644)
		}
	}
}
"""
TARIFFS = """
const http = require("http");
const [port, pause] = process.argv.slice(2).map(Number);
const duty = { books: 0, shoes: 17, tea: 3.2, toys: 4.7 };

http.createServer((request, response) => {
  const asked = new URL(request.url, "http://tariffs").searchParams;
  setTimeout(() => {
    const rate = duty[asked.get("goods")] * (asked.get("country") === "near" ? 0.5 : 1);
    response.end(rate.toFixed(2) + "\\n");
  }, pause);
}).listen(port, "127.0.0.1");
"""
# Declares the goods of one sack, and waits until all are cleared.
DECLARER = """#!/usr/bin/perl
use strict;
use warnings;
use IO::Socket::INET;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my ($port, $count) = @ARGV;
my $bus = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $port) or die "no bus: $!";
print $bus "CONNECT {\\"verbose\\":false}\\r\\nSUB cleared 1\\r\\n";
$bus->flush;
my $start = clock_gettime(CLOCK_MONOTONIC);
my @goods = ("books", "shoes", "tea", "toys");
for my $number (1 .. $count) {
    my $country = $number % 3 ? "near" : "far";
    my $text = sprintf '{"number":%d,"goods":"%s","country":"%s","value":%d}', $number, $goods[$number % 4], $country, 5 + $number % 400;
    print $bus "PUB declarations " . length($text) . "\\r\\n$text\\r\\n";
}
$bus->flush;
my ($cleared, $duties) = (0, 0);
while ($cleared < $count) {
    my $line = <$bus> // die "the bus is gone";
    if ($line =~ /^PING/) {
        print $bus "PONG\\r\\n";
        $bus->flush;
    }
    next unless $line =~ /^MSG/;
    $duties += (split " ", scalar <$bus>)[1];
    $cleared++;
}
printf "items %d seconds %.3f\\n", $count, clock_gettime(CLOCK_MONOTONIC) - $start;
"""


def customs(place):
    bus, tariffs = place.port(), place.port()
    config = place.write("bus.conf", f'listen: "127.0.0.1:{bus}"\njetstream {{ store_dir: "{place.folder}/streams", max_mem: 64M }}\n')
    place.start("nats-server", "-c", config, port=bus)
    place.start("node", place.write("tariffs.js", TARIFFS), tariffs, 8 * place.scale, port=tariffs)
    place.start(place.go("customsdesk", CUSTOMSDESK), bus, tariffs, 8 if place.fixed else 1, path=place.folder / "customsdesk-ready")
    return [str(place.write("declarer", DECLARER)), str(bus), "400"]


# Moves each parcel to the list of those that are being sorted, from which it removes it at last.
SORTER = """#!/usr/bin/ruby
require "socket"
require "json"
require "digest"
$store = TCPSocket.new("127.0.0.1", ARGV[0].to_i)
$store.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)

def ask(*words)
  $store.write("*#{words.size}\\r\\n" + words.map { |word| "$#{word.bytesize}\\r\\n#{word}\\r\\n" }.join)
  line = $store.gets
  raise line if line.start_with?("-")
  line.start_with?("$") ? $store.read(line[1..].to_i + 2).chomp : line[1..].to_i
end

loop do
  text = ask("BRPOPLPUSH", "parcels", "sorting", "0")
  parcel = JSON.parse(text)
  belt = parcel["postcode"]
  250.times { belt = Digest::SHA256.hexdigest(belt) }
  ask("LPUSH", "belts", "#{parcel["number"]} #{belt.to_i(16) % 40}")
  ask("LREM", "sorting", "0", text)
end
"""
INTAKE = """
package main

import ("bufio"; "fmt"; "io"; "net"; "os"; "strconv"; "time")

func main() {
	store, err := net.Dial("tcp", "127.0.0.1:" + os.Args[1])
	if err != nil {
		panic(err)
	}
	count, _ := strconv.Atoi(os.Args[2])
	replies, commands := bufio.NewReader(store), bufio.NewWriter(store)
	start := time.Now()
	for number := 1; number <= count; number++ {
		parcel := fmt.Sprintf(`{"number":%d,"postcode":"%05d","grams":%d,"kind":"parcel"}`, number, number * 7919 % 100000, 200 + number % 9000)
		fmt.Fprintf(commands, "*3\\r\\n$5\\r\\nLPUSH\\r\\n$7\\r\\nparcels\\r\\n$%d\\r\\n%s\\r\\n", len(parcel), parcel)
	}
	commands.Flush()
	for range count {
		replies.ReadString('\\n')
	}
	for range count {
		io.WriteString(store, "BRPOP belts 0\\r\\n")
		// Two words, each after its length.
		for range 5 {
			if _, err := replies.ReadString('\\n'); err != nil {
				panic(err)
			}
		}
	}
	fmt.Printf("items %d seconds %.3f\\n", count, time.Since(start).Seconds())
}
"""
ABANDONED = """
for i = 1, tonumber(ARGV[1]) do
    redis.call("LPUSH", "sorting", string.format('{"number":%d,"postcode":"%05d","grams":740,"kind":"parcel"}', -i, i * 7919 % 100000))
end
"""


def abandoned(place):
    store = redis(place)
    # Parcels of sorters that ended, which nobody put back.
    place.run("redis-cli", "-p", store, "EVAL", ABANDONED, 0, round(80000 * place.fault))
    sorter = place.write("sorter", SORTER)
    for _ in range(3):
        place.start(sorter, store)
    return [str(place.go("intake", INTAKE)), str(store), "3000"]


# Tells all screens where all vans are, whenever a van has moved.
VANMAP = """#!/usr/bin/python3
import asyncio, json, sys
import websockets

vans = {f"van{i}": {"street": f"Station Road {i * 7 % 90}", "east": 40.0 + i / 16, "north": 7.0 + i / 8, "parcels": 120 - i,
                    "round": i % 12, "state": "on the way" if i % 3 else "at the door"} for i in range(60)}
screens = set()

async def screen(link):
    screens.add(link)
    await link.wait_closed()
    screens.discard(link)

async def van(reader, writer):
    while line := await reader.readline():
        name, east, north = line.decode().split()
        vans[name].update(east=float(east), north=float(north))
        text = json.dumps({"vans": vans})
        await asyncio.gather(*(link.send(text) for link in screens))
        writer.write(b"shown\\n")

async def main():
    compression = None if sys.argv[3] == "plain" else "deflate"
    async with websockets.serve(screen, "127.0.0.1", int(sys.argv[1]), compression=compression):
        async with await asyncio.start_server(van, "127.0.0.1", int(sys.argv[2])) as server:
            await server.serve_forever()

asyncio.run(main())
"""
# The screens in the post offices.
SCREENS = """
const http = require("http"), zlib = require("zlib"), fs = require("fs");
const [port, count] = process.argv.slice(2).map(Number);
let open = 0, shown = 0;

function show(text) {
  shown += text.length;
}

for (let i = 0; i < count; i++) {
  const request = http.get({ host: "127.0.0.1", port, path: "/map", headers: {
    Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Version": 13, "Sec-WebSocket-Key": "c2NyZWVuIGluIHRoZSBoYQ==",
    "Sec-WebSocket-Extensions": "permessage-deflate; server_no_context_takeover" } });
  request.on("upgrade", (response, socket, head) => {
    let held = head;
    socket.on("data", piece => {
      held = held.length ? Buffer.concat([held, piece]) : piece;
      for (;;) {
        if (held.length < 10) return;
        let length = held[1] & 127, start = 2;
        if (length === 126) [length, start] = [held.readUInt16BE(2), 4];
        else if (length === 127) [length, start] = [Number(held.readBigUInt64BE(2)), 10];
        if (held.length < start + length) return;
        const packed = held[0] & 64, body = held.subarray(start, start + length);
        const kind = held[0] & 15;
        held = held.subarray(start + length);
        if (kind === 9) {
          // An empty pong with a mask.
          socket.write(Buffer.from([0x8a, 0x80, 0, 0, 0, 0]));
        } else if (kind === 1) {
          show(packed ? zlib.inflateRawSync(body, { finishFlush: zlib.constants.Z_SYNC_FLUSH }) : body);
        }
      }
    });
    if (++open === count) fs.writeFileSync("screens-ready", "");
  });
}
"""
FLEET = """#!/usr/bin/php -n
<?php
[, $port, $seconds] = $argv;
$map = stream_socket_client("tcp://127.0.0.1:$port");
$start = microtime(true);
for ($moves = 0; microtime(true) < $start + $seconds; $moves++) {
    fwrite($map, sprintf("van%d %.4f %.4f\\n", $moves * 7 % 60, 40 + $moves % 500 / 100, 7 + $moves % 900 / 100));
    if (fgets($map) === false) {
        exit(1);
    }
}
printf("items %d seconds %.3f\\n", $moves, microtime(true) - $start);
"""


def compressed(place):
    hall, road = place.port(), place.port()
    place.start(place.write("vanmap", VANMAP), hall, road, "plain" if place.fixed else "deflate", port=road)
    place.start("node", place.write("screens.js", SCREENS), hall, 25, path=place.folder / "screens-ready")
    return [str(place.write("fleet", FLEET)), str(road), str(place.seconds)]


# Enters registered letters into a durable queue; `window` of them may wait for their confirmation.
REGISTRY = """#!/usr/bin/python3
import sys, time
import pika

port, seconds, window = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
kept = pika.BasicProperties(delivery_mode=2, content_type="application/json")
open_tags, sent, done, begin, ended = set(), 0, 0, 0.0, False

def opened(link):
    link.channel(on_open_callback=ready)

def ready(channel):
    channel.confirm_delivery(lambda frame: confirmed(channel, frame.method),
                             callback=lambda _: channel.queue_declare("registered", durable=True, callback=lambda _: first(channel)))

def first(channel):
    global begin
    begin = time.monotonic()
    fill(channel)

def fill(channel):
    global sent
    while len(open_tags) < window:
        sent += 1
        open_tags.add(sent)
        letter = '{"number":%d,"from":"Harbour Street %d","to":"Mill Lane %d","value":%d}' % (sent, sent % 80, sent % 300, sent % 500)
        channel.basic_publish("", "registered", letter.encode(), kept)

def confirmed(channel, method):
    global done, ended
    tags = {tag for tag in open_tags if tag <= method.delivery_tag} if method.multiple else {method.delivery_tag}
    open_tags.difference_update(tags)
    done += len(tags)
    if time.monotonic() < begin + seconds:
        fill(channel)
    elif not ended:
        ended = True
        print(f"items {done} seconds {time.monotonic() - begin:.3f}", flush=True)
        channel.connection.ioloop.stop()

pika.SelectConnection(pika.ConnectionParameters("127.0.0.1", port), on_open_callback=opened).ioloop.start()
"""


def rabbitmq(place):
    """Starts a broker that uses no file and no process outside of the place; returns its port."""
    port, names, folder = place.port(), place.port(), place.folder
    place.start("epmd", "-port", names, "-address", "127.0.0.1", port=names)
    place.write("empty.conf", "", mode=0o644)
    place.write("plugins", "[].", mode=0o644)
    settings = {
        "HOME": folder, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "ERL_EPMD_PORT": names, "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"post{port}@localhost", "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1", "RABBITMQ_NODE_PORT": port,
        "RABBITMQ_DIST_PORT": place.port(), "RABBITMQ_MNESIA_BASE": folder / "broker", "RABBITMQ_LOG_BASE": folder / "broker-log",
        "RABBITMQ_CONFIG_FILE": folder / "empty.conf", "RABBITMQ_CONF_ENV_FILE": folder / "empty.conf",
        "RABBITMQ_ENABLED_PLUGINS_FILE": folder / "plugins", "RUNNING_UNDER_SYSTEMD": "true",
    }
    environment = {key: str(value) for key, value in settings.items()}
    place.start("/usr/lib/rabbitmq/bin/rabbitmq-server", port=port, stop=signal.SIGKILL, env=environment)
    return port


def confirmations(place):
    broker = rabbitmq(place)
    return [str(place.write("registry", REGISTRY)), str(broker), str(place.seconds), "100" if place.fixed else "1"]


# The page of the counter has a label franked, and shows it as soon as it is there.
COUNTER = """<?php
[$queue, $cache] = [pfsockopen("127.0.0.1", QUEUE), pfsockopen("127.0.0.1", CACHE)];

function ask($link, $text) {
    fwrite($link, "$text\\r\\n");
    return rtrim(fgets($link));
}

function label($cache, $id) {
    if (ask($cache, "get $id") === "END") {
        return null;
    }
    $label = rtrim(fgets($cache));
    fgets($cache);
    return $label;
}

$id = "label" . bin2hex(random_bytes(8));
ask($queue, "use franking");
ask($queue, "put 100 0 60 " . strlen($id) . "\\r\\n$id");
if (NOTIFIED) {
    ask($queue, "watch $id");
    ask($queue, "ignore default");
    [, $job] = explode(" ", ask($queue, "reserve"));
    fgets($queue);
    ask($queue, "delete $job");
    ask($queue, "watch default");
    ask($queue, "ignore $id");
}
while (($label = label($cache, $id)) === null) {
    usleep(PAUSE);
}
echo "<p>$label</p>";
"""
FRANKER = """#!/usr/bin/ruby
require "socket"
require "digest"
$queue, cache, notify = TCPSocket.new("127.0.0.1", ARGV[0].to_i), TCPSocket.new("127.0.0.1", ARGV[1].to_i), ARGV[2] == "notify"
[$queue, cache].each { |link| link.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1) }

def ask(text)
  $queue.write("#{text}\\r\\n")
  $queue.gets
end

ask("watch franking")
File.write("franker-ready", "")
loop do
  job = ask("reserve").split[1]
  id = $queue.gets.chomp
  mark = id
  700.times { mark = Digest::SHA256.hexdigest(mark) }
  label = "1 piece to 45 grams, mark #{mark[0, 16]}"
  cache.write("set #{id} 0 60 #{label.bytesize}\\r\\n#{label}\\r\\n")
  cache.gets
  if notify
    ask("use #{id}")
    ask("put 100 0 60 4\\r\\ndone")
  end
  ask("delete #{job}")
end
"""


def polling(place):
    queue, cache = place.port(), place.port()
    place.start("beanstalkd", "-l", "127.0.0.1", "-p", queue, port=queue)
    place.start("memcached", "-u", "root", "-l", "127.0.0.1", "-p", cache, "-m", 32, "-t", 1, port=cache)
    mode = "notify" if place.fixed else "store"
    place.start(place.write("franker", FRANKER), queue, cache, mode, path=place.folder / "franker-ready")
    page = COUNTER.replace("QUEUE", str(queue)).replace("CACHE", str(cache)).replace("PAUSE", str(round(40000 * place.scale)))
    port = php(place, page.replace("NOTIFIED", "true" if place.fixed else "false"), 4)
    return wrk(f"http://127.0.0.1:{port}/counter", 4, place.seconds)


# Control: three servers of gRPC look for the streets that are most like what is on the letters of
# a bundle.
STREETFINDER = """#!/usr/bin/python3
import difflib, sys
from concurrent import futures
import grpc

kinds, names = ("Street", "Lane", "Road", "Square"), ("Harbour", "Mill", "Station", "Church", "Bridge", "Castle", "Garden", "Market")
streets = [f"{name} {kind} {number}" for name in names for kind in kinds for number in range(1, 6)]

def find(bundle, context):
    found = [difflib.get_close_matches(text, streets, 1, 0.4) for text in bundle.decode().splitlines()]
    return "\\n".join((names or ["unknown"])[0] for names in found).encode()

server = grpc.server(futures.ThreadPoolExecutor(1), options=[("grpc.so_reuseport", 0)])
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("Streets", {"Find": grpc.unary_unary_rpc_method_handler(find)}),))
server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
server.start()
server.wait_for_termination()
"""
LETTERS = """#!/usr/bin/python3
import sys, time
import grpc

count = int(sys.argv[1])
finders = [grpc.insecure_channel(f"127.0.0.1:{port}").unary_unary("/Streets/Find") for port in sys.argv[2:]]
begin, waiting = time.monotonic(), []
for number in range(count):
    texts = [f"{name} {(number + i) % 5 + 1}" for i, name in enumerate(("Habour Stret", "Milllane", "Statoin Road", "Curch Sqare") * 2)]
    waiting.append(finders[number % len(finders)].future("\\n".join(texts).encode(), wait_for_ready=True))
    if len(waiting) == 18:
        waiting.pop(0).result()
for answer in waiting:
    answer.result()
print(f"items {count} seconds {time.monotonic() - begin:.3f}")
"""


def streets(place):
    ports = [place.port() for _ in range(3)]
    for port in ports:
        place.start(place.write("streetfinder", STREETFINDER), port, port=port)
    return [str(place.write("letters", LETTERS)), "700", *map(str, ports)]


# Control: tells one customer after the other, each 160 ms by intention, that a parcel has come.
ARRIVALS = """#!/usr/bin/ruby
require "socket"
port, seconds = ARGV[0].to_i, ARGV[1].to_f
now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
mail = TCPSocket.new("127.0.0.1", port)
answer = lambda do |expected|
  while (line = mail.gets)
    raise line unless line.start_with?(expected)
    break if line[3] == " "
  end
end
tell = lambda do |text, expected|
  mail.write("#{text}\\r\\n")
  answer.call(expected)
end
answer.call("220")
tell.call("HELO counter.post.internal", "250")
start, count = now.call, 0
while now.call < start + seconds
  tell.call("MAIL FROM:<counter@post.internal>", "250")
  tell.call("RCPT TO:<customer#{count % 90}@post.internal>", "250")
  tell.call("DATA", "354")
  tell.call("Subject: your parcel has come\\r\\n\\r\\nParcel #{count} waits for you at counter #{count % 6}.\\r\\n.", "250")
  count += 1
  pause = start + count * 0.16 - now.call
  sleep(pause) if pause > 0
end
puts "items #{count} seconds #{(now.call - start).round(3)}"
"""
MAILROOM = """#!/usr/bin/python3
import asyncio, sys

async def session(reader, writer):
    writer.write(b"220 mailroom\\r\\n")
    while line := await reader.readline():
        verb = line[:4].upper()
        if verb == b"DATA":
            writer.write(b"354 go on\\r\\n")
            letter = await reader.readuntil(b"\\r\\n.\\r\\n")
            with open("letters", "ab") as box:
                box.write(letter[:-3])
        writer.write(b"221 bye\\r\\n" if verb == b"QUIT" else b"250 ok\\r\\n")
        if verb == b"QUIT":
            break
    writer.close()

async def main():
    server = await asyncio.start_server(session, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()

asyncio.run(main())
"""


def arrivals(place):
    mail, room, folder = place.port(), place.port(), place.folder
    place.start(place.write("mailroom", MAILROOM), room, port=room)
    user = pwd.getpwnam("Debian-exim")
    for name in ("spool", "mail-log"):
        (folder / name).mkdir()
        os.chown(folder / name, user.pw_uid, user.pw_gid)
    config = place.write("exim.conf", f"""
primary_hostname = mail.post.internal
spool_directory = {folder}/spool
log_file_path = {folder}/mail-log/%slog
pid_file_path = {folder}/spool/exim.pid
local_interfaces = 127.0.0.1
daemon_smtp_ports = {mail}
host_lookup =
rfc1413_query_timeout = 0s
tls_advertise_hosts =
acl_smtp_rcpt = accept
smtp_accept_queue_per_connection = 0
begin routers
mailroom:
  driver = manualroute
  route_list = * 127.0.0.1 byname
  self = send
  transport = mailroom
begin transports
mailroom:
  driver = smtp
  port = {room}
  allow_localhost
  hosts_try_fastopen =
""", mode=0o644)
    place.start("exim4", "-C", config, "-bdf", "-q1h", port=mail)
    return [str(place.write("arrivals", ARRIVALS)), str(mail), str(place.seconds)]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU|own code)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="postal_customs_one_unacknowledged",
        kind="ack-window",
        truth="nats-server gives customsdesk, in Go, the next declaration only when the last one is "
              "acknowledged (max_ack_pending of the consumer is 1), so that the tariffs in node, which "
              "sleep 8 ms for each, are asked for one declaration at a time",
        load=customs,
        rate=ITEMS,
        component=(r"\bnode\b", r"tariffs", r"customsdesk", r"nats"),
        mechanism=(*SLEEPS, r"one (\w+ )?at a time", r"one after (the other|another)", r"acknowledg", r"\back", r"in flight",
                   r"pending", r"\bwindow", r"only one\b", r"for one another"),
        never=(*DISK, r"(node|nats-server|customsdesk|tariffs\S*) (\([^)]*\) )?computes", r"nats-server (\([^)]*\) )?sleeps"),
        change="x0.125",
        halves=True,
        needs=("nats-server", "node", "go", "perl"),
    ),
    System(
        name="postal_sorting_list_of_abandoned",
        kind="removal-from-long-list",
        truth="redis-server computes: for each parcel that a sorter, in ruby, is done with, LREM compares "
              "the 80000 entries of the list of those that are being sorted, which sorters abandoned "
              "when they ended, and in its one thread all others wait for that",
        load=abandoned,
        rate=ITEMS,
        component=(r"redis",),
        mechanism=(*RUNS, r"\bLREM\b", r"lrem", r"\blist\b", r"\bscan", r"compar", r"requests? to", r"command", r"one (\w+ )?at a time"),
        never=(*DISK, r"redis(-server)? (\([^)]*\) )?sleeps"),
        code=(r"lrem", r"quicklist", r"\blp[A-Z]\w+"),
        halves=True,
        needs=("redis-server", "redis-cli", "ruby", "go"),
    ),
    System(
        name="postal_map_compressed_per_screen",
        kind="compression-per-subscriber",
        truth="vanmap, in python, computes in its one thread: its websockets compress the same map of all "
              "vans anew for each of the 25 screens (permessage-deflate), whenever a van has moved",
        load=compressed,
        rate=ITEMS,
        component=(r"vanmap", r"python"),
        mechanism=(*RUNS, r"deflate", r"zlib", r"libz", r"compress", r"event loop"),
        never=(*DISK, r"(vanmap|python3?) (\([^)]*\) )?sleeps"),
        code=(r"deflate", r"zlib", r"libz", r"compress"),
        running=True,
        needs=("node", "php", PYTHON),
    ),
    System(
        name="postal_registry_of_single_confirmations",
        kind="confirmation-per-message",
        truth="registry, in python, publishes a registered letter only when rabbitmq (beam.smp) has confirmed the last "
              "one, so that rabbitmq waits for the disk (fsync) for each letter, instead of once for many, and the two "
              "wait for one another",
        load=confirmations,
        rate=ITEMS,
        component=(r"rabbit", r"beam", r"erl", r"registry", r"\bdisk\b", r"fsync|fdatasync"),
        mechanism=(r"\bdisk\b", r"f(data)?sync", r"\bsync", r"flush", r"writeback", r"journal", r"jbd2", r"confirm",
                   r"one (\w+ )?at a time", r"one after (the other|another)", r"for one another", r"in flight", r"round trips?"),
        never=(r"registry (\([^)]*\) )?(computes|sleeps)",),
        needs=("/usr/lib/rabbitmq/bin/rabbitmq-server", "epmd", PYTHON),
    ),
    System(
        name="postal_counter_looks_for_its_label",
        kind="polling-for-a-result",
        truth="php-fpm (the page of the counter) sleeps 40 ms before it looks again in memcached whether its label is "
              "there, though franker, in ruby, makes it within some ms and could notify it",
        load=polling,
        rate=WRK,
        component=(r"php", r"counter"),
        mechanism=(*SLEEPS, r"poll(s|ing)\b", r"looks? again", r"\bpaced\b"),
        never=(*DISK, r"(ruby|franker|memcached|beanstalkd|nginx) (\([^)]*\) )?(computes|sleeps)"),
        change="x0",
        halves=True,
        needs=("beanstalkd", "memcached", "nginx", f"/usr/sbin/{PHP_FPM}", "ruby", "wrk"),
    ),
    System(
        name="control_postal_streets",
        kind="control",
        truth="three streetfinders, in python, compute which street each letter means, letters always has eighteen "
              "bundles on the way to them by gRPC, and both CPUs are full",
        load=streets,
        rate=ITEMS,
        acceptable=(*NOTHING, rf"(streetfinder|letters|python).*{COMPUTES}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs", r"load generator"),
        needs=(PYTHON,),
    ),
    System(
        name="control_postal_arrivals",
        kind="control",
        truth="arrivals, in ruby, writes to a customer each 160 ms by intention; exim4 and mailroom, in python, are done "
              "with the letter long before the next one, and all are idle most of the time",
        load=arrivals,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by (arrivals|ruby)", r"(arrivals|ruby).*(sleep|timer|until a time)", r"\bidle\b"),
        needs=("exim4", "ruby", PYTHON),
    ),
]
