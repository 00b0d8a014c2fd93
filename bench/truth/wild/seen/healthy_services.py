"""Controls: services without a relevant bottleneck, some under heavy and some under light load."""
from system import ITEMS, PYTHON, WRK, System, number, wrk

DIGEST = """
package main

import ("crypto/sha256"; "fmt"; "net/http"; "os")

func main() {
	block := make([]byte, 1000000)
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%x\\n", sha256.Sum256(block)) })
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""

GREETER = """#!/usr/bin/python3
import sys
from concurrent import futures
import grpc

class Generic(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: request.upper())

server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[Generic()])
server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
server.start()
server.wait_for_termination()
"""

BEACON = """#!/usr/bin/python3
import sys, time
import grpc

# Thirty reports in a second are all there is to say.
begin, items = time.monotonic(), 0
with grpc.insecure_channel(f"127.0.0.1:{sys.argv[1]}") as channel:
    call = channel.unary_unary("/fleet.Positions/Report")
    while time.monotonic() < begin + float(sys.argv[2]):
        call(b"51.2 6.8")
        items += 1
        time.sleep(max(0, begin + items / 30 - time.monotonic()))
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""

# The text protocol of beanstalkd. Printer and binder compute equally long for each sheet.
SHEETS = r"""
package main

import ("bufio"; "crypto/sha256"; "fmt"; "io"; "net"; "os"; "path/filepath"; "strconv"; "strings"; "time")

func work() {
	block := make([]byte, 32768)
	for i := 0; i < 16; i++ { sum := sha256.Sum256(block); copy(block, sum[:]) }
}

func main() {
	connection, err := net.Dial("tcp", "127.0.0.1:" + os.Args[1])
	if err != nil { panic(err) }
	in := bufio.NewReader(connection)
	line := func() string {
		text, err := in.ReadString('\n')
		if err != nil { os.Exit(0) }
		return strings.TrimSpace(text)
	}
	if filepath.Base(os.Args[0]) == "binder" {
		os.WriteFile("binder.ready", nil, 0644)
		for {
			fmt.Fprintf(connection, "reserve\r\n")
			words := strings.Fields(line())
			size, _ := strconv.Atoi(words[2])
			io.CopyN(io.Discard, in, int64(size + 2))
			work()
			fmt.Fprintf(connection, "delete %s\r\n", words[1])
			line()
		}
	}
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	begin, items := time.Now(), 0
	for time.Since(begin).Seconds() < seconds {
		work()
		fmt.Fprintf(connection, "put 0 0 60 200\r\n%s\r\n", strings.Repeat("s", 200))
		line()
		items++
	}
	fmt.Printf("items %d seconds %.3f\n", items, time.Since(begin).Seconds())
}
"""


def equal_servers(place):
    servers, front = [], place.port()
    for name in "digest_a", "digest_b", "digest_c":
        port = place.port()
        place.start(place.go(name, DIGEST), port, port=port)
        servers.append(f"  server {name} 127.0.0.1:{port}\n")
    config = place.write("haproxy.cfg", f"""
global
  nbthread 1
defaults
  mode http
  balance leastconn
  timeout connect 5s
  timeout client 30s
  timeout server 30s
listen front
  bind 127.0.0.1:{front}
{"".join(servers)}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return wrk(f"http://127.0.0.1:{front}/", 9, place.seconds)


def beacon(place):
    port, front = place.port(), place.port()
    place.start(place.write("greeter", GREETER), port, port=port)
    config = place.write("haproxy.cfg", f"""
defaults
  mode tcp
  timeout connect 5s
  timeout client 30s
  timeout server 30s
listen front
  bind 127.0.0.1:{front}
  server greeter 127.0.0.1:{port}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return [place.write("beacon", BEACON), str(front), str(place.seconds)]


def sheets(place):
    port = place.port()
    place.start("beanstalkd", "-l", "127.0.0.1", "-p", port, port=port)
    place.start(place.go("binder", SHEETS), port, path=place.folder / "binder.ready")
    return [place.go("printer", SHEETS), str(port), str(place.seconds)]


def kept_answers(place):
    port = place.port()
    names = "".join(f'  local-data: "host{n}.pages.example. 300 IN A 127.0.0.1"\n' for n in range(200))
    config = place.write("unbound.conf", f"""
server:
  interface: 127.0.0.1
  port: {port}
  access-control: 127.0.0.0/8 allow
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "{place.folder}"
  pidfile: ""
  use-syslog: no
  num-threads: 1
  local-zone: "pages.example." static
{names}
remote-control:
  control-enable: no
""")
    place.start("unbound", "-d", "-c", config, port=port)
    place.write("queries", "".join(f"host{n}.pages.example A\n" for n in range(200)))
    return ["dnsperf", "-s", "127.0.0.1", "-p", str(port), "-d", "queries", "-l", str(place.seconds), "-q", "64"]


# A sentence may name programs that share two CPUs as the programs that use them.
COMPUTES = r"(\buser\b|kernel|\brun|preempted|interrupted|comput|\bCPU)"

SYSTEMS = [
    System(
        name="control_equal_servers",
        kind="control",
        truth="haproxy spreads requests over three Go servers, which fill both CPUs with hashes",
        load=equal_servers,
        rate=WRK,
        acceptable=(rf"digest_.*{COMPUTES}", r"both CPUs|all CPUs"),
        needs=("haproxy", "wrk", "go"),
    ),
    System(
        name="control_grpc_beacon",
        kind="control",
        truth="a beacon reports 30 times in a second to a gRPC server behind haproxy, because there is no more to say, and all are idle most of the time",
        load=beacon,
        rate=ITEMS,
        acceptable=(r"paced by (beacon|python)", r"beacon.*(sleep|timer|until a time)", r"idle"),
        needs=("haproxy", PYTHON),
    ),
    System(
        name="control_beanstalk_sheets",
        kind="control",
        truth="printer and binder, with beanstalkd between them, compute equally long for each sheet, each on a CPU of its own",
        load=sheets,
        rate=ITEMS,
        acceptable=(rf"(printer|binder).*{COMPUTES}", r"both CPUs|all CPUs"),
        needs=("beanstalkd", "go"),
    ),
    System(
        name="control_unbound_answers",
        kind="control",
        truth="dnsperf asks unbound for names that it has, as fast as both compute",
        load=kept_answers,
        rate=number(r"Queries per second:\s+([\d.]+)"),
        acceptable=(rf"(unbound|dnsperf).*{COMPUTES}", r"both CPUs|all CPUs"),
        needs=("unbound", "dnsperf"),
    ),
]
