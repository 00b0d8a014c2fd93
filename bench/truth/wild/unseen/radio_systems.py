"""The services of a broadcaster: five frequent faults of brokers, their consumers and publishers,
and two healthy queues of the same house.
"""
from services import at, postgres, redis
from system import ITEMS, LOCKS, PGBENCH, PYTHON, SLEEPS, System

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")
RABBITMQ = "/usr/lib/rabbitmq/bin/rabbitmq-server"


def rabbitmq(place):
    """Starts rabbitmq with a name server of Erlang of its own; returns the port."""
    names, distribution, port, folder = place.port(), place.port(), place.port(), place.folder
    place.start("epmd", "-address", "127.0.0.1", "-port", names, port=names)
    config = place.write("rabbitmq.conf", f"""
listeners.tcp.1 = 127.0.0.1:{port}
log.console = true
log.console.level = warning
log.file = false
""", mode=0o644)
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": folder, "LC_ALL": "C.UTF-8",
        "ERL_EPMD_PORT": names, "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": "rabbit@localhost", "RABBITMQ_DIST_PORT": distribution,
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        "RABBITMQ_CONFIG_FILE": config, "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_ENABLED_PLUGINS_FILE": place.write("plugins", "[].\n"),
        "RABBITMQ_MNESIA_BASE": folder / "mnesia", "RABBITMQ_GENERATED_CONFIG_DIR": folder / "generated",
        "RABBITMQ_SCHEMA_DIR": folder / "schema", "RABBITMQ_LOG_BASE": folder, "RABBITMQ_LOGS": "-",
        "RABBITMQ_PID_FILE": folder / "rabbitmq.pid",
    }
    place.start(RABBITMQ, port=port, env={key: str(value) for key, value in environment.items()})
    return port


# The planning department sends the cue sheets of a day, and waits until all are on the schedule.
PLANNING = """#!/usr/bin/python3
import sys, time
import pika

port, count, spoiled = map(int, sys.argv[1:])

def sheet(number, station):
    elements = "".join(
        f'<element at="{at * 37}"><title>Song {number * 7 + at}</title>'
        f'<length unit="s">{150 + (number + at) % 90}</length></element>'
        for at in range(150))
    return f'<cuesheet station="{station}" number="{number}">{elements}</cuesheet>'

link = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
channel = link.channel()
for number in range(spoiled):
    channel.basic_publish("", "cues", sheet(number, "closed down"))
begin = time.monotonic()
for number in range(count):
    channel.basic_publish("", "cues", sheet(number, ("north", "south", "classical")[number % 3]))
done = 0
for method, properties, body in channel.consume("scheduled", auto_ack=True):
    done += 1
    if done == count:
        break
print(f"items {count} seconds {time.monotonic() - begin:.3f}")
"""
# A sheet for a station that is not known may be valid in a moment, when the stations are up to
# date, so it returns to the queue, or it goes to the queue of the spoiled sheets.
CUELOADER = """#!/usr/bin/python3
import sys, time
import xml.etree.ElementTree as xml
import pika

port, pause, returns = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "return"
STATIONS = {"north", "south", "classical"}

def load(channel, method, properties, body):
    sheet = xml.fromstring(body)
    if sheet.get("station") not in STATIONS:
        if returns:
            time.sleep(pause)
            channel.basic_nack(method.delivery_tag, requeue=True)
        else:
            channel.basic_publish("", "spoiled", body)
            channel.basic_ack(method.delivery_tag)
        return
    end = 0
    for element in sheet:
        end = max(end, int(element.get("at")) + int(element.find("length").text))
    channel.basic_publish("", "scheduled", f"{sheet.get('number')} ends at {end}")
    channel.basic_ack(method.delivery_tag)

link = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
channel = link.channel()
for name in ("cues", "scheduled", "spoiled"):
    channel.queue_declare(name)
channel.basic_qos(prefetch_count=12)
channel.basic_consume("cues", load)
open("cueloader-ready", "w").close()
channel.start_consuming()
"""


def requeued(place):
    port = rabbitmq(place)
    mode = "put aside" if place.fixed else "return"
    place.start(place.write("cueloader", CUELOADER), port, 0.01 * place.scale, mode, path=place.folder / "cueloader-ready")
    return [str(place.write("planning", PLANNING)), str(port), "600", "4"]


# The newsroom puts bulletins into the queue, and waits until all have been delivered.
NEWSDESK = """#!/usr/bin/php -n
<?php
[, $port, $count] = $argv;
$queue = stream_socket_client("tcp://127.0.0.1:$port");
function ask($text) {
    global $queue;
    fwrite($queue, "$text\\r\\n");
    return explode(" ", rtrim(fgets($queue)));
}
ask("watch delivered");
ask("use bulletins");
$start = microtime(true);
for ($number = 0; $number < $count; $number++) {
    $text = json_encode(["number" => $number, "affiliate" => $number % 8, "lines" => array_fill(0, 30, "The news at $number o'clock")]);
    ask("put 100 0 60 " . strlen($text) . "\\r\\n$text");
}
for ($number = 0; $number < $count; $number++) {
    [, $id] = ask("reserve");
    fgets($queue);
    ask("delete $id");
}
printf("items %d seconds %.3f\\n", $count, microtime(true) - $start);
"""
# Eight bulletins are under way at once. Either each of eight lanes takes its next one when it is
# free, or eight are taken together and the next eight when all of them have been delivered.
DISTRIBUTOR = """#!/usr/bin/node
const http = require("http"), net = require("net"), fs = require("fs");
const queue = Number(process.argv[2]), affiliates = Number(process.argv[3]), together = process.argv[4] === "together";
const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });

// A connection to the queue: each reply is a line, and a body for a reserved job.
function open() {
  const socket = net.connect(queue, "127.0.0.1").setNoDelay(true), waiting = [];
  let text = "";
  socket.on("data", data => {
    text += data;
    for (;;) {
      const end = text.indexOf("\\r\\n");
      if (end < 0) return;
      const [word, id, length] = text.slice(0, end).split(" "), next = end + 2 + (length ? Number(length) + 2 : 0);
      if (text.length < next) return;
      const body = text.slice(end + 2, next - 2);
      text = text.slice(next);
      waiting.shift()({ word, id, body });
    }
  });
  return command => new Promise(resolve => { waiting.push(resolve); socket.write(command + "\\r\\n"); });
}

function post(affiliate, page) {
  return new Promise((resolve, reject) => {
    const headers = { "Content-Length": Buffer.byteLength(page) };
    const target = { port: affiliates, host: "127.0.0.1", method: "POST", path: "/air/" + affiliate, agent, headers };
    const request = http.request(target, answer => {
      answer.resume();
      answer.on("end", resolve);
    });
    request.on("error", reject);
    request.end(page);
  });
}

async function deliver(ask, job) {
  const bulletin = JSON.parse(job.body);
  await post(bulletin.affiliate, bulletin.lines.map(line => `<p>${line}</p>`).join("\\n"));
  await ask(`put 100 0 60 ${String(bulletin.number).length}\\r\\n${bulletin.number}`);
  await ask("delete " + job.id);
}

async function start() {
  const ask = open();
  await ask("watch bulletins");
  await ask("use delivered");
  return ask;
}

async function lane() {
  const ask = await start();
  for (;;) await deliver(ask, await ask("reserve"));
}

async function batches() {
  const ask = await start();
  for (;;) {
    const jobs = [await ask("reserve")];
    while (jobs.length < 8) {
      const job = await ask("reserve-with-timeout 0");
      if (job.word !== "RESERVED") break;
      jobs.push(job);
    }
    await Promise.all(jobs.map(job => deliver(ask, job)));
  }
}

if (together) batches();
else for (let i = 0; i < 8; i++) lane();
fs.writeFileSync("distributor-ready", "");
"""
# The transmitters of the affiliates confirm what they got; one has a line by satellite.
AFFILIATES = """
package main

import ("fmt"; "hash/crc32"; "io"; "net/http"; "os"; "strings"; "time")

func main() {
	slow, _ := time.ParseDuration(os.Args[2])
	http.HandleFunc("/air/", func(w http.ResponseWriter, r *http.Request) {
		page, _ := io.ReadAll(r.Body)
		if strings.HasSuffix(r.URL.Path, "/7") {
			time.Sleep(slow)
		} else {
			time.Sleep(3 * time.Millisecond)
		}
		fmt.Fprintf(w, "aired %08x\\n", crc32.ChecksumIEEE(page))
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def batches(place):
    queue, affiliates = place.port(), place.port()
    place.start("beanstalkd", "-l", "127.0.0.1", "-p", queue, port=queue)
    place.start(place.go("affiliates", AFFILIATES), affiliates, f"{50 * place.scale:g}ms", port=affiliates)
    mode = "lanes" if place.fixed else "together"
    place.start(place.write("distributor", DISTRIBUTOR), queue, affiliates, mode, path=place.folder / "distributor-ready")
    return [str(place.write("newsdesk", NEWSDESK)), str(queue), "600"]


# Each studio has a receiver. It shows the playlists of its own studio, and confirms them.
RECEIVER = """#!/usr/bin/python3
import json, sys
import paho.mqtt.client as mqtt

port, studio, topic = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]

def connected(client, *_):
    client.subscribe(topic)

def subscribed(*_):
    open(f"receiver-{studio}", "w").close()

def received(client, _, message):
    playlist = json.loads(message.payload)
    if playlist["studio"] != studio:
        return
    songs = sorted(playlist["songs"], key=lambda song: song["at"])
    client.publish("shown", json.dumps({"studio": studio, "length": sum(song["length"] for song in songs)}))

client = mqtt.Client()
client.on_connect, client.on_subscribe, client.on_message = connected, subscribed, received
client.connect("127.0.0.1", port)
client.loop_forever()
"""
# The editor sends playlists of all studios in turn; eight of them wait for their confirmation.
EDITOR = """#!/usr/bin/python3
import json, sys, time
import paho.mqtt.client as mqtt

port, studios, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
texts = [json.dumps({"studio": studio, "songs": [
    {"at": at * 200 % 3600, "title": f"Song {at}", "artist": f"Band {at % 17}", "length": 180 + at % 40} for at in range(200)]})
    for studio in range(studios)]
sent = shown = 0

def send(client):
    global sent
    client.publish(f"playlists/{sent % studios}", texts[sent % studios])
    sent += 1

def received(client, *_):
    global shown
    shown += 1
    send(client)

def subscribed(client, *_):
    for _ in range(8):
        send(client)

client = mqtt.Client()
client.on_connect = lambda client, *_: client.subscribe("shown")
client.on_subscribe, client.on_message = subscribed, received
client.connect("127.0.0.1", port)
begin = time.monotonic()
while time.monotonic() < begin + seconds:
    client.loop(0.1)
print(f"items {shown} seconds {time.monotonic() - begin:.3f}")
"""


def subscriptions(place):
    port, studios = place.port(), 12
    config = place.write("mosquitto.conf", f"""
listener {port} 127.0.0.1
allow_anonymous true
persistence false
set_tcp_nodelay true
user root
""")
    place.start("mosquitto", "-c", config, port=port)
    receiver = place.write("receiver", RECEIVER)
    for studio in range(studios):
        topic = f"playlists/{studio}" if place.fixed else "playlists/#"
        place.start(receiver, port, studio, topic, path=place.folder / f"receiver-{studio}")
    return [str(place.write("editor", EDITOR)), str(port), str(studios), str(place.seconds)]


# The web player hears of each song from a notification, or looks for new ones 20 times a second.
WEBPLAYER = """#!/usr/bin/python3
import json, select, sys, time
import psycopg2

base = psycopg2.connect(host="127.0.0.1", port=sys.argv[1], user="postgres", dbname="postgres")
base.autocommit = True
cursor, last, screens = base.cursor(), 0, {}

def show(station, title):
    screens[station] = f"<marquee>{title}</marquee>"

open("webplayer-ready", "w").close()
if sys.argv[2] == "listen":
    cursor.execute("listen nowplaying")
    while True:
        select.select([base], [], [])
        base.poll()
        for told in base.notifies:
            play = json.loads(told.payload)
            show(play["station"], play["title"])
        base.notifies.clear()
while True:
    cursor.execute("select id, station, title from plays where id > %s order by id", (last,))
    for last, station, title in cursor:
        show(station, title)
    time.sleep(0.05)
"""


def notifications(place):
    trigger = "" if place.fixed else "create trigger told after insert on plays for each row execute function tell();"
    base = postgres(place, f"""
        create table plays (id bigserial primary key, station int, title text, played timestamptz default now());
        create function tell() returns trigger language plpgsql as $$
        begin
            perform pg_notify('nowplaying', json_build_object('id', new.id, 'station', new.station, 'title', new.title)::text);
            return new;
        end $$;
        {trigger} checkpoint""")
    mode = "look" if place.fixed else "listen"
    place.start(place.write("webplayer", WEBPLAYER), base, mode, path=place.folder / "webplayer-ready")
    song = place.write("song.sql", r"""\set station random(1, 40)
\set song random(1, 9000)
insert into plays (station, title) values (:station, 'Song ' || :song);
""")
    return ["pgbench", *at(base), "-n", "-c", "16", "-j", "2", "-T", str(place.seconds), "-f", str(song), "postgres"]


# The studio asks for the gain of each block of sound; 64 questions are under way.
MIXINGDESK = """
package main

import ("bufio"; "fmt"; "io"; "net"; "os"; "strconv"; "strings"; "time")

func main() {
	count, _ := strconv.Atoi(os.Args[2])
	link, err := net.Dial("tcp", "127.0.0.1:" + os.Args[1])
	if err != nil {
		panic(err)
	}
	in, out := bufio.NewReaderSize(link, 1 << 16), bufio.NewWriterSize(link, 1 << 16)
	out.WriteString("CONNECT {\\"verbose\\":false}\\r\\nSUB gains 1\\r\\n")
	asked := 0
	ask := func() {
		levels := strings.Repeat(fmt.Sprintf("%d,", -60 + asked % 50), 16)
		fmt.Fprintf(out, "PUB levels.%d gains %d\\r\\n%s\\r\\n", asked % 24, len(levels), levels)
		asked++
	}
	begin := time.Now()
	for asked < 64 {
		ask()
	}
	out.Flush()
	for done := 0; done < count; {
		line, err := in.ReadString('\\n')
		if err != nil {
			panic(err)
		}
		switch {
		case strings.HasPrefix(line, "MSG"):
			words := strings.Fields(line)
			length, _ := strconv.Atoi(words[len(words) - 1])
			io.CopyN(io.Discard, in, int64(length + 2))
			done++
			ask()
		case strings.HasPrefix(line, "PING"):
			out.WriteString("PONG\\r\\n")
		}
		if in.Buffered() == 0 {
			out.Flush()
		}
	}
	fmt.Printf("items %d seconds %.3f\\n", count, time.Since(begin).Seconds())
}
"""
LEVELLER = """
import java.io.*;
import java.net.Socket;

public class Main {
    static String line(InputStream in) throws IOException {
        StringBuilder text = new StringBuilder();
        for (int letter; (letter = in.read()) != '\\n'; ) {
            if (letter < 0)
                System.exit(0);
            if (letter != '\\r')
                text.append((char) letter);
        }
        return text.toString();
    }

    public static void main(String[] words) throws Exception {
        Socket link = new Socket("127.0.0.1", Integer.parseInt(words[0]));
        link.setTcpNoDelay(true);
        InputStream in = new BufferedInputStream(link.getInputStream(), 1 << 16);
        OutputStream out = new BufferedOutputStream(link.getOutputStream(), 1 << 16);
        out.write("CONNECT {\\"verbose\\":false}\\r\\nSUB levels.* levellers 1\\r\\nPING\\r\\n".getBytes());
        out.flush();
        while (true) {
            String line = line(in);
            if (line.startsWith("PING"))
                out.write("PONG\\r\\n".getBytes());
            if (line.startsWith("PONG"))
                new FileOutputStream(words[1]).close();
            if (line.startsWith("MSG")) {
                String[] parts = line.split(" ");
                byte[] levels = in.readNBytes(Integer.parseInt(parts[4]));
                in.readNBytes(2);
                double sum = 0;
                int count = 0, level = 0;
                for (byte letter : levels)
                    if (letter == ',') {
                        sum += level;
                        count++;
                        level = 0;
                    } else if (letter >= '0')
                        level = level * 10 - (letter - '0');
                String gain = String.format("%d", Math.round(-23 - sum / count));
                out.write(("PUB " + parts[3] + " " + gain.length() + "\\r\\n" + gain + "\\r\\n").getBytes());
            }
            if (in.available() == 0)
                out.flush();
        }
    }
}
"""


def traced(place):
    port, folder = place.port(), place.folder
    tracing = () if place.fixed else ("-DV",)
    place.start("nats-server", "-a", "127.0.0.1", "-p", port, "-l", folder / "nats.log", *tracing, port=port)
    classes = place.java(LEVELLER)
    for number in range(2):
        ready = folder / f"leveller-{number}"
        place.start("java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classes, "Main", port, ready, path=ready)
    return [str(place.go("mixingdesk", MIXINGDESK)), str(port), "100000"]


# Control: each 15 ms a caption of the programme is spoken, and is in a stream of redis at once.
SPEECH = """#!/usr/bin/ruby
require "socket"

port, seconds = ARGV[0].to_i, ARGV[1].to_f
redis = TCPSocket.new("127.0.0.1", port)
redis.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
start, spoken = now.call, 0
while now.call < start + seconds
  redis.write("XADD speech MAXLEN ~ 1000 * text captions_of_the_evening_news_#{spoken}\\r\\n")
  redis.gets
  redis.gets
  spoken += 1
  pause = start + spoken * 0.015 - now.call
  sleep(pause) if pause.positive?
end
redis.write("GET captions\\r\\n")
redis.gets
puts "items #{redis.gets.to_i} seconds #{(now.call - start).round(3)}"
"""
CAPTIONER = """#!/usr/bin/php -n
<?php
[, $port, $name] = $argv;
$redis = stream_socket_client("tcp://127.0.0.1:$port");
function reply() {
    global $redis;
    if (($line = fgets($redis)) === false) {
        exit;
    }
    $number = (int) substr($line, 1);
    switch ($line[0]) {
        case "*": return array_map(fn() => reply(), $number > 0 ? range(1, $number) : []);
        case "$": return $number < 0 ? null : substr(stream_get_contents($redis, $number + 2), 0, $number);
        default: return rtrim(substr($line, 1));
    }
}
function ask($command) {
    global $redis;
    fwrite($redis, "$command\\r\\n");
    return reply();
}
touch("captioner-$name");
while (true) {
    foreach (ask("XREADGROUP GROUP captioners $name COUNT 1 BLOCK 0 STREAMS speech >") as [, $entries]) {
        foreach ($entries as [$id, [, $text]]) {
            for ($best = "", $try = 0; $try < 3000; $try++) {
                $best = max($best, md5($text . $try));
            }
            ask("SET caption:$name $best");
            ask("XACK speech captioners $id");
            ask("INCR captions");
        }
    }
}
"""


def captions(place):
    store = redis(place)
    place.run("redis-cli", "-p", store, "XGROUP", "CREATE", "speech", "captioners", "$", "MKSTREAM")
    captioner = place.write("captioner", CAPTIONER)
    for number in range(3):
        place.start(captioner, store, number, path=place.folder / f"captioner-{number}")
    return [str(place.write("speech", SPEECH)), str(store), str(place.seconds)]


# Control: blocks of sound go through a Unix socket into a queue of limited length, from which two
# threads take them, as many as there are CPUs.
ARCHIVE = """#!/usr/bin/perl
use strict;
use warnings;
use IO::Socket::UNIX;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my ($path, $count) = @ARGV;
my $link = IO::Socket::UNIX->new(Peer => $path) or die "no fingerprints: $!";
my @sounds = map { my $pitch = $_; pack "s>*", map { 8000 * sin($_ * $pitch / 60) } 1 .. 8192 } 1 .. 8;
my $sent = 0;
my $send = sub {
    my $sound = $sounds[$sent++ % 8];
    print $link pack("N", length $sound) . $sound;
    $link->flush;
};
my $start = clock_gettime(CLOCK_MONOTONIC);
$send->() for 1 .. 6;
for my $done (1 .. $count) {
    <$link> // die "no answer";
    $send->() if $sent < $count;
}
printf "items %d seconds %.3f\\n", $count, clock_gettime(CLOCK_MONOTONIC) - $start;
"""
FINGERPRINTS = """
import java.io.*;
import java.net.*;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.util.concurrent.ArrayBlockingQueue;

public class Main {
    // Returns the strongest of the pitches in a block of sound.
    static int strongest(short[] sound) {
        int best = 0;
        double most = -1;
        for (int pitch = 1; pitch <= 400; pitch++) {
            double factor = 2 * Math.cos(2 * Math.PI * pitch / 2000), now, before = 0, earlier = 0;
            for (short sample : sound) {
                now = sample + factor * before - earlier;
                earlier = before;
                before = now;
            }
            double power = before * before + earlier * earlier - factor * before * earlier;
            if (power > most) {
                most = power;
                best = pitch;
            }
        }
        return best;
    }

    static void fill(SocketChannel link, ByteBuffer buffer) throws IOException {
        while (buffer.hasRemaining())
            if (link.read(buffer) < 0)
                System.exit(0);
        buffer.flip();
    }

    public static void main(String[] words) throws Exception {
        ArrayBlockingQueue<short[]> queue = new ArrayBlockingQueue<>(8);
        ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        server.bind(UnixDomainSocketAddress.of(words[0]));
        new FileOutputStream(words[1]).close();
        SocketChannel link = server.accept();
        for (int i = 0; i < 2; i++)
            new Thread(() -> {
                try {
                    while (true) {
                        String answer = "pitch " + strongest(queue.take()) + "\\n";
                        link.write(ByteBuffer.wrap(answer.getBytes()));
                    }
                } catch (Exception error) {
                    System.exit(1);
                }
            }, "fingerprint-" + i).start();
        while (true) {
            ByteBuffer length = ByteBuffer.allocate(4);
            fill(link, length);
            ByteBuffer block = ByteBuffer.allocate(length.getInt());
            fill(link, block);
            short[] sound = new short[block.remaining() / 2];
            block.asShortBuffer().get(sound);
            queue.put(sound);
        }
    }
}
"""


def fingerprints(place):
    path, ready = place.folder / "fingerprints.sock", place.folder / "fingerprints-ready"
    place.start("java", "-Xmx128m", "-XX:+UseSerialGC", "-cp", place.java(FINGERPRINTS), "Main", path, ready, path=ready)
    return [str(place.write("archive", ARCHIVE)), str(path), "450"]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU|own code)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="radio_cues_put_back",
        kind="requeue-with-pause",
        truth="cueloader, in python, sleeps 10 ms before it puts each sheet of an unknown station "
              "back into the queue of rabbitmq, which delivers that sheet to it again at once, so "
              "that the valid sheets wait behind a few that never succeed",
        load=requeued,
        rate=ITEMS,
        component=(r"cueloader",),
        mechanism=(*SLEEPS, r"paus", r"back.?off", r"requeue", r"put back", r"redeliver", r"retr(y|ies)", r"\bnack"),
        never=(*DISK, r"cueloader[^;]*comput", r"planning (\([^)]*\) )?(sleeps|computes)"),
        halves=True,
        needs=(RABBITMQ, "epmd", PYTHON),
    ),
    System(
        name="radio_bulletins_in_batches",
        kind="batch-barrier",
        truth="distributor, in node, takes eight bulletins together and the next eight only when "
              "all are delivered, so that each batch waits for the affiliate whose confirmation "
              "takes 50 ms, while the seven others are done after 3 ms",
        load=batches,
        rate=ITEMS,
        component=(r"affiliates", r"distributor", r"\bnode\b"),
        mechanism=(*SLEEPS, r"batch", r"slowest", r"barrier", r"one (\w+ )?at a time",
                   r"(waits|waiting) for [^;]*(affiliates|repl(y|ies)|answers?|response)", r"for (the )?others", r"together", r"concurren"),
        never=(*DISK, r"(node|distributor|affiliates)[^;]*comput", r"beanstalkd[^;]*(sleeps|computes)",
               r"(newsdesk|php) (\([^)]*\) )?(sleeps|computes)"),
        halves=True,
        needs=("beanstalkd", "node", "go", "php"),
    ),
    System(
        name="radio_receivers_of_everything",
        kind="wildcard-subscription",
        truth="the twelve receivers, in python, compute, because each subscribes to the playlists "
              "of all studios: mosquitto sends it each of them, and it decodes the JSON of all to "
              "throw away eleven of twelve",
        load=subscriptions,
        rate=ITEMS,
        component=(r"receiver", r"mosquitto[^;]*(subscri|fan.?out|copies|every|all (the )?receivers)"),
        mechanism=(*RUNS, r"json", r"decod", r"pars(es|ing)", r"subscri", r"fan.?out", r"topic", r"\bmessages?\b"),
        never=(*DISK, r"receiver (\([^)]*\) )?sleeps", r"editor (\([^)]*\) )?(sleeps|computes)"),
        code=(r"received", r"json", r"scan_once", r"_parse_object"),
        running=True,
        needs=("mosquitto", PYTHON),
    ),
    System(
        name="radio_songs_notified",
        kind="notify-commit-lock",
        truth="the backends of postgres commit one at a time, because each transaction notifies "
              "the channel nowplaying and so holds one lock of the whole server from before its "
              "commit until the log is on the disk",
        load=notifications,
        rate=PGBENCH,
        component=(r"postgres",),
        mechanism=(*LOCKS, r"notif", r"for one another", r"\bholds?\b", r"\bheld\b", r"in turn", r"one (\w+ )?(backend|process|commit)"),
        never=(r"(webplayer|pgbench) (\([^)]*\) )?(sleeps|computes)", r"postgres (\([^)]*\) )?sleeps"),
        needs=("psql", "pgbench", PYTHON),
    ),
    System(
        name="radio_levels_traced",
        kind="trace-log-left-on",
        truth="nats-server writes several lines to its log file for each message, one write call "
              "after the other under a lock, because the trace of an investigation was left on",
        load=traced,
        rate=ITEMS,
        component=(r"nats",),
        mechanism=(*RUNS, *LOCKS, r"\blog", r"\btrac(e|ing)", r"\bwrites?\b", r"\bwriting\b", r"file", r"system calls?", r"in the kernel"),
        never=(*DISK, r"nats-server (\([^)]*\) )?sleeps", r"(java|mixingdesk) (\([^)]*\) )?(sleeps|computes)"),
        needs=("nats-server", "java", "javac", "go"),
    ),
    System(
        name="control_radio_captions",
        kind="control",
        truth="speech, in ruby, adds a caption to the stream of redis each 15 ms by intention, "
              "and one of three captioners, in php, is done with it long before the next one",
        load=captions,
        rate=ITEMS,
        acceptable=(*NOTHING, r"\b[Pp]aced by (speech|ruby)", r"(speech|ruby).*(sleep|timer|until a time|\bpaced\b)", r"\bidle\b"),
        needs=("redis-server", "redis-cli", "ruby", "php"),
    ),
    System(
        name="control_radio_fingerprints",
        kind="control",
        truth="both threads of java compute the fingerprints of blocks that archive, in perl, "
              "sends through a Unix socket; the queue between them is never empty, and both CPUs "
              "are full",
        load=fingerprints,
        rate=ITEMS,
        acceptable=(*NOTHING, rf"(java|fingerprint).*{COMPUTES}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs"),
        needs=("java", "javac", "perl"),
    ),
]
