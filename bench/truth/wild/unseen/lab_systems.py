"""The services of a medical laboratory, which it wrote itself in seven languages: five frequent
faults of heaps, pools, mailboxes, logs and batches, and two healthy parts of the same laboratory.
"""
from services import nginx, postgres
from system import COMPUTES, ITEMS, LOCKS, PYTHON, SLEEPS, WRK, System, wrk

RUNS = (*COMPUTES, r"\bruns? on", r"\bCPU")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# Keeps the results of all patients of the year in memory, and prints the history of one of them.
HISTORY = """
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;

public class Main {
    record Result(String test, int day, double value) {}

    static final String[] TESTS = {"sodium", "potassium", "glucose", "creatinine", "ferritin"};
    static final Map<Integer, List<Result>> patients = new HashMap<>();

    static List<Result> results(int patient) {
        List<Result> list = new ArrayList<>(40);
        for (int i = 0; i < 40; i++) {
            list.add(new Result(TESTS[i % 5] + " " + patient, i * 9, (patient * 31 + i * 17) % 900 / 10.0));
        }
        return list;
    }

    static byte[] page(int patient) {
        StringBuilder text = new StringBuilder(100_000);
        for (Result result : patients.get(patient)) {
            text.append("<tr><td>").append(result.test()).append("<td>day ").append(result.day());
            text.append("<td>").append(result.value()).append("</tr>");
        }
        return text.toString().getBytes();
    }

    public static void main(String[] words) throws Exception {
        int count = Integer.parseInt(words[1]);
        for (int patient = 0; patient < count; patient++) {
            patients.put(patient, results(patient));
        }
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 100);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/history", exchange -> {
            int patient = (int) (System.nanoTime() / 1000 % count);
            byte[] page = page(patient);
            exchange.sendResponseHeaders(200, page.length);
            exchange.getResponseBody().write(page);
            exchange.close();
        });
        server.start();
    }
}
"""

def history(place, heap):
    port = place.port()
    options = f"-Xms{heap}m", f"-Xmx{heap}m", "-XX:+UseParallelGC", "-Dsun.net.httpserver.nodelay=true"
    place.start("java", *options, "-cp", place.java(HISTORY), "Main", port, 32000, port=port)
    return port


def small_heap(place):
    port = history(place, 800 if place.fixed else 155)
    return wrk(f"http://127.0.0.1:{port}/history", 4, place.seconds)


# Validates a result: reads it, asks the expert rules of the other house, and stores the answer.
VALIDATION = """
import contextlib, itertools, queue, urllib.request
import psycopg2
from flask import Flask

app = Flask(__name__)
tubes = itertools.count()
pool = queue.LifoQueue()
for _ in range(2):
    pool.put(psycopg2.connect(host="127.0.0.1", port=BASE, user="postgres"))

@contextlib.contextmanager
def connected():
    connection = pool.get()
    try:
        with connection, connection.cursor() as cursor:
            yield cursor
    finally:
        pool.put(connection)

def read(cursor, tube):
    cursor.execute("select test, value from results where tube = %s", (tube,))
    return cursor.fetchone()

def store(cursor, tube, verdict):
    cursor.execute("update results set verdict = %s where tube = %s", (verdict, tube))

def plausible(test, value):
    with urllib.request.urlopen(f"http://127.0.0.1:RULES/plausible?test={test}&value={value}") as answer:
        return answer.read().decode()

@app.get("/validate")
def validate():
    tube = next(tubes) % 5000
    with connected() as cursor:
        test, value = read(cursor, tube)
CHECK
        store(cursor, tube, verdict)
    return f"tube {tube}: {verdict}"
"""
WITHIN = "        verdict = plausible(test, value)"
OUTSIDE = """    verdict = plausible(test, value)
    with connected() as cursor:"""
PLAUSIBILITY = """
package main

import ("fmt"; "net/http"; "os"; "strconv"; "time")

func main() {
	pause, _ := time.ParseDuration(os.Args[2])
	http.HandleFunc("/plausible", func(w http.ResponseWriter, r *http.Request) {
		value, _ := strconv.ParseFloat(r.FormValue("value"), 64)
		time.Sleep(pause)
		if value > 88 {
			fmt.Fprint(w, "repeat ", r.FormValue("test"))
		} else {
			fmt.Fprint(w, "valid")
		}
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def held_connection(place):
    base = postgres(place, """
        create table results (tube int primary key, test text, value numeric, verdict text) with (fillfactor = 50);
        insert into results select i, 'sodium', i % 900 / 10.0, null from generate_series(0, 4999) i; analyze; checkpoint""",
        fsync="off", synchronous_commit="off")
    rules, front = place.port(), place.port()
    place.start(place.go("plausibility", PLAUSIBILITY), rules, "18ms", port=rules)
    text = VALIDATION.replace("BASE", str(base)).replace("RULES", str(rules)).replace("CHECK", OUTSIDE if place.fixed else WITHIN)
    place.write("validation.py", text)
    place.start("/usr/bin/gunicorn", "-w", "1", "-k", "gthread", "--threads", "16", "-b", f"127.0.0.1:{front}", "--chdir", place.folder,
                "validation:app", port=front)
    return wrk(f"http://127.0.0.1:{front}/validate", 16, place.seconds)


# Books tubes and has labels coded. The analyzers tell at the start which tests they calibrated, and
# only the clause for all other messages would take that from the mailbox.
REGISTRY = """#!/usr/bin/escript
-mode(compile).

main([Port, Notices]) ->
    ets:new(tubes, [named_table, public]),
    Labels = spawn(fun labels/0),
    Registry = spawn(fun() -> registry(Labels) end),
    [Registry ! {calibrated, N rem 40, {test, N}} || N <- lists:seq(1, list_to_integer(Notices))],
    {ok, Listener} = gen_tcp:listen(list_to_integer(Port),
        [{ip, {127, 0, 0, 1}}, {packet, line}, {active, false}, {nodelay, true}, {reuseaddr, true}, {backlog, 50}]),
    accept(Listener, Registry).

accept(Listener, Registry) ->
    {ok, Socket} = gen_tcp:accept(Listener),
    Pid = spawn(fun() -> serve(Socket, Registry) end),
    gen_tcp:controlling_process(Socket, Pid),
    accept(Listener, Registry).

serve(Socket, Registry) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Line} ->
            Tube = list_to_integer(string:trim(Line)),
            Registry ! {book, self(), Tube},
            receive {booked, Tube, Label} -> gen_tcp:send(Socket, [Label, $\\n]) end,
            serve(Socket, Registry);
        _ -> ok
    end.

registry(Labels) ->
    receive
        {book, From, Tube} ->
            Labels ! {label, self(), Tube},
            receive {label, Tube, Label} -> ok end,
            ets:insert(tubes, {Tube, Label, erlang:system_time()}),
            From ! {booked, Tube, Label},
            registry(Labels)OTHERS
    end.

labels() ->
    receive
        {label, From, Tube} ->
            Sum = crypto:hash(sha256, integer_to_list(Tube)),
            From ! {label, Tube, [integer_to_list(Tube), $-, binary:encode_hex(binary:part(Sum, 0, 4))]},
            labels()
    end.
"""
OTHERS = """;
        _ -> registry(Labels)"""
# Four lanes of the sample reception book one tube after the other.
RECEPTION = """#!/usr/bin/ruby
require "socket"
port, count, lanes = ARGV[0].to_i, ARGV[1].to_i, 4
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
threads = lanes.times.map do |lane|
  Thread.new do
    registry = TCPSocket.new("127.0.0.1", port)
    registry.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
    (lane...count).step(lanes) do |tube|
      registry.write("#{tube}\\n")
      label = registry.gets
      raise "wrong label" unless label.start_with?("#{tube}-")
    end
  end
end
threads.each(&:join)
puts "items #{count} seconds #{(Process.clock_gettime(Process::CLOCK_MONOTONIC) - start).round(3)}"
"""


def mailbox(place):
    port = place.port()
    program = place.write("registry", REGISTRY.replace("OTHERS", OTHERS if place.fixed else ""))
    place.start(program, port, round(60000 * place.scale), port=port)
    return [str(place.write("reception", RECEPTION)), str(port), "8000"]


# Prints reports for doctors, and logs each on its standard output.
REPORTS = """
const http = require("http"), fs = require("fs");
const [port] = process.argv.slice(2).map(Number);
let number = 0;

http.createServer((request, response) => {
  const report = ++number, values = Array.from({ length: 60 }, (_, i) => (report * 31 + i * 17) % 900 / 10);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const lines = values.map((value, i) => `test ${i}: ${value.toFixed(1)} ${value > 2 * mean ? "high" : ""}`);
  for (const step of ["values read", "limits checked", "report signed"]) {
    const patient = `Person${report % 900} Family${report % 70}`;
    fs.writeSync(1, JSON.stringify({ time: Date.now(), step, report, patient, mean }) + "\\n");
  }
  response.end(lines.join("\\n"));
}).listen(port, "127.0.0.1");
"""
# Replaces the names of patients in a log before it is kept.
MASK = """#!/usr/bin/ruby
require "json"
names = File.readlines("families", chomp: true)

def pattern(names)
  Regexp.new("\\\\b(" + names.map { |name| Regexp.escape(name) }.join("|") + ")\\\\b", Regexp::IGNORECASE)
end

once = ARGV[0] == "once" ? pattern(names) : nil
File.open("reports.log", "w") do |log|
  $stdin.each_line do |line|
    entry = JSON.parse(line)
    entry["patient"] = entry["patient"].gsub(once || pattern(names), "***")
    log.puts(JSON.generate(entry))
  end
end
"""


def log_pipe(place):
    port = place.port()
    place.write("families", "".join(f"Family{i}\n" for i in range(300)), mode=0o644)
    reports, mask = place.write("reports.js", REPORTS), place.write("mask", MASK)
    mode = "once" if place.fixed else "line"
    place.start("sh", "-c", f"node {reports} {port} | {mask} {mode}", port=port)
    return wrk(f"http://127.0.0.1:{port}/report", 6, place.seconds)


# The journal of results: collects results until there are 64 or some time has passed, writes one
# block with them, and then confirms each result.
JOURNAL = """
package main

import ("bufio"; "bytes"; "net"; "os"; "time")

type result struct {
	line []byte
	kept chan bool
}

var arrived = make(chan result, 1000)

// Returns the results of the next block.
func block(linger time.Duration) []result {
	batch, late := []result{<-arrived}, time.After(linger)
	for len(batch) < 64 {
		select {
		case next := <-arrived:
			batch = append(batch, next)
		case <-late:
			return batch
		}
	}
	return batch
}

func keep(linger time.Duration) {
	file, err := os.Create("journal.dat")
	if err != nil {
		panic(err)
	}
	for {
		batch := block(linger)
		var text bytes.Buffer
		for _, one := range batch {
			text.Write(one.line)
		}
		file.Write(text.Bytes())
		file.Sync()
		for _, one := range batch {
			one.kept <- true
		}
	}
}

func serve(analyzer net.Conn) {
	lines, kept := bufio.NewReader(analyzer), make(chan bool)
	for {
		line, err := lines.ReadBytes('\\n')
		if err != nil {
			return
		}
		arrived <- result{line, kept}
		<-kept
		analyzer.Write([]byte("kept\\n"))
	}
}

func main() {
	linger, _ := time.ParseDuration(os.Args[2])
	listener, err := net.Listen("tcp", "127.0.0.1:" + os.Args[1])
	if err != nil {
		panic(err)
	}
	go keep(linger)
	for {
		analyzer, err := listener.Accept()
		if err != nil {
			return
		}
		go serve(analyzer)
	}
}
"""
# Six analyzers fit a curve to the light of each sample, and send its area to the journal.
ANALYZERS = r"""
#include <arpa/inet.h>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

static std::atomic<int> samples{0};

static double area(int sample) {
    double sum = 0;
    for (int i = 0; i < 8000; i++)
        sum += std::exp(-std::pow((i - sample % 97) / 900.0, 2));
    return sum;
}

static void analyzer(int port, int count) {
    int link = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(link, (sockaddr *)&address, sizeof address))
        exit(1);
    for (int sample; (sample = samples++) < count;) {
        char line[400], reply[100];
        int length = snprintf(line, sizeof line, "sample %d area %.6f\n", sample, area(sample));
        if (write(link, line, length) != length || read(link, reply, sizeof reply) <= 0)
            exit(1);
    }
    close(link);
}

int main(int, char **words) {
    auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> all;
    for (int i = 0; i < 6; i++)
        all.emplace_back(analyzer, atoi(words[1]), atoi(words[2]));
    for (auto &one : all)
        one.join();
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    printf("items %s seconds %.3f\n", words[2], seconds);
}
"""


def cxx(place, name, source):
    return place.named(place.built(source, ".cc", "g++", "-O2", "-std=c++17", "-pthread", "-o", "{program}", "{source}"), name)


def linger(place):
    port = place.port()
    place.start(place.go("journal", JOURNAL), port, f"{round(40000 * place.fault)}us", port=port)
    return [str(cxx(place, "analyzers", ANALYZERS)), str(port), "540"]


# Control: the same pages of histories, with a heap in which they fit several times, behind an nginx
# that keeps its connections. The CPUs are full.
def roomy_heap(place):
    port = history(place, 800)
    front = nginx(place, 'location / { proxy_pass http://history; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream history {{ server 127.0.0.1:{port}; keepalive 16; }}")
    return wrk(f"http://127.0.0.1:{front}/history", 6, place.seconds)


# Control: one process in Erlang has the temperatures of all fridges, and answers at once.
FRIDGES = """#!/usr/bin/escript
-mode(compile).

main([Port]) ->
    Store = spawn(fun() -> store(maps:from_list([{N, 4.0 + N / 100} || N <- lists:seq(1, 80)])) end),
    {ok, Listener} = gen_tcp:listen(list_to_integer(Port),
        [{ip, {127, 0, 0, 1}}, {packet, line}, {active, false}, {nodelay, true}, {reuseaddr, true}]),
    accept(Listener, Store).

accept(Listener, Store) ->
    {ok, Socket} = gen_tcp:accept(Listener),
    Pid = spawn(fun() -> serve(Socket, Store) end),
    gen_tcp:controlling_process(Socket, Pid),
    accept(Listener, Store).

serve(Socket, Store) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Line} ->
            Fridge = list_to_integer(string:trim(Line)),
            Store ! {read, self(), Fridge},
            receive {degrees, Degrees} -> gen_tcp:send(Socket, [float_to_list(Degrees, [{decimals, 2}]), $\\n]) end,
            serve(Socket, Store);
        _ -> ok
    end.

store(All) ->
    receive
        {read, From, Fridge} ->
            Degrees = maps:get(Fridge, All),
            From ! {degrees, Degrees},
            store(All#{Fridge := 4.0 + (Degrees - 4.0) * 0.9 + 0.03})
    end.
"""
# Reads all fridges each 90 ms, through four connections that it keeps.
COLLECTOR = """#!/usr/bin/python3
import asyncio, sys, time

async def read(idle, fridge):
    reader, writer = link = await idle.get()
    writer.write(b"%d\\n" % fridge)
    degrees = float(await reader.readline())
    idle.put_nowait(link)
    return degrees

async def main(port, seconds):
    idle = asyncio.Queue()
    for _ in range(4):
        idle.put_nowait(await asyncio.open_connection("127.0.0.1", port))
    start, rounds = time.monotonic(), 0
    while time.monotonic() < start + seconds:
        degrees = await asyncio.gather(*(read(idle, fridge) for fridge in range(1, 41)))
        if max(degrees) > 8:
            print("alarm")
        rounds += 1
        await asyncio.sleep(start + rounds * 0.09 - time.monotonic())
    print(f"items {rounds} seconds {time.monotonic() - start:.3f}")

asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
"""


def fridges(place):
    port = place.port()
    place.start(place.write("fridges", FRIDGES), port, port=port)
    return [str(place.write("collector", COLLECTOR)), str(port), str(place.seconds)]


RUNNING = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="lab_heap_of_the_histories",
        kind="heap-too-small",
        truth="java (history) collects garbage: its heap of 155 MB is hardly larger than the results "
              "that it keeps in it, so that the GC threads compute most of the time and its own "
              "threads stand still meanwhile",
        load=small_heap,
        rate=WRK,
        component=(r"\bjava\b", r"\bhistory\b", r"\bGC\b", r"garbage", r"\bVM Thread"),
        mechanism=(r"\bGC\b", r"garbage", r"collect(s|or|ion|ing)\b", r"\bheap\b", r"\bVM Thread"),
        never=(*DISK, r"java (\([^)]*\) )?sleeps"),
        running=True,
        needs=("java", "javac", "wrk"),
    ),
    System(
        name="lab_connection_kept_in_the_call",
        kind="pool-held-during-call",
        truth="the threads of gunicorn wait for one another's connection to postgres: the pool has "
              "two, and a thread keeps one while it waits 18 ms for plausibility, in go, so that only "
              "two tubes are validated at once",
        load=held_connection,
        rate=WRK,
        component=(r"gunicorn", r"validation"),
        mechanism=(*LOCKS, r"for one another", r"\bpool\b", r"\bqueue", r"\bholds?\b", r"\bheld\b",
                   r"at once", r"in parallel", r"concurren", r"(two|2) (\w+ )?(threads?|requests?|connections?)",
                   r"in (a )?transaction"),
        never=(*DISK, r"postgres (\([^)]*\) )?(computes|runs|sleeps)"),
        needs=("psql", "/usr/bin/gunicorn", "go", "wrk"),
    ),
    System(
        name="lab_mailbox_of_the_registry",
        kind="selective-receive-long-mailbox",
        truth="the registry, in erlang (beam.smp), computes: for each tube its only process scans a "
              "mailbox with 60000 messages that no clause takes, before it finds the one that it "
              "waits for",
        load=mailbox,
        rate=ITEMS,
        component=(r"beam", r"[Ee]rlang", r"\bregistry\b", r"escript", r"erts", r"sched(uler)?_"),
        mechanism=(*RUNS, r"mailbox", r"\bmessages?\b", r"\bscan"),
        never=(*DISK, r"beam\S* (\([^)]*\) )?sleeps"),
        halves=True,
        needs=("escript", "ruby"),
    ),
    System(
        name="lab_names_in_the_log",
        kind="log-pipe-backpressure",
        truth="mask, in ruby, computes: it builds the pattern of all families anew for each line of "
              "the log, so that node (reports.js) waits in write for room in the pipe to it",
        load=log_pipe,
        rate=WRK,
        component=(r"\bmask\b", r"\bruby\b", r"\bnode\b[^;]*(pipe|writ)", r"\bpipe\b"),
        mechanism=(*RUNS, r"\bpipe\b", r"\bwrit(e|es|ing)\b", r"\blog\b", r"reg(ular )?exp?", r"\bonig"),
        never=(*DISK, r"(mask|ruby) (\([^)]*\) )?sleeps"),
        needs=("node", "ruby", "wrk"),
    ),
    System(
        name="lab_block_of_the_journal",
        kind="batch-linger",
        truth="journal, in go, waits for its timer: it keeps the results back for 40 ms in order to "
              "write blocks of 64, which six analyzers that wait for the reply never fill",
        load=linger,
        rate=ITEMS,
        component=(r"\bjournal\b",),
        mechanism=(*SLEEPS, r"linger", r"\bbatch", r"time\.After", r"\btimeout\b"),
        never=(r"journal (\([^)]*\) )?(waits? for (the )?(disk|sync)|computes)", r"analyzers (\([^)]*\) )?(computes|sleeps)"),
        halves=True,
        needs=("go", "g++"),
    ),
    System(
        name="lab_control_roomy_heap",
        kind="control",
        truth="java (history) answers behind an nginx that keeps its connections, its heap is large "
              "enough, and java, nginx and the load generator fill both CPUs",
        load=roomy_heap,
        rate=WRK,
        acceptable=(*NOTHING, rf"(java|history|nginx).*{RUNNING}", r"\bwrk\b", r"load generator", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs"),
        never=(r"\bGC\b", r"garbage", r"collect(s|or|ion|ing)\b"),
        needs=("java", "javac", "nginx", "wrk"),
    ),
    System(
        name="lab_control_fridges",
        kind="control",
        truth="collector, in python with asyncio, reads 40 fridges each 90 ms by intention; fridges, "
              "in erlang, answers long before the next round, and all are idle most of the time",
        load=fridges,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by (its own|collector|python|a timer)", r"(collector|python).*(sleep|timer|until a time|paced)",
                    r"\bidle\b"),
        needs=("escript", PYTHON),
    ),
]
