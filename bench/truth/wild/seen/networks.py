"""Faults in a private network: lost packets, a slow link, slow name lookups."""
from services import private_network
from system import ITEMS, PYTHON, SLEEPS, WRK, System, number, wrk


def waits_for(place, inside, port):
    place.run(*inside, "bash", "-c", f"for i in $(seq 200); do (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && exit; sleep 0.05; done; exit 1")


def lost_packets(place):
    """The filter drops one of many requests, which the kernel repeats after 0.2 s."""
    port = place.port()
    every = int(400 / place.fault) if place.fault else 1000000
    rules = (f"nft add table ip loss && nft 'add chain ip loss input {{ type filter hook input priority 0; }}' && "
             f"nft add rule ip loss input tcp dport {port} ip length gt 60 numgen inc mod {every} 0 drop")
    inside = private_network(place, rules)
    place.start(*inside, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", place.folder)
    waits_for(place, inside, port)
    count = {1: 8000, 0.5: 16000}.get(place.fault, 60000)
    return [*inside, "redis-benchmark", "-p", str(port), "-c", "1", "-n", str(count), "-t", "incr", "--csv"]


def slow_link(place):
    shaper = [] if place.fixed else [f"tc qdisc add dev lo root tbf rate {int(40 / place.fault)}mbit burst 32k limit 256k"]
    inside = private_network(place, "ip link set lo mtu 1500", *shaper)
    port = place.port()
    (place.folder / "image").write_bytes(b"0123456789abcdef" * 2 ** 20)
    place.write("site.conf", f"daemon off; user root; pid {place.folder}/site.pid; error_log {place.folder}/site.log; events {{}}\n"
                f"http {{ access_log off; client_body_temp_path {place.folder}/b; proxy_temp_path {place.folder}/p; fastcgi_temp_path {place.folder}/f;"
                f" uwsgi_temp_path {place.folder}/u; scgi_temp_path {place.folder}/s; server {{ listen 127.0.0.1:{port}; root {place.folder}; limit_rate 50m; }} }}")
    place.start(*inside, "nginx", "-p", place.folder, "-c", place.folder / "site.conf")
    waits_for(place, inside, port)
    return [*inside, "curl", "-s", "-S", "-m", "60", "-o", "/dev/null", "-w", "items %{size_download} seconds %{time_total}\n", f"http://127.0.0.1:{port}/image"]


# Each request of Node goes to another host, whose name a thread of libuv's pool looks up.
GATEWAY = """
const http = require('http');
http.createServer((request, response) => {
  http.get({ host: 'stock.shop.test', port: process.argv[3], agent: false }, answer => {
    answer.resume();
    answer.on('end', () => response.end('done\\n'));
  }).on('error', error => { response.statusCode = 500; response.end(String(error)); });
}).listen(process.argv[2], '127.0.0.1');
"""
NAMES = r"""
import socket, sys, threading, time
# Answers every question for an address with 127.0.0.1, after a time.
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((sys.argv[1], int(sys.argv[2])))
open(sys.argv[6], "w").close()
pause, ttl, share = float(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
def answer(query, client):
    time.sleep(pause)
    end = query.index(b"\0", 12) + 5
    address = query[end - 4:end] == b"\0\1\0\1"
    # Names that begin with x are those of a zone whose answers may be kept.
    seconds = 300 if query[13:14] == b"x" else ttl
    head = query[:2] + b"\x81\x80\0\1" + (b"\0\1" if address else b"\0\0") + b"\0\0\0\0"
    record = b"\xc0\x0c\0\1\0\1" + seconds.to_bytes(4, "big") + b"\0\4\x7f\0\0\1"
    server.sendto(head + query[12:end] + (record if address else b""), client)
while True:
    query, client = server.recvfrom(4096)
    if share:
        answer(query, client)
    else:
        threading.Thread(target=answer, args=(query, client)).start()
"""


def small_uv_pool(place):
    resolv = place.write("resolv.conf", "nameserver 127.0.0.1\noptions timeout:10 single-request-reopen\n")
    inside, ready = private_network(place, f"mount --bind {resolv} /etc/resolv.conf"), place.folder / "names-ready"
    place.start(*inside, PYTHON, place.write("nameserver.py", NAMES), "127.0.0.1", 53, 0.02, 0, 0, ready, path=ready)
    stock, gateway = place.port(), place.port()
    server = place.write("stock.js", "require('http').createServer((q, a) => a.end('7')).listen(process.argv[2], '127.0.0.1');")
    place.start(*inside, "node", server, stock)
    size = 32 if place.fixed else round(2 / place.fault)
    place.start(*inside, "env", f"UV_THREADPOOL_SIZE={size}", "node", place.write("gateway.js", GATEWAY), gateway, stock)
    waits_for(place, inside, stock)
    waits_for(place, inside, gateway)
    return [*inside, *wrk(f"http://127.0.0.1:{gateway}/", 24, place.seconds)]


CRAWLER = """
package main

import ("context"; "fmt"; "net"; "os"; "strconv"; "sync"; "sync/atomic"; "time")

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	fault, _ := strconv.ParseFloat(os.Args[3], 64)
	resolver := net.Resolver{PreferGo: true, Dial: func(of context.Context, network, address string) (net.Conn, error) {
		return net.Dial("udp", "127.0.0.1:" + os.Args[1])
	}}
	begin := time.Now()
	var count, spent atomic.Int64
	var all sync.WaitGroup
	for worker := 0; worker < 3; worker++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for time.Since(begin).Seconds() < seconds {
				n := count.Add(1)
				zone := "x"
				if int(float64(n) * fault) > int(float64(n - 1) * fault) { zone = "y" }
				if _, err := resolver.LookupIP(context.Background(), "ip4", fmt.Sprintf("%s%d.pages.test.", zone, n % 50)); err != nil {
					fmt.Println(err)
					os.Exit(1)
				}
				for i := int64(0); i < 100000; i++ { spent.Store(i) }
			}
		}()
	}
	all.Wait()
	fmt.Printf("items %d seconds %.3f\\n", count.Load(), time.Since(begin).Seconds())
}
"""


def names_not_kept(place):
    zone, cache, ready = place.port(), place.port(), place.folder / "names-ready"
    place.start(PYTHON, place.write("zoneserver.py", NAMES), "127.0.0.1", zone, 0.006, 0, 1, ready, path=ready)
    place.start("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", f"--server=127.0.0.1#{zone}", f"--port={cache}",
                "--listen-address=127.0.0.1", "--bind-interfaces", "--user=root", "--pid-file=", "--cache-size=1000", port=cache)
    return [str(place.go("crawler", CRAWLER)), str(cache), str(place.seconds), str(place.fault)]


SYSTEMS = [
    System(
        name="redis_lost_packets",
        kind="packet-loss",
        truth="the packet filter drops every 400th request to redis, which the kernel sends again after its timer of 0.2 s",
        load=lost_packets,
        rate=number(r'"INCR","([\d.]+)"'),
        component=(r"redis", r"network", r"tcp", r"packet", r"kernel"),
        mechanism=(r"retransm", r"\blost\b", r"\bloss\b", r"drop", r"again", r"\btimer\b"),
        never=(r"comput", r"\bdisk\b"),
        halves=True,
        needs=("redis-server", "redis-benchmark", "nft", "nsenter"),
    ),
    System(
        name="curl_slow_link",
        kind="slow-link",
        truth="the queue of the network device lets 40 Mbit pass in a second, and curl and nginx wait for it",
        load=slow_link,
        rate=ITEMS,
        component=(r"curl", r"nginx", r"network", r"\blink\b", r"\blo\b", r"queue"),
        mechanism=(r"network", r"\blink\b", r"transm", r"queue", r"bandwidth", r"qdisc", r"shap", r"in flight"),
        never=(r"comput", r"\bdisk\b", r"\bsleep"),
        halves=True,
        needs=("nginx", "curl", "tc", "nsenter"),
    ),
    System(
        name="node_small_uv_pool",
        kind="libuv-pool",
        truth="two threads of Node's pool look up names, and wait 20 ms for each answer of the name server",
        load=small_uv_pool,
        rate=WRK,
        component=(r"\bnode", r"gateway", r"libuv", r"nameserver", r"python"),
        mechanism=(*SLEEPS, r"\bpool\b", r"name server", r"\bdns\b", r"two threads", r"few threads"),
        never=(r"stock", r"event loop comput"),
        change="x0.083",
        halves=True,
        needs=(PYTHON, "node", "wrk", "nsenter"),
    ),
    System(
        name="dnsmasq_names_not_kept",
        kind="no-caching",
        truth="answers of the zone server may not be kept, so that dnsmasq asks it for each query, and it sleeps 6 ms each time",
        load=names_not_kept,
        rate=ITEMS,
        component=(r"zoneserver", r"python", r"dnsmasq"),
        mechanism=SLEEPS,
        never=(r"crawler (comput|sleep)",),
        change="x0",
        halves=True,
        running=True,
        needs=(PYTHON, "dnsmasq", "go"),
    ),
]
