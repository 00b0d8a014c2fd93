"""Limits on work that could be done at once: bandwidth, tokens, workers, sequences."""
from services import ECHO, nginx, redis
from system import ITEMS, LOCKS, PYTHON, SLEEPS, WRK, System, wrk

ONE_BY_ONE = (r"one (\w+ )*(at a time|after)", r"serial", r"sequential")

APACHE = """
ServerRoot {folder}
PidFile {folder}/apache.pid
ErrorLog {folder}/apache.error
Listen 127.0.0.1:{port}
ServerName localhost
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule env_module /usr/lib/apache2/modules/mod_env.so
LoadModule ratelimit_module /usr/lib/apache2/modules/mod_ratelimit.so
DocumentRoot {folder}/files
<Directory {folder}/files>
  Require all granted
  {limit}
</Directory>
"""


def apache_ratelimit(place):
    (place.folder / "files").mkdir()
    (place.folder / "files/film").write_bytes(b"frame " * 2**20)
    port = place.port()
    # Without the fault, a limit that is four times as high.
    limit = f"SetOutputFilter RATE_LIMIT\n  SetEnv rate-limit {int(1536 / place.fault) if place.fault else 15360}"
    place.start("apache2", "-X", "-f", place.write("apache.conf", APACHE.format(folder=place.folder, port=port, limit=limit)), port=port)
    return ["curl", "-s", "-S", "-m", "60", "-o", "/dev/null", "-w", "items %{size_download} seconds %{time_total}\\n", f"http://127.0.0.1:{port}/film"]


MAILINGS = """
import com.google.common.util.concurrent.RateLimiter;
import java.io.*;
import java.net.*;
import java.util.*;
import java.util.concurrent.atomic.*;

public class Main {
    public static void main(String[] words) throws Exception {
        int port = Integer.parseInt(words[0]);
        double seconds = Double.parseDouble(words[1]);
        RateLimiter limiter = RateLimiter.create(Double.parseDouble(words[2]));
        AtomicLong count = new AtomicLong();
        long begin = System.nanoTime(), end = begin + (long) (seconds * 1e9);
        Thread[] senders = new Thread[3];
        for (int n = 0; n < senders.length; n++) {
            senders[n] = new Thread(() -> {
                try (Socket socket = new Socket("127.0.0.1", port)) {
                    socket.setTcpNoDelay(true);
                    BufferedReader answers = new BufferedReader(new InputStreamReader(socket.getInputStream()));
                    while (System.nanoTime() < end) {
                        limiter.acquire();
                        socket.getOutputStream().write(("incr mails\\r\\n").getBytes());
                        answers.readLine();
                        count.incrementAndGet();
                        byte[] text = new byte[400000];
                        java.security.MessageDigest.getInstance("SHA-256").digest(text);
                    }
                } catch (Exception e) { throw new RuntimeException(e); }
            }, "sender-" + n);
            senders[n].start();
        }
        for (Thread sender : senders) sender.join();
        System.out.printf(Locale.ROOT, "items %d seconds %.3f%n", count.get(), (System.nanoTime() - begin) / 1e9);
    }
}
"""
GUAVA = "/usr/share/java/guava.jar"


def guava_rate_limiter(place):
    port = redis(place)
    classes = place.built(MAILINGS.replace("public class Main", "class Main"), ".java", "javac", "-cp", GUAVA, "-d", "{program}", "{source}")
    rate = 300 / place.fault if place.fault else 1e9
    return ["java", "-cp", f"{classes}:{GUAVA}", "Main", str(port), str(place.seconds), str(rate)]


CATALOG = """
import com.sun.net.httpserver.*;
import java.net.*;
import java.util.concurrent.*;

public class Main {
    public static void main(String[] words) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 100);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", exchange -> {
            try { Thread.sleep(25); } catch (InterruptedException e) { }
            byte[] page = "page\\n".getBytes();
            exchange.sendResponseHeaders(200, page.length);
            exchange.getResponseBody().write(page);
            exchange.close();
        });
        server.start();
    }
}
"""


def curl_in_sequence(place):
    port = place.port()
    place.start("java", "-Dsun.net.httpserver.nodelay=true", "-cp", place.java(CATALOG), "Main", port, port=port)
    parallel = [] if place.fault == 1 else ["--parallel", "--parallel-immediate", "--parallel-max", "12" if place.fixed else "2"]
    return ["curl", "-s", "-S", *parallel, "-o", "/dev/null", f"http://127.0.0.1:{port}/page?[1-120]"]


QUOTES = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
import grpc

def quote(request, context):
    time.sleep(0.02)
    return b"42 " + request

handler = grpc.method_handlers_generic_handler("Quotes", {"Get": grpc.unary_unary_rpc_method_handler(quote)})
server = grpc.server(ThreadPoolExecutor(max_workers=int(sys.argv[2])))
server.add_generic_rpc_handlers((handler,))
server.add_insecure_port("127.0.0.1:" + sys.argv[1])
server.start()
server.wait_for_termination()
"""
TRADER = """
import sys, threading, time
import grpc

channel = grpc.insecure_channel("127.0.0.1:" + sys.argv[1])
get = channel.unary_unary("/Quotes/Get")
end, counts, begin = time.monotonic() + float(sys.argv[2]), [], time.monotonic()
def work():
    count = 0
    while time.monotonic() < end:
        get(b"stock")
        count += 1
    counts.append(count)
threads = [threading.Thread(target=work) for _ in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(f"items {sum(counts)} seconds {time.monotonic() - begin:.3f}")
"""


def grpc_one_worker(place):
    port = place.port()
    place.start(PYTHON, place.write("quotes.py", QUOTES), port, 8 if place.fixed else round(1 / place.fault), port=port)
    return [PYTHON, str(place.write("trader.py", TRADER)), str(port), str(place.seconds)]


# All requests of the web server pass through one Erlang process, which waits for each of them.
STOCK = """
-module(main).
-behaviour(gen_server).
-export([main/1, init/1, handle_call/3, handle_cast/2]).

main([Port, Inside, Outside]) ->
    {ok, _} = gen_server:start({local, stock}, ?MODULE, [], []),
    {ok, Listen} = gen_tcp:listen(list_to_integer(Port), [binary, {ip, {127, 0, 0, 1}}, {packet, http_bin}, {active, false}, {reuseaddr, true}, {backlog, 100}, {nodelay, true}]),
    accept(Listen, list_to_integer(Inside), list_to_integer(Outside)).

accept(Listen, Inside, Outside) ->
    {ok, Socket} = gen_tcp:accept(Listen),
    Pid = spawn(fun() -> receive go -> serve(Socket, Inside, Outside) end end),
    ok = gen_tcp:controlling_process(Socket, Pid),
    Pid ! go,
    accept(Listen, Inside, Outside).

serve(Socket, Inside, Outside) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, http_eoh} ->
            wait(Outside),
            Left = gen_server:call(stock, {take, Inside}, infinity),
            Body = integer_to_binary(Left),
            gen_tcp:send(Socket, [<<"HTTP/1.1 200 OK\\r\\nContent-Length: ">>, integer_to_binary(byte_size(Body)), <<"\\r\\n\\r\\n">>, Body]),
            serve(Socket, Inside, Outside);
        {ok, _} -> serve(Socket, Inside, Outside);
        {error, _} -> gen_tcp:close(Socket)
    end.

wait(0) -> ok;
wait(Time) -> timer:sleep(Time).

init([]) -> {ok, 0}.
handle_call({take, Inside}, _, Count) -> wait(Inside), {reply, Count, Count + 1}.
handle_cast(_, Count) -> {noreply, Count}.
"""


def erlang_one_process(place):
    port = place.port()
    classes = place.built(STOCK, ".erl", "sh", "-c", "mkdir -p {program} && erlc -o {program} {source}")
    inside = round(12 * place.fault)
    place.start("erl", "-noinput", "+sbwt", "none", "-pa", classes, "-run", "main", "main", port, inside, 12 - inside, port=port)
    return wrk(f"http://127.0.0.1:{port}/", 8, place.seconds)


SHELF = """<?php
usleep(8000);
echo "on the shelf\n";
"""
HAPROXY = """
global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
listen front
  bind 127.0.0.1:{front}
  balance url_param shop
  hash-type map-based
{servers}
"""
LUA = """
local n = 0
request = function()
  n = n + 1
  local hot = math.floor(n * {share}) > math.floor((n - 1) * {share})
  return wrk.format(nil, "/?shop=" .. (hot and 3 or n % 3))
end
"""


def hot_shard(place):
    """Three servers of PHP with one process each; haproxy chooses one by the shop."""
    servers, front = [], place.port()
    for name in ("shelf_a", "shelf_b", "shelf_c"):
        port = place.port()
        place.start("php", "-n", "-S", f"127.0.0.1:{port}", place.write(f"{name}.php", SHELF), port=port)
        servers.append(f"  server {name} 127.0.0.1:{port}")
    place.start("haproxy", "-db", "-f", place.write("haproxy.cfg", HAPROXY.format(front=front, servers="\n".join(servers))), port=front)
    script = place.write("shops.lua", LUA.replace("{share}", str(round(0.9 * place.fault, 3))))
    command = wrk(f"http://127.0.0.1:{front}/", 12, place.seconds)
    return [*command[:-1], "-s", str(script), command[-1]]


VCL = """
vcl 4.1;
backend prices {{ .host = "127.0.0.1"; .port = "{port}"; }}
sub vcl_backend_response {{
  {decision}
}}
"""


def varnish_coalesced(place):
    """Varnish fetches an object once for all waiting requests. If it may not store the object, it
    serves them one by one.
    """
    backend = nginx(place, "location / { echo_sleep 0.015; echo 42; }", name="prices", top=ECHO)
    port = place.port()
    decision = "return (pass(60s));" if place.fixed else "set beresp.ttl = 0s; set beresp.grace = 0s; set beresp.keep = 0s; set beresp.uncacheable = false; return (deliver);"
    vcl = place.write("prices.vcl", VCL.format(port=backend, decision=decision), mode=0o644)
    place.start("varnishd", "-F", "-j", "none", "-n", place.folder / "varnish", "-f", vcl, "-a", f"127.0.0.1:{port}", "-s", "malloc,32m", port=port)
    paths = 1 if place.fault == 1 else 2
    script = place.write("prices.lua", f"local n = 0\nrequest = function() n = n + 1 return wrk.format(nil, '/price/' .. n % {paths}) end\n")
    command = wrk(f"http://127.0.0.1:{port}/", 8, place.seconds)
    return [*command[:-1], "-s", str(script), command[-1]]


TEST = "print \"1..1\\n\"; select(undef, undef, undef, 0.15); print \"ok 1\\n\";\n"


def prove_in_sequence(place):
    for number_ in range(20):
        place.write(f"case{number_:02}.t", TEST)
    jobs = 5 if place.fixed else round(1 / place.fault)
    return ["prove", "-Q", "-j", str(jobs), str(place.folder)]


SYSTEMS = [
    System(
        name="apache_ratelimit",
        kind="bandwidth-limit",
        truth="mod_ratelimit makes a thread of apache2 sleep 0.2 s after each piece of a file",
        load=apache_ratelimit,
        rate=ITEMS,
        component=(r"apache",),
        mechanism=(*SLEEPS, r"\brate"),
        never=(r"\bdisk\b", r"comput"),
        change="x0.1",
        halves=True,
        needs=("apache2", "curl"),
    ),
    System(
        name="guava_rate_limiter",
        kind="token-bucket",
        truth="the sender threads of Java sleep in Guava's RateLimiter, which lets 300 mails pass in a second",
        load=guava_rate_limiter,
        rate=ITEMS,
        component=(r"\bjava", r"sender"),
        mechanism=(*SLEEPS, r"\brate"),
        never=(r"redis", r"collect"),
        change="x0",
        halves=True,
        needs=("java", "javac", "redis-server"),
    ),
    System(
        name="curl_in_sequence",
        kind="serial-requests",
        truth="curl asks for one page after the other, and the Java server sleeps 25 ms for each",
        load=curl_in_sequence,
        component=(r"\bjava", r"\bcurl"),
        mechanism=(*SLEEPS, *ONE_BY_ONE),
        never=(r"comput", r"collect"),
        change="x0.083",
        halves=True,
        needs=("java", "javac", "curl"),
    ),
    System(
        name="grpc_one_worker",
        kind="too-few-workers",
        truth="the gRPC server quotes has one worker, which sleeps 20 ms in each call",
        load=grpc_one_worker,
        rate=ITEMS,
        component=(r"quotes",),
        mechanism=(*SLEEPS, *ONE_BY_ONE),
        change="x0.167",
        halves=True,
        running=True,
        needs=(PYTHON,),
    ),
    System(
        name="erlang_one_process",
        kind="actor-bottleneck",
        truth="all requests of the Erlang server go through one of its processes, which waits 12 ms for a timer in each",
        load=erlang_one_process,
        rate=WRK,
        component=(r"beam", r"\berl", r"stock"),
        mechanism=(*SLEEPS, *ONE_BY_ONE),
        change="x0.125",
        halves=True,
        needs=("erl", "erlc", "wrk"),
    ),
    System(
        name="haproxy_hot_shard",
        kind="hot-key",
        truth="nine of ten requests are for one shop, whose server shelf sleeps 8 ms for each, and the two others are idle",
        load=hot_shard,
        rate=WRK,
        component=(r"\bphp", r"shelf_[abc]"),
        mechanism=(*SLEEPS, *ONE_BY_ONE),
        never=(r"haproxy sleeps",),
        change="x0.36",
        halves=True,
        running=True,
        needs=("php", "haproxy", "wrk"),
    ),
    System(
        name="varnish_coalesced",
        kind="request-coalescing",
        truth="varnishd asks for one URL once at a time, though it may keep no answer, which nginx gives after 15 ms by a timer",
        load=varnish_coalesced,
        rate=WRK,
        component=(r"varnish", r"nginx", r"prices", r"cache-"),
        mechanism=(*SLEEPS, *LOCKS, *ONE_BY_ONE),
        never=(r"wrk", r"comput"),
        change="x0.125",
        halves=True,
        needs=("varnishd", "nginx", "wrk"),
    ),
    System(
        name="prove_in_sequence",
        kind="serial-tests",
        truth="prove runs one test after the other, and each sleeps 150 ms",
        load=prove_in_sequence,
        component=(r"prove", r"perl", r"case\d"),
        mechanism=(*SLEEPS, *ONE_BY_ONE),
        change="x0.2",
        halves=True,
        needs=("prove",),
    ),
]
