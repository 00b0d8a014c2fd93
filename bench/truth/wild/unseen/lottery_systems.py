"""The services of a lottery: sale of tickets, prizes, stamps and checks. Five faults, and two
healthy parts.
"""
import socket

from services import PHP_FPM, nginx, php
from system import ITEMS, LOCKS, SLEEPS, WRK, System, wrk

DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# The page of a game: the chance of each class of prizes, and what it pays.
PRIZES = """<?php
$game = (int) substr($_SERVER["REQUEST_URI"], 8);
$balls = 40 + $game % 10;
$pays = array_fill(0, 7, 0.0);
for ($week = 0; $week < 1040; $week++) {
    for ($right = 0; $right <= 6; $right++) {
        $chance = 1.0;
        for ($i = 0; $i < 6; $i++) {
            $chance *= $i < $right ? (6 - $i) / ($balls - $i) : ($balls - 6 - $i + $right) / ($balls - $i);
        }
        $sold = 100000 + crc32("$game/$week/$right") % 90000;
        $pays[$right] += $sold * $chance / (1 + $right);
    }
}
header("Cache-Control: public, max-age=300");
header("Vary: User-Agent");
$mobile = str_contains($_SERVER["HTTP_USER_AGENT"], "Mobile");
echo $mobile ? "<ul>" : "<table>";
foreach ($pays as $right => $sum) {
    printf($mobile ? "<li>%d: %.2f" : "<tr><td>%d<td>%.2f", $right, $sum);
}
"""
PLAYERS = """
local player = 0
local systems = { "Windows NT 10.0", "X11; Linux x86_64", "Macintosh; Intel Mac OS X 10_15_7", "Linux; Android 13; Pixel 7" }
request = function()
  player = player + 1
  local mobile = player % 4 == 3 and " Mobile" or ""
  local version = string.format("%d.0.%d.%d", 100 + player % 23, 4000 + player * 7 % 2503, player * 11 % 211)
  local agent = "Mozilla/5.0 (" .. systems[player % 4 + 1] .. ") Chrome/" .. version .. mobile .. " Safari/537.36"
  return wrk.format("GET", "/prizes/" .. player % 12, { ["User-Agent"] = agent })
end
"""


def prizes(place):
    port, pages = place.port(), php(place, PRIZES, 4)
    groups = """
sub vcl_recv {
  if (req.http.User-Agent ~ "Mobile") { set req.http.User-Agent = "Mobile"; } else { set req.http.User-Agent = "Desktop"; }
}
""" if place.fixed else ""
    rules = place.write("lottery.vcl", f'vcl 4.1;\nbackend pages {{ .host = "127.0.0.1"; .port = "{pages}"; }}\n{groups}')
    place.start("varnishd", "-F", "-j", "none", "-a", f"127.0.0.1:{port}", "-f", rules, "-n", place.folder / "varnish",
                "-s", "malloc,128m", port=port)
    load = wrk(f"http://127.0.0.1:{port}", 8, place.seconds)
    return [*load[:1], "-s", str(place.write("players.lua", PLAYERS)), *load[1:]]


def php_behind_haproxy(place, script, children, globals=""):
    """Starts php-fpm and haproxy, which talks FastCGI; returns the port of haproxy."""
    pool, front = place.port(), place.port()
    config = place.write("fpm.conf", f"""
[global]
daemonize = no
error_log = {place.folder}/fpm.log
[tickets]
user = root
group = root
listen = 127.0.0.1:{pool}
pm = static
pm.max_children = {children}
""")
    place.start(PHP_FPM, "-n", "-R", "-F", "-y", config, port=pool)
    place.write("ticket.php", script)
    config = place.write("haproxy.cfg", f"""
global
    {globals}
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend tickets
    bind 127.0.0.1:{front}
    http-request set-path /ticket.php
    default_backend pages
backend pages
    use-fcgi-app tickets
    server pool 127.0.0.1:{pool} proto fcgi
fcgi-app tickets
    docroot {place.folder}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return front


# A ticket is sold: its number is sealed with the key of the shop.
SALE = """<?php
$numbers = [];
while (count($numbers) < 6) {
    $numbers[random_int(1, 49)] = true;
}
ksort($numbers);
$row = implode(" ", array_keys($numbers));
echo $row, " ", hash_pbkdf2("sha256", $row, "shop 1177", 2500, 40), "\\n";
"""


def sale(place):
    options = "nbthread 4" if place.fixed else "nbthread 4\n    busy-polling"
    front = php_behind_haproxy(place, SALE, 2, options)
    return wrk(f"http://127.0.0.1:{front}/", 4, place.seconds)


# Stamps the tickets of a shop, each line with a hash. There is a process for each shop.
STAMPER = r"""
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void *module;
static void (*hash_buffer)(int, void *, const void *, size_t);

static void enter(void) {
    module = dlopen("libgcrypt.so.20", RTLD_NOW);
    if (!module)
        exit(1);
    const char *(*check_version)(const char *) = dlsym(module, "gcry_check_version");
    hash_buffer = dlsym(module, "gcry_md_hash_buffer");
    check_version(0);
}

static void serve(int link) {
    FILE *tickets = fdopen(link, "r");
    char line[300], stamp[80];
    unsigned char digest[32];
    while (fgets(line, sizeof line, tickets)) {
        if (!module)
            enter();
        hash_buffer(8, digest, line, strlen(line));
        for (int i = 0; i < 32; i++)
            sprintf(stamp + 2 * i, "%02x", digest[i]);
        stamp[64] = '\n';
        if (EACH) {
            dlclose(module);
            module = 0;
        }
        if (write(link, stamp, 65) < 0)
            break;
    }
}

int main(int count, char **words) {
    int server = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[count - 1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(server, (struct sockaddr *)&address, sizeof address) || listen(server, 64))
        return 1;
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int link = accept(server, 0, 0);
        setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        if (!fork()) {
            close(server);
            serve(link);
            return 0;
        }
        close(link);
    }
}
"""
SHOPS = """
package main

import ("bufio"; "fmt"; "net"; "os"; "strconv"; "sync"; "sync/atomic"; "time")

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	var all sync.WaitGroup
	var sold atomic.Int64
	begin := time.Now()
	end := begin.Add(time.Duration(seconds * 1e9))
	for shop := 0; shop < 3; shop++ {
		all.Add(1)
		go func() {
			defer all.Done()
			link, err := net.Dial("tcp", "127.0.0.1:" + os.Args[1])
			if err != nil {
				panic(err)
			}
			stamps := bufio.NewReader(link)
			for ticket := shop; time.Now().Before(end); ticket += 3 {
				fmt.Fprintf(link, "shop %d ticket %08d row %d %d %d\\n", shop, ticket, ticket % 49, ticket * 7 % 49, ticket * 11 % 49)
				if _, err := stamps.ReadString('\\n'); err != nil {
					panic(err)
				}
				sold.Add(1)
			}
		}()
	}
	all.Wait()
	fmt.Printf("items %d seconds %.3f\\n", sold.Load(), time.Since(begin).Seconds())
}
"""


def stamps(place):
    port = place.port()
    place.start(place.c("stamper", STAMPER, f"-DEACH={int(not place.fixed)}", "-ldl"), port, port=port)
    return [str(place.go("shops", SHOPS)), str(port), str(place.seconds)]


# A prize is paid after the central register has confirmed the winner. The page lets only as many
# processes to the register as it has counters.
PAYOUT = """<?php
$counters = sem_get(KEY COUNTERS);
$ticket = random_int(1, 1 << 40);
sem_acquire($counters);
$link = stream_socket_client("tcp://127.0.0.1:REGISTER", $number, $text, 5, STREAM_CLIENT_CONNECT | STREAM_CLIENT_PERSISTENT);
fwrite($link, "winner $ticket\\n");
$answer = fgets($link);
sem_release($counters);
echo "ticket $ticket: $answer";
"""
REGISTER = """
package main

import ("bufio"; "fmt"; "net"; "os"; "strconv"; "time")

func main() {
	pause, _ := strconv.ParseFloat(os.Args[2], 64)
	server, err := net.Listen("tcp", "127.0.0.1:" + os.Args[1])
	if err != nil {
		panic(err)
	}
	for {
		link, err := server.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			defer link.Close()
			for lines := bufio.NewScanner(link); lines.Scan(); {
				time.Sleep(time.Duration(pause * 1e9))
				fmt.Fprintf(link, "confirmed, %d letters\\n", len(lines.Text()))
			}
		}()
	}
}
"""


def payout(place):
    register, key = place.port(), 0x10770000 + place.port()
    # The semaphore outlives php-fpm, and is removed after it has ended.
    place.stack.callback(place.run, "sh", "-c", f"ipcrm -S {key} 2>&1 || true", cwd="/")
    place.start(place.go("register", REGISTER), register, 0.010 * place.scale, port=register)
    page = PAYOUT.replace("KEY", str(key)).replace(" COUNTERS", ", 8" if place.fixed else "").replace("REGISTER", str(register))
    front = php(place, page, 8, settings="php_admin_value[extension] = sysvsem.so")
    return wrk(f"http://127.0.0.1:{front}/payout", 8, place.seconds)


# The central counts the tickets of all tills, which come over one connection.
CENTRAL = r"""
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static unsigned sold[1000];

int main(int count, char **words) {
    int server = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[count - 1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(server, (struct sockaddr *)&address, sizeof address) || listen(server, 64))
        return 1;
    for (;;) {
        int link = accept(server, 0, 0);
        setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        FILE *lines = fdopen(link, "r");
        char line[200], answer[80];
        unsigned till, ticket;
        while (fgets(line, sizeof line, lines)) {
            if (sscanf(line, "%u %u", &till, &ticket) != 2)
                continue;
            int size = snprintf(answer, sizeof answer, "%u accepted %u as %u\n", till, ticket, ++sold[till % 1000]);
            if (write(link, answer, size) < 0)
                break;
        }
        fclose(lines);
    }
}
"""
# Has one connection to the central for all tills.
RELAY = """
package main

import ("bufio"; "fmt"; "net"; "os"; "strconv"; "strings"; "sync"; "time")

func main() {
	interval, _ := strconv.ParseFloat(os.Args[3], 64)
	central, err := net.Dial("tcp", "127.0.0.1:" + os.Args[2])
	if err != nil {
		panic(err)
	}
	server, err := net.Listen("tcp", "127.0.0.1:" + os.Args[1])
	if err != nil {
		panic(err)
	}
	var mutex sync.Mutex
	tills := map[string]net.Conn{}
	out := bufio.NewWriterSize(central, 16384)
	if interval > 0 {
		go func() {
			for range time.Tick(time.Duration(interval * 1e9)) {
				mutex.Lock()
				out.Flush()
				mutex.Unlock()
			}
		}()
	}
	go func() {
		for lines := bufio.NewScanner(central); lines.Scan(); {
			till, text, _ := strings.Cut(lines.Text(), " ")
			mutex.Lock()
			link := tills[till]
			mutex.Unlock()
			if link != nil {
				fmt.Fprintln(link, text)
			}
		}
		os.Exit(1)
	}()
	for number := 1; ; number++ {
		link, err := server.Accept()
		if err != nil {
			panic(err)
		}
		till := strconv.Itoa(number)
		mutex.Lock()
		tills[till] = link
		mutex.Unlock()
		go func() {
			for lines := bufio.NewScanner(link); lines.Scan(); {
				mutex.Lock()
				fmt.Fprintln(out, till, lines.Text())
				if interval == 0 {
					out.Flush()
				}
				mutex.Unlock()
			}
			mutex.Lock()
			delete(tills, till)
			mutex.Unlock()
			link.Close()
		}()
	}
}
"""
# Each till is a thread, which sells the next ticket when the last one is accepted.
TILLS = r"""
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int port;
static double end;

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static void *sell(void *first) {
    int link = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(link, (struct sockaddr *)&address, sizeof address))
        exit(1);
    char text[200];
    long sold = 0;
    while (now() < end) {
        int size = snprintf(text, sizeof text, "%ld 3 17 21 28 40 49\n", (long)first * 1000000 + sold);
        if (write(link, text, size) < 0 || read(link, text, sizeof text) <= 0)
            exit(2);
        sold++;
    }
    close(link);
    return (void *)sold;
}

int main(int count, char **words) {
    pthread_t tills[8];
    long sold = 0;
    port = atoi(words[1]);
    double begin = now();
    end = begin + atof(words[count - 1]);
    for (long i = 0; i < 8; i++)
        pthread_create(&tills[i], 0, sell, (void *)i);
    for (int i = 0; i < 8; i++) {
        void *of_till;
        pthread_join(tills[i], &of_till);
        sold += (long)of_till;
    }
    printf("items %ld seconds %.3f\n", sold, now() - begin);
}
"""


def relayed(place):
    central, relay = place.port(), place.port()
    place.start(place.c("central", CENTRAL), central, port=central)
    # The central serves one connection after the other; that of `start` has been closed again.
    place.start(place.go("relay", RELAY), relay, central, 0.025 * place.fault, port=relay)
    return [str(place.c("tills", TILLS)), str(relay), str(place.seconds)]


# Control: tickets are checked, with a hash for each of many rounds, by as many processes as there
# are CPUs.
CHECK = """<?php
$number = (int) ltrim(strrchr($_SERVER["REQUEST_URI"], "/"), "/");
$store = stream_socket_client("tcp://127.0.0.1:STORE", $problem, $text, 5, STREAM_CLIENT_CONNECT | STREAM_CLIENT_PERSISTENT);
fwrite($store, "get ticket" . $number % 500 . "\\r\\n");
$head = explode(" ", fgets($store));
$row = isset($head[3]) ? fgets($store) . fgets($store) : "";
for ($round = 0; $round < 3000; $round++) {
    $row = hash("sha256", $row . $round);
}
echo "ticket $number: $row\\n";
"""
CHECKERS = """
local ticket = 0
request = function()
  ticket = ticket + 1
  return wrk.format("GET", "/check/" .. ticket)
end
"""


def memcached(place, values):
    """Starts memcached with these values; returns its port."""
    port = place.port()
    place.start("memcached", "-u", "root", "-l", "127.0.0.1", "-p", port, "-t", "1", "-U", "0", port=port)
    with socket.create_connection(("127.0.0.1", port)) as store:
        store.sendall("".join(f"set {key} 0 0 {len(value)}\r\n{value}\r\n" for key, value in values.items()).encode())
        answers = store.makefile()
        for _ in values:
            answers.readline()
    return port


def checks(place):
    store = memcached(place, {f"ticket{i}": f"03 11 20 33 41 {i % 49:02}" for i in range(500)})
    pages = php(place, CHECK.replace("STORE", str(store)), 2)
    front = nginx(place, "location / { proxy_pass http://pages; proxy_http_version 1.1; proxy_set_header Connection \"\"; }",
                  f"upstream pages {{ server 127.0.0.1:{pages}; keepalive 16; }}", name="outer")
    load = wrk(f"http://127.0.0.1:{front}", 6, place.seconds)
    return [*load[:1], "-s", str(place.write("checkers.lua", CHECKERS)), *load[1:]]


# Control: at each kiosk somebody looks at the jackpot, thinks, and looks again.
JACKPOT = """<?php
$store = stream_socket_client("tcp://127.0.0.1:STORE", $problem, $text, 5, STREAM_CLIENT_CONNECT | STREAM_CLIENT_PERSISTENT);
fwrite($store, "incr jackpot 25\\r\\n");
echo "jackpot: ", trim(fgets($store)), " cents\\n";
"""
KIOSKS = r"""
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int port;
static double end;

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static void *look(void *number) {
    int link = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(link, (struct sockaddr *)&address, sizeof address))
        exit(1);
    unsigned state = 7919 * ((long)number + 1);
    static const char question[] = "GET /jackpot HTTP/1.1\r\nHost: lottery\r\n\r\n";
    long looks = 0;
    while (now() < end) {
        struct timespec think = {.tv_nsec = 40000000 + (state = state * 1103515245 + 12345) / 65536 % 1000 * 60000};
        nanosleep(&think, 0);
        char page[4000];
        size_t size = 0;
        if (write(link, question, sizeof question - 1) < 0)
            exit(2);
        do {
            ssize_t got = read(link, page + size, sizeof page - 1 - size);
            if (got <= 0)
                exit(2);
            page[size += got] = 0;
        } while (!strstr(page, "cents\n"));
        looks++;
    }
    close(link);
    return (void *)looks;
}

int main(int count, char **words) {
    pthread_t kiosks[6];
    long looks = 0;
    port = atoi(words[1]);
    double begin = now();
    end = begin + atof(words[count - 1]);
    for (long i = 0; i < 6; i++)
        pthread_create(&kiosks[i], 0, look, (void *)i);
    for (int i = 0; i < 6; i++) {
        void *of_kiosk;
        pthread_join(kiosks[i], &of_kiosk);
        looks += (long)of_kiosk;
    }
    printf("items %ld seconds %.3f\n", looks, now() - begin);
}
"""


def kiosks(place):
    store = memcached(place, {"jackpot": "4500000"})
    front = php_behind_haproxy(place, JACKPOT.replace("STORE", str(store)), 4, "nbthread 1")
    return [str(place.c("kiosks", KIOSKS)), str(front), str(place.seconds)]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="lottery_prizes_for_each_browser",
        kind="vary-fragments-cache",
        truth="php-fpm computes the same pages of 12 games again and again, because they have the "
              "header Vary: User-Agent, so that varnish keeps a copy for each version of a browser "
              "and hardly ever has the right one",
        load=prizes,
        rate=WRK,
        component=(r"php", r"varnish", r"cache-(worker|main)"),
        mechanism=(r"comput", r"\buser\b", r"runs its own code", r"[Cc]ache", r"\bmiss", r"\b[Vv]ar(y|ies|iants?)\b"),
        never=(*DISK, r"(php\S*|varnishd?|nginx|wrk) (\([^)]*\) )?sleeps",
               r"(nginx|wrk) (\([^)]*\) )?(computes|runs its own code)"),
        needs=("varnishd", "nginx", f"/usr/sbin/{PHP_FPM}", "gcc", "wrk"),
    ),
    System(
        name="lottery_proxy_never_rests",
        kind="busy-polling-proxy",
        truth="the four threads of haproxy ask epoll_wait again and again without a pause "
              "(busy-polling), and so take most of both CPUs from php-fpm, which computes the seals "
              "of the tickets and waits for a CPU",
        load=sale,
        rate=WRK,
        component=(r"haproxy",),
        mechanism=(r"\bCPUs?\b", r"comput", r"\buser\b", r"kernel", r"\bruns?\b", r"\bpoll", r"epoll", r"\bspins?\b",
                   r"spinning", r"\bbusy", r"preempt"),
        never=(*DISK, r"(haproxy|php\S*|wrk) (\([^)]*\) )?sleeps"),
        needs=("haproxy", f"/usr/sbin/{PHP_FPM}", "wrk"),
    ),
    System(
        name="lottery_module_for_each_stamp",
        kind="library-loaded-per-item",
        truth="the processes of stamper load libgcrypt, look up its symbols and unload it again for "
              "each ticket (dlopen, dlclose), which takes far longer than the hash",
        load=stamps,
        rate=ITEMS,
        component=(r"stamper",),
        mechanism=(r"\bdl_?(open|close|sym|lookup|map|reloc)", r"_dl_", r"do_lookup", r"\bld(-linux|\.so|\b)", r"gcry",
                   r"librar(y|ies)", r"\bm(un)?map\b", r"\bmprotect\b", r"\bopen(at|s|ed|ing)?\b", r"page faults?", r"faults",
                   r"\bload(s|ed|ing)?\b(?! generator)", r"symbols?", r"relocat", r"dynamic link"),
        never=(*DISK, r"(stamper|shops) (\([^)]*\) )?sleeps", r"shops (\([^)]*\) )?(computes|runs its own code)"),
        needs=("gcc", "go"),
    ),
    System(
        name="lottery_payout_at_one_counter",
        kind="semaphore-of-one",
        truth="the workers of php-fpm wait for a semaphore (sem_get without a maximum lets in one "
              "process), which one of them holds while it waits 10 ms for the reply of register, so "
              "that prizes are paid one at a time",
        load=payout,
        rate=WRK,
        component=(r"php", r"\bsem(aphores?|op|timedop)?\b"),
        mechanism=(*LOCKS, r"sem(aphore|op|timedop|_acquire|_get)", r"\bsem\b", r"one after (another|the other)", r"serial",
                   r"takes? turns", r"in turn\b"),
        never=(*DISK, r"(php\S*|register|nginx) (\([^)]*\) )?(computes|runs its own code)"),
        change="x0.125",
        halves=True,
        needs=("nginx", f"/usr/sbin/{PHP_FPM}", "go", "ipcrm", "wrk"),
    ),
    System(
        name="lottery_relay_flushes_by_the_clock",
        kind="flush-interval",
        truth="relay, in Go, keeps the tickets of all tills in a buffer, which it sends to central "
              "only each 25 ms, by a timer, while each till waits for its ticket to be accepted",
        load=relayed,
        rate=ITEMS,
        component=(r"\brelay\b",),
        mechanism=(*SLEEPS, r"\btick", r"[Ff]lush", r"interval", r"period", r"\bbatch", r"time-?out", r"every \d",
                   r"each \d", r"\bpauses?\b"),
        never=(*DISK, *LOCKS[:2], r"delayed ACK", r"Nagle", r"(relay|central|tills) (\([^)]*\) )?(computes|runs its own code)",
               r"(central|tills) (\([^)]*\) )?sleeps"),
        halves=True,
        needs=("gcc", "go"),
    ),
    System(
        name="control_lottery_checks",
        kind="control",
        truth="two processes of php-fpm, as many as CPUs, compute the checks of tickets that wrk "
              "asks two nginx for, each with a row from memcached, and both CPUs are full",
        load=checks,
        rate=WRK,
        acceptable=(*NOTHING, rf"(php|nginx|wrk).*{COMPUTES}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs", r"load generator"),
        needs=("nginx", f"/usr/sbin/{PHP_FPM}", "memcached", "wrk"),
    ),
    System(
        name="control_lottery_kiosks",
        kind="control",
        truth="six kiosks, in C, each look at the jackpot, think 40 to 100 ms by intention, and look "
              "again; haproxy, php-fpm and memcached answer within a few ms and are idle most of "
              "the time",
        load=kiosks,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by kiosks", r"\bkiosks\b.*(sleep|timer|until a time|clock|paced|think|paus)",
                    r"\bidle\b", r"load generator"),
        needs=("haproxy", f"/usr/sbin/{PHP_FPM}", "memcached", "gcc"),
    ),
]
