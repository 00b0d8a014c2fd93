"""The services of a hospital: wards, laboratory, pharmacy and records, with five frequent faults,
and two healthy parts.
"""
import os
import pwd

from services import PHP_FPM, mariadb, php, postgres
from system import ITEMS, LOCKS, PGBENCH, SLEEPS, WRK, System, number, wrk

DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")
SERIAL = (r"\bserial", r"one after (the other|another)", r"\bqueues?\b", r"concurren", r"in parallel", r"at once")

# The board of a ward shows which beds are free. It collects the signals of the beds for a while, so
# that a patient who turns round does not count as one who has left.
BEDBOARD = """
const http = require("http");
const [port, settle] = process.argv.slice(2).map(Number);
const beds = Array.from({ length: 36 }, (_, bed) => ({ bed, free: bed % 5 === 0, signals: 0 }));
let asked = 0;

http.createServer((request, response) => {
  const bed = beds[asked++ % beds.length];
  bed.signals++;
  const reply = () => {
    const text = JSON.stringify({ ...bed, neighbours: beds.filter(other => other.free).length });
    response.writeHead(200, { "Content-Type": "application/json", "Content-Length": text.length });
    response.end(text);
  };
  settle ? setTimeout(reply, settle) : reply();
}).listen(port, "127.0.0.1");
"""
APACHE = """
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule proxy_module /usr/lib/apache2/modules/mod_proxy.so
LoadModule proxy_http_module /usr/lib/apache2/modules/mod_proxy_http.so
ServerName hospital.test
ServerRoot FOLDER
PidFile FOLDER/apache.pid
ErrorLog FOLDER/apache.log
User www-data
Group www-data
StartServers 1
ServerLimit 1
ThreadsPerChild 24
MaxRequestWorkers 24
MaxKeepAliveRequests 0
Listen 127.0.0.1:FRONT
ProxyPass /beds http://127.0.0.1:BEDS/
"""


def beds(place):
    board, front = place.port(), place.port()
    place.start("node", place.write("bedboard.js", BEDBOARD), board, round(18 * place.fault), port=board)
    config = APACHE.replace("FOLDER", str(place.folder)).replace("FRONT", str(front)).replace("BEDS", str(board))
    place.start("apache2", "-DFOREGROUND", "-f", place.write("apache.conf", config), port=front)
    return ["h2load", "--h1", "-t", "1", "-c", "6", "-D", str(place.seconds), f"http://127.0.0.1:{front}/beds"]


# The pharmacy takes a dose from its stock, and asks whether it agrees with the other drugs of the
# patient.
DISPENSARY = """#!/usr/bin/python3
import http.client, http.server, sys, threading
import pymysql

port, base, checks, order = *map(int, sys.argv[1:4]), sys.argv[4]
mine = threading.local()

def ask(patient, drug):
    mine.checks.request("GET", f"/check?patient={patient}&drug={drug}")
    return mine.checks.getresponse().read() == b"agrees"

class Dispensary(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def setup(self):
        super().setup()
        mine.checks = http.client.HTTPConnection("127.0.0.1", checks)
        mine.base = pymysql.connect(host="127.0.0.1", port=base, user="root", database="test")

    def do_GET(self):
        patient, drug = int(self.path.rpartition("/")[2] or 0), 7
        if order == "first":
            agrees = ask(patient, drug)
        mine.base.begin()
        with mine.base.cursor() as cursor:
            cursor.execute("select doses from stock where drug = %s for update", (drug,))
            doses = cursor.fetchone()[0]
            if order == "inside":
                agrees = ask(patient, drug)
            if agrees and doses:
                cursor.execute("update stock set doses = %s where drug = %s", (doses - 1, drug))
                cursor.execute("insert into given (patient, drug) values (%s, %s)", (patient, drug))
        mine.base.commit()
        text = b"%d left" % (doses - 1)
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *words):
        pass

http.server.ThreadingHTTPServer.request_queue_size = 64
http.server.ThreadingHTTPServer(("127.0.0.1", port), Dispensary).serve_forever()
"""
# The register of interactions belongs to the health insurers, and takes its time.
INTERACTIONS = """
package main

import ("net/http"; "os"; "strconv"; "time")

func main() {
	delay, _ := strconv.ParseFloat(os.Args[2], 64)
	http.HandleFunc("/check", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Duration(delay * float64(time.Millisecond)))
		w.Write([]byte("agrees"))
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def doses(place):
    base = mariadb(place, """
        create table stock (drug int primary key, name varchar(40), doses int) engine=innodb;
        insert into stock select seq, concat('drug ', seq), 1000000 from seq_1_to_200;
        create table given (id int auto_increment primary key, patient int, drug int) engine=innodb""",
                   "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M")
    checks, port = place.port(), place.port()
    place.start(place.go("interactions", INTERACTIONS), checks, 9 * place.scale, port=checks)
    place.start(place.write("dispensary", DISPENSARY), port, base, checks, "first" if place.fixed else "inside", port=port)
    return wrk(f"http://127.0.0.1:{port}/dose/4711", 6, place.seconds)


# The front of the laboratory. All of its threads talk to the analyser by the lines of LINES.
LABGATE = r"""
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

struct Line { reader: BufReader<TcpStream> }

impl Line {
    fn open(port: &str) -> Line {
        let stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        stream.set_nodelay(true).unwrap();
        Line { reader: BufReader::new(stream) }
    }

    fn value(&mut self, sample: usize) -> String {
        let mut text = String::new();
        self.reader.get_mut().write_all(format!("SAMPLE {sample}\n").as_bytes()).unwrap();
        self.reader.read_line(&mut text).unwrap();
        text
    }
}

fn serve(ward: TcpStream, line: Arc<Mutex<Line>>) {
    ward.set_nodelay(true).unwrap();
    let mut requests = BufReader::new(ward);
    let mut sample = 0;
    loop {
        let mut words = String::new();
        loop {
            words.clear();
            match requests.read_line(&mut words) {
                Ok(count) if count > 0 => {}
                _ => return,
            }
            if words == "\r\n" { break; }
        }
        sample += 1;
        let result = line.lock().unwrap().value(sample);
        let head = "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length:";
        let reply = format!("{head} {}\r\n\r\n{result}", result.len());
        if requests.get_mut().write_all(reply.as_bytes()).is_err() { return; }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let count: usize = words[3].parse().unwrap();
    let lines: Vec<_> = (0..count).map(|_| Arc::new(Mutex::new(Line::open(&words[2])))).collect();
    let listener = TcpListener::bind(format!("127.0.0.1:{}", words[1])).unwrap();
    for (number, ward) in listener.incoming().enumerate() {
        let line = lines[number % count].clone();
        std::thread::spawn(move || serve(ward.unwrap(), line));
    }
}
"""
# The analyser measures each sample of a line for a while.
ANALYSER = """#!/usr/bin/ruby
require "socket"
port, pause = ARGV[0].to_i, ARGV[1].to_f
server = TCPServer.new("127.0.0.1", port)
loop do
  Thread.new(server.accept) do |line|
    line.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
    while (words = line.gets)
      sample = words.split[1].to_i
      sleep pause
      line.write(format("potassium %.1f mmol/l\\n", 3.5 + sample % 17 / 10.0))
    end
  end
end
"""


def samples(place):
    analyser, gate = place.port(), place.port()
    place.start(place.write("analyser", ANALYSER), analyser, 0.007 * place.scale, port=analyser)
    program = place.built(LABGATE, ".rs", "rustc", "-O", "--edition", "2021", "-o", "{program}", "{source}")
    place.start(place.named(program, "labgate"), gate, analyser, 8 if place.fixed else 1, port=gate)
    return ["ab", "-q", "-k", "-n", "600", "-c", "8", f"http://127.0.0.1:{gate}/potassium"]


# Has the letters of all patients signed who leave today. The threads are those of the common pool,
# or of a pool of this program.
LETTERS = """
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;

public class Main {
    static String signed(String port, int patient) {
        try {
            String letter = "?patient=" + patient + "&days=" + patient % 9 + "&diagnosis=J" + patient % 99;
            var link = (HttpURLConnection) URI.create("http://127.0.0.1:" + port + "/sign" + letter).toURL().openConnection();
            try (InputStream answer = link.getInputStream()) {
                return new String(answer.readAllBytes());
            }
        } catch (Exception problem) {
            throw new RuntimeException(problem);
        }
    }

    public static void main(String[] words) {
        int count = Integer.parseInt(words[1]);
        boolean own = words.length > 2;
        Executor pool = own ? Executors.newFixedThreadPool(Integer.parseInt(words[2])) : ForkJoinPool.commonPool();
        long begin = System.nanoTime();
        List<CompletableFuture<String>> letters = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int patient = i;
            letters.add(CompletableFuture.supplyAsync(() -> signed(words[0], patient), pool));
        }
        int size = 0;
        for (var letter : letters)
            size += letter.join().length();
        double seconds = (System.nanoTime() - begin) / 1e9;
        System.out.printf(Locale.ROOT, "items %d seconds %.3f size %d%n", count, seconds, size);
        System.exit(0);
    }
}
"""
# The key of the hospital is on a card, and php waits for the card.
SIGN = """<?php
$letter = $_SERVER["QUERY_STRING"] ?? "";
usleep(PAUSE);
$text = $letter . ";" . hash_hmac("sha256", $letter, "key of the card");
header("Content-Type: text/plain");
header("Content-Length: " . strlen($text));
echo $text;
"""


def letters(place):
    front = php(place, SIGN.replace("PAUSE", str(round(22000 * place.scale))), 24)
    common = "-Djava.util.concurrent.ForkJoinPool.common.parallelism=3"
    options = ["-Xmx128m", "-Dhttp.maxConnections=24", common, "-cp", str(place.java(LETTERS))]
    return ["java", *options, "Main", str(front), "480", *(["20"] if place.fixed else [])]


# The carts of two wards hand in what was given to the patients since the last visit, 40 doses at
# once, and keep it until the trail has confirmed all of it.
CARTS = """
package main

import ("bufio"; "bytes"; "fmt"; "net"; "os"; "strconv"; "sync"; "time")

func handIn(port string, ward, count int) {
	link, err := net.Dial("tcp", "127.0.0.1:" + port)
	if err != nil {
		panic(err)
	}
	answers := bufio.NewReader(link)
	for sent := 0; sent < count; sent += 40 {
		var text bytes.Buffer
		for i := sent; i < sent + 40; i++ {
			patient, drug := i * 7919 % 900000, i % 1300
			fmt.Fprintf(&text, "ward %d|patient %06d|drug %04d|%d mg|given by nurse %d\\n", ward, patient, drug, 5 + i % 90, i % 31)
		}
		text.WriteString("end\\n")
		link.Write(text.Bytes())
		if _, err := answers.ReadString('\\n'); err != nil {
			panic(err)
		}
	}
}

func main() {
	count, _ := strconv.Atoi(os.Args[2])
	var all sync.WaitGroup
	begin := time.Now()
	for ward := 1; ward <= 2; ward++ {
		all.Add(1)
		go func() {
			defer all.Done()
			handIn(os.Args[1], ward, count)
		}()
	}
	all.Wait()
	fmt.Printf("items %d seconds %.3f\\n", 2 * count, time.Since(begin).Seconds())
}
"""
# Keeps the legal trail of all drugs; a line contains the digest of the one before it.
TRAIL = """#!/usr/bin/perl
use strict;
use warnings;
use Digest::MD5 qw(md5_hex);
use IO::Handle;
use IO::Socket::INET;

my ($port, $each) = @ARGV;
$SIG{CHLD} = "IGNORE";
my $server = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $port, Listen => 9, ReuseAddr => 1) or die;
while (1) {
    my $cart = $server->accept or next;
    next if fork;
    open my $trail, ">>", "trail-$$" or die;
    my ($last, $lines) = ("", 0);
    while (defined(my $line = <$cart>)) {
        if ($line eq "end\\n") {
            kept($trail) unless $each;
            print $cart "kept $lines\\n";
            $cart->flush;
            next;
        }
        chomp $line;
        $last = md5_hex("$last|$line");
        print $trail "$line|$last\\n";
        $lines++;
        kept($trail) if $each;
    }
    exit;
}

sub kept {
    my $trail = shift;
    $trail->flush;
    $trail->sync or die;
}
"""


def trail(place):
    port = place.port()
    place.start(place.write("trail", TRAIL), port, 0 if place.fixed else 1, port=port)
    return [str(place.go("carts", CARTS)), str(port), "6000"]


# Control: the plan of a radiation. Each thread computes the dose in planes of the body, and takes
# the next plane when it has added one to the sum.
DOSEPLAN = r"""
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

static std::mutex sums;
static int next_plane = 0;
static double total = 0;

static double plane(int z) {
    double dose = 0;
    for (int y = 0; y < 120; y++)
        for (int x = 0; x < 120; x++)
            for (int beam = 0; beam < 5; beam++) {
                double angle = beam * 1.2566, depth = x * std::cos(angle) + y * std::sin(angle) + 200;
                double side = x * std::sin(angle) - y * std::cos(angle);
                dose += std::exp(-depth * 0.004) * std::exp(-side * side * 0.002) / (1 + z % 90 * 0.01);
            }
    return dose;
}

int main(int, char **words) {
    auto begin = std::chrono::steady_clock::now();
    auto end = begin + std::chrono::milliseconds(int(1000 * std::atof(words[1])));
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < std::thread::hardware_concurrency(); i++)
        threads.emplace_back([end] {
            double dose = 0;
            while (std::chrono::steady_clock::now() < end) {
                int z;
                {
                    std::lock_guard<std::mutex> held(sums);
                    total += dose;
                    z = next_plane++;
                }
                dose = plane(z);
            }
        });
    for (auto &thread : threads)
        thread.join();
    std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    std::printf("items %d seconds %.3f dose %g\n", next_plane, passed.count(), total);
}
"""


def plan(place):
    program = place.built(DOSEPLAN, ".cc", "g++", "-O2", "-std=c++17", "-pthread", "-o", "{program}", "{source}")
    return [str(place.named(program, "doseplan")), str(place.seconds)]


# Control: eight nurses on their rounds. Each writes the temperature of a patient of her own, and
# then walks to the next bed.
ROUND = r"""
\set bed random(1, 40)
begin;
select name, temperature from patients where id = :client_id * 40 + :bed for update;
update patients set temperature = 36 + random() * 4 where id = :client_id * 40 + :bed;
insert into curves (patient, at) values (:client_id * 40 + :bed, now());
commit;
\set walk random(60, 140)
\sleep :walk ms
"""
BOUNCER = """
[databases]
postgres = host=127.0.0.1 port=BASE user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = FRONT
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 8
"""


def rounds(place):
    base = postgres(place, """
        create table patients (id int primary key, name text, temperature real);
        insert into patients select i, 'patient ' || i, 37 from generate_series(1, 400) i;
        create table curves (id serial primary key, patient int, at timestamptz);
        analyze; checkpoint""", synchronous_commit="off")
    front, user = place.port(), pwd.getpwnam("postgres")
    config = place.write("bouncer.ini", BOUNCER.replace("BASE", str(base)).replace("FRONT", str(front)))
    place.start("pgbouncer", config, port=front, user=user.pw_uid, group=user.pw_gid, env={**os.environ, "HOME": "/"})
    script = place.write("round.sql", ROUND)
    return ["/usr/bin/pgbench", "-n", "-h", "127.0.0.1", "-p", str(front), "-U", "postgres", "-f", str(script),
            "-c", "8", "-T", str(place.seconds), "postgres"]


# The locks of the controls are no bottleneck.
FREE = r"^(?!.*(\block|mutex|futex)).*"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="hospital_bedboard",
        kind="slow-upstream",
        truth="bedboard.js in node, behind apache2, waits 18 ms by a timer before each reply",
        load=beds,
        rate=number(r"finished in [\d.]+s, ([\d.]+) req/s"),
        component=(r"\bnode\b", r"bedboard"),
        mechanism=(*SLEEPS, r"time-?outs?", r"setTimeout", r"\bdelay", r"\bpauses?\b",
                   r"(repl(y|ies)|answers?|responses?) (of|from|by) (the )?(node|bedboard)"),
        never=(*DISK, r"(apache2|h2load) (\([^)]*\) )?(sleeps|computes)", r"(node|bedboard\S*) (\([^)]*\) )?computes"),
        change="x0",
        halves=True,
        running=True,
        needs=("apache2", "node", "h2load"),
    ),
    System(
        name="hospital_last_dose",
        kind="row-lock",
        truth="dispensary, in Python, holds the lock of one row of the table stock in mariadb while it "
              "asks interactions, which takes 9 ms, so that only one of six requests proceeds",
        load=doses,
        rate=WRK,
        component=(r"maria", r"mysql", r"dispensary", r"\bstock\b", r"interactions", r"\brow\b"),
        mechanism=(*LOCKS, r"transaction", r"for update", r"\brows?\b", *SERIAL),
        never=(*DISK, r"(mariadbd?|dispensary|interactions|wrk) (\([^)]*\) )?(computes|runs its own code)"),
        halves=True,
        needs=("mariadbd", "mariadb", "go", "wrk"),
    ),
    System(
        name="hospital_labgate",
        kind="mutex",
        truth="labgate, in Rust, holds a mutex around its only line to analyser during each question, "
              "which takes 7 ms, so that its eight threads ask one after the other",
        load=samples,
        rate=number(r"Requests per second:\s+([\d.]+)"),
        component=(r"labgate", r"mutex", r"analyser", r"futex"),
        mechanism=(*LOCKS, r"futex", *SERIAL, r"(one|single|only|same|shared) (connection|socket|line|link)"),
        never=(*DISK, r"(labgate|analyser|ruby|ab) (\([^)]*\) )?(computes|runs its own code)"),
        halves=True,
        needs=("rustc", "ruby", "ab"),
    ),
    System(
        name="hospital_letters",
        kind="small-pool",
        truth="the three threads of the common pool of java (Main) wait 22 ms for each signature of "
              "php-fpm behind nginx, which could sign 24 letters at once",
        load=letters,
        rate=ITEMS,
        component=(r"\bjava\b", r"\bMain\b", r"ForkJoin", r"common-?[Pp]ool", r"\bworkers?\b", r"php", r"nginx"),
        mechanism=(r"\bpools?\b", r"ForkJoin", r"(three|3|few|all|its|of the|more|only) (\w+ )?(threads|workers)",
                   r"\d at (a time|once)",
                   r"(threads|workers) (are|is) (all )?(busy|in use|occupied)", r"one (\w+ )?at a time", *SERIAL),
        never=(*DISK, r"(java|Main|nginx|php-fpm\S*) (\([^)]*\) )?(computes|runs its own code)",
               r"(php|nginx)[^;]*\b(children|processes|workers|pool)\b[^;]*(busy|in use|too (few|small)|full)"),
        change="x0.15",
        halves=True,
        needs=("java", "javac", "nginx", f"/usr/sbin/{PHP_FPM}"),
    ),
    System(
        name="hospital_trail",
        kind="fsync-per-item",
        truth="trail, in Perl, calls fsync for each dose that carts hands in, though it confirms 40 "
              "doses at once",
        load=trail,
        rate=ITEMS,
        component=(r"\btrail\b", r"\btrail-\d+", r"\bperl\b"),
        mechanism=(r"f(data)?sync", r"\bsyncs?\b", r"\bdisk\b", r"flush", r"journal", r"\bjbd2\b", r"storage", r"writeback",
                   r"\bcommits?\b"),
        never=(r"(trail|perl|carts) (\([^)]*\) )?(sleeps|computes|runs its own code)",
               r"carts (\([^)]*\) )?waits for (the |a )?(disk|sync)"),
        needs=("perl", "go"),
    ),
    System(
        name="control_hospital_doseplan",
        kind="control",
        truth="doseplan, in C++, computes on all CPUs; its threads take a lock once for each plane, "
              "for less than a microsecond, and hardly ever wait for it",
        load=plan,
        rate=ITEMS,
        acceptable=(*NOTHING, rf"{FREE}doseplan.*(comput|\buser\b|\bruns?\b|preempted|\bCPUs?\b)",
                    r"([Bb]oth|[Aa]ll|[Tt]he) (\d+ )?CPUs"),
        needs=("g++",),
    ),
    System(
        name="control_hospital_rounds",
        kind="control",
        truth="eight clients of pgbench think for 60 to 140 ms after each transaction, outside of it, and "
              "lock rows that nobody else wants; pgbouncer and postgres are idle most of the time",
        load=rounds,
        rate=PGBENCH,
        acceptable=(*NOTHING, r"[Pp]aced by (\w+ )?pgbench", r"\bidle\b", r"load generator",
                    rf"{FREE}\bpgbench\b.*(sleep|timer|until a time|clock|paced|think)"),
        needs=("/usr/bin/pgbench", "pgbouncer", "psql"),
    ),
]
