"""Go: a mutex around a slow call, and one around hashing."""
from functools import partial

from system import ITEMS, LOCKS, PYTHON, SLEEPS, WRK, System, wrk

LEDGER = """
package main

import ("math"; "net/http"; "os"; "strconv"; "sync"; "sync/atomic"; "time")

var ledger sync.Mutex
var count atomic.Int64

func main() {
	apart := os.Args[2] == "apart"
	pause, _ := strconv.ParseFloat(os.Args[3], 64)
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if !apart {
			ledger.Lock()
			defer ledger.Unlock()
		}
		// An idle Go program waits whole milliseconds; their mean is the pause.
		n := float64(count.Add(1))
		time.Sleep(time.Duration(math.Floor(n * pause) - math.Floor((n - 1) * pause)) * time.Millisecond)
		w.Write([]byte("booked\\n"))
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""

# One program with eight workers, of which one at a time sends a request to a server.
CALLS = """
package main

import ("bufio"; "fmt"; "net"; "os"; "strconv"; "sync"; "time")

func main() {
	apart := os.Args[2] == "apart"
	items, _ := strconv.Atoi(os.Args[3])
	var lock sync.Mutex
	var all sync.WaitGroup
	begin := time.Now()
	for worker := 0; worker < 8; worker++ {
		all.Add(1)
		go func() {
			defer all.Done()
			connection, err := net.Dial("unix", os.Args[1])
			if err != nil {
				panic(err)
			}
			reader := bufio.NewReader(connection)
			for i := 0; i < items / 8; i++ {
				if !apart {
					lock.Lock()
				}
				fmt.Fprintf(connection, "price %d\\n", i)
				reader.ReadString('\\n')
				if !apart {
					lock.Unlock()
				}
			}
		}()
	}
	all.Wait()
	fmt.Printf("items %d seconds %.3f\\n", items, time.Since(begin).Seconds())
}
"""

PRICES = """
import socketserver, sys, time

class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            time.sleep(float(sys.argv[2]))
            self.wfile.write(b"12.50\\n")

class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64

Server(sys.argv[1], Handler).serve_forever()
"""

HASHES = """
package main

import ("crypto/sha256"; "fmt"; "net/http"; "os"; "strconv"; "sync")

var lock sync.Mutex

func main() {
	apart := os.Args[2] == "apart"
	mebibytes, _ := strconv.ParseFloat(os.Args[3], 64)
	block := make([]byte, int(mebibytes * (1 << 20)))
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if !apart {
			lock.Lock()
			defer lock.Unlock()
		}
		fmt.Fprintf(w, "%x\\n", sha256.Sum256(block))
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def server(name, source, connections, amount, place):
    """`amount`: the size of a request, in milliseconds or mebibytes."""
    port = place.port()
    place.start(place.go(name, source), port, "apart" if place.fixed else "together", amount * place.scale, port=port)
    return wrk(f"http://127.0.0.1:{port}/", connections, place.seconds)


def workers(place):
    socket = place.folder / "prices.socket"
    place.start(PYTHON, place.write("prices.py", PRICES), socket, 0.004 * place.scale, path=socket)
    return [str(place.go("quotes", CALLS)), str(socket), "apart" if place.fixed else "together", "5000" if place.fixed else "1000"]


SYSTEMS = [
    System(
        name="go_mutex_sleep",
        kind="mutex-around-slow-call",
        truth="the Go server ledger holds a mutex while it sleeps 3 ms in each request",
        load=partial(server, "ledger", LEDGER, 16, 3),
        rate=WRK,
        component=(r"ledger",),
        mechanism=(*LOCKS, *SLEEPS),
        change="x0.0625",
        halves=True,
        needs=("go", "wrk"),
    ),
    System(
        name="go_mutex_call",
        kind="mutex-around-slow-call",
        truth="the workers of quotes call the price server, which sleeps 4 ms, one at a time under a mutex",
        load=workers,
        rate=ITEMS,
        component=(r"quotes", r"python|prices"),
        mechanism=(*LOCKS, *SLEEPS),
        change="x0.125",
        halves=True,
        needs=("go", PYTHON),
    ),
    System(
        name="go_mutex_hash",
        kind="mutex-around-cpu",
        truth="the Go server digest computes sha256 under one mutex, so that one CPU of two works",
        load=partial(server, "digest", HASHES, 8, 1),
        rate=WRK,
        component=(r"digest",),
        mechanism=LOCKS,
        never=(r"wrk::",),
        halves=True,
        needs=("go", "wrk"),
    ),
]
