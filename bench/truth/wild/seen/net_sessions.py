"""Sessions of servers: pauses after a login, ident, tiny TLS records, small windows; and healthy
sessions.
"""
import os

from services import nginx, private_network
from system import COMPUTES, ITEMS, SLEEPS, System, number

LOGINS = """#!/usr/bin/python3
import ftplib, sys, time

begin = time.monotonic()
for _ in range(int(sys.argv[2])):
    with ftplib.FTP() as session:
        session.connect("127.0.0.1", int(sys.argv[1]))
        session.login()
        session.voidcmd("NOOP")
print(f"items {sys.argv[2]} seconds {time.monotonic() - begin:.3f}")
"""

MAILCHECK = """#!/usr/bin/python3
import smtplib, sys, time

begin = time.monotonic()
for _ in range(int(sys.argv[2])):
    with smtplib.SMTP("127.0.0.1", int(sys.argv[1]), local_hostname="mailcheck.test") as session:
        session.ehlo()
print(f"items {sys.argv[2]} seconds {time.monotonic() - begin:.3f}")
"""

# A message of fixed length for each member, ten times per second, which is all there is.
TICKER = """#!/usr/bin/python3
import asyncio, sys
import websockets

async def feed(peer, path=None):
    while True:
        await peer.send("price 42")
        await asyncio.sleep(0.1)

async def main():
    async with websockets.serve(feed, "127.0.0.1", int(sys.argv[1])):
        await asyncio.Event().wait()

asyncio.run(main())
"""

BOARD = """#!/usr/bin/python3
import asyncio, sys, time
import websockets

async def main():
    begin, items = time.monotonic(), 0
    async with websockets.connect(f"ws://127.0.0.1:{sys.argv[1]}") as peer:
        while time.monotonic() - begin < float(sys.argv[2]):
            await peer.recv()
            items += 1
    print(f"items {items} seconds {time.monotonic() - begin:.3f}")

asyncio.run(main())
"""

LETTERS = r"""
package main

import ("crypto/sha256"; "fmt"; "net"; "os"; "strconv"; "time")

func sums(block []byte) {
	for i := 0; i < 40; i++ {
		sum := sha256.Sum256(block)
		copy(block, sum[:])
	}
}

/* Two desks: each has a thread that packs and a thread that unpacks, and both compute equally. */
func main() {
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	begin, done := time.Now(), make(chan int)
	for desk := 0; desk < 2; desk++ {
		listener, _ := net.Listen("tcp", "127.0.0.1:0")
		go func() {
			peer, _ := net.Dial("tcp", listener.Addr().String())
			block := make([]byte, 16384)
			for time.Since(begin).Seconds() < seconds {
				sums(block)
				peer.Write(block)
			}
			peer.Close()
		}()
		go func() {
			peer, _ := listener.Accept()
			block, items := make([]byte, 16384), 0
			for {
				for had := 0; had < len(block); {
					size, err := peer.Read(block[had:])
					if err != nil {
						done <- items
						return
					}
					had += size
				}
				sums(block)
				items++
			}
		}()
	}
	fmt.Printf("items %d seconds %.3f\n", <-done + <-done, time.Since(begin).Seconds())
}
"""


def login_pause(place):
    port = place.port()
    (place.folder / "empty").mkdir()
    (place.folder / "empty").chmod(0o555)
    config = place.write("vsftpd.conf", f"""
listen=YES
listen_address=127.0.0.1
listen_port={port}
background=NO
anonymous_enable=YES
local_enable=NO
no_anon_password=YES
ftp_username=bin
anon_root={place.folder}/empty
secure_chroot_dir={place.folder}/empty
seccomp_sandbox=NO
delay_successful_login={0 if place.fixed else 1}
""", mode=0o644)
    place.start("vsftpd", config, port=port)
    return [place.write("mirrorcheck", LOGINS), str(port), "60" if place.fixed else "4"]


def ident(place):
    """exim asks an ident port, whose packets are dropped, for the user of each connection."""
    port, folder = place.port(), place.folder
    drop = place.write("rules.nft", "table ip shield {\nchain input {\n"
                       "type filter hook input priority 0; policy accept;\n"
                       "tcp dport 113 drop\n}\n}\n")
    inside = private_network(place, f"nft -f {drop}")
    (folder / "spool").mkdir()
    (folder / "spool").chmod(0o777)
    config = place.write("exim.conf", f"""
primary_hostname = post.test
spool_directory = {folder}/spool
log_file_path = {folder}/spool/log-%s
daemon_smtp_ports = {port}
local_interfaces = 127.0.0.1
host_lookup =
keep_environment =
tls_advertise_hosts =
rfc1413_hosts = {'' if place.fixed else '*'}
rfc1413_query_timeout = 1s
acl_smtp_rcpt = check
begin acl
check:
  deny
""", mode=0o644)
    place.start(*inside, "exim4", "-C", config, "-bdf")
    place.run("sleep", "1")
    return [*inside, place.write("mailcheck", MAILCHECK), str(port), "16" if place.fixed else "4"]


def certificate(place):
    place.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
              "-nodes", "-subj", "/CN=shop", "-keyout", "key", "-out", "cert")
    return f"ssl_certificate {place.folder}/cert; ssl_certificate_key {place.folder}/key;"


def tls_site(place, settings, workers=1, http2=""):
    """nginx with TLS at a second port, which is returned."""
    port, keys = place.port(), certificate(place)
    nginx(place, "", workers=workers, http=f"""
  server {{ listen 127.0.0.1:{port} ssl {http2}; {keys} {settings} root {place.folder}; }}""")
    return port


def tiny_records(place):
    with open(place.folder / "film", "wb") as film:
        film.truncate(200 << 20)
    os.chmod(place.folder / "film", 0o644)
    port = tls_site(place, f"ssl_buffer_size {'16k' if place.fixed else 200};")
    return ["curl", "-skf", "-o", "/dev/null", f"https://127.0.0.1:{port}/film"]


H2LOAD = number(r"finished in [\d.]+m?s, ([\d.]+) req/s")


def small_window(place):
    """HTTP/2 with a window of 512 bytes per stream, which h2load must reopen repeatedly."""
    place.write("photo", "p" * 400_000)
    port = place.port()
    nginx(place, "", http=f"server {{ listen 127.0.0.1:{port} http2; root {place.folder}; }}")
    window = ["-w", "24", "-W", "24"] if place.fixed else ["-w", "9", "-W", "16"]
    return ["h2load", "-n", "2000" if place.fixed else "70", "-c", "1", "-m", "1", *window,
            f"http://127.0.0.1:{port}/photo"]


def busy_http2(place):
    place.write("page", "x" * 2000)
    port = tls_site(place, "keepalive_requests 100000000;", workers=2, http2="http2")
    return ["h2load", "-D", str(place.seconds), "-t", "2", "-c", "8", "-m", "10",
            f"https://127.0.0.1:{port}/page"]


def ticker(place):
    port = place.port()
    place.start(place.write("ticker", TICKER), port, port=port)
    return [place.write("board", BOARD), str(port), str(place.seconds)]


def desks(place):
    return [place.go("desks", LETTERS), str(place.seconds)]


SYSTEMS = [
    System(
        name="vsftpd_login_pause",
        kind="login-delay",
        truth="vsftpd sleeps a second after each successful login, because delay_successful_login says so",
        load=login_pause,
        rate=ITEMS,
        component=(r"vsftpd",),
        mechanism=SLEEPS,
        never=(r"comput", r"mirrorcheck sleep", r"\bdisk\b", r"\bdns\b", r"\block\b"),
        change="x0",
        needs=("vsftpd",),
    ),
    System(
        name="exim_ident_timeout",
        kind="ident-timeout",
        truth="exim4 connects to the ident port 113 of each client, whose packets the filter drops, and greets the client only when its timeout of a second ends",
        load=ident,
        rate=ITEMS,
        component=(r"exim", r"port 113\b", r"ident\b"),
        mechanism=(r"connect", r"time ?-?outs?", *SLEEPS, r"port 113\b", r"\bsyn\b", r"\bdrop", r"ident\b"),
        never=(r"comput", r"mailcheck sleep", r"\bdisk\b", r"\block\b"),
        change="x0",
        needs=("exim4", "nft"),
    ),
    System(
        name="nginx_tiny_tls_records",
        kind="tiny-tls-records",
        truth="nginx encrypts and sends 200 bytes of the film with each system call, because ssl_buffer_size is so small",
        load=tiny_records,
        component=(r"nginx",),
        mechanism=(*COMPUTES, r"kernel", r"system calls?", r"\bwrit", r"\bsend", r"\bcpu\b"),
        never=(r"sleep", r"\bdisk\b", r"curl comput", r"\block\b"),
        needs=("nginx", "curl", "openssl"),
    ),
    System(
        name="http2_small_window",
        kind="http2-flow-control-window",
        truth="nginx may send 512 bytes of a photo and waits for h2load to open the window of HTTP/2 again, so that both wait for each other",
        load=small_window,
        rate=H2LOAD,
        component=(r"nginx", r"h2load"),
        mechanism=(r"round trips?", r"wait(s|ing)? for (each other|one another|nginx|h2load|the other)", r"window", r"flow control", r"wake-?ups?", r"one (\w+ )?at a time", r"back and forth", r"turns?\b", r"kernel", r"system call", r"\bsend", r"\bwrit", r"in transit"),
        never=(r"sleep", r"\bdisk\b", r"\block\b", r"retransmi"),
        needs=("nginx", "h2load"),
    ),
    System(
        name="control_http2_pages",
        kind="control",
        truth="h2load asks two workers of nginx for small pages by HTTP/2 and TLS, and both CPUs are full",
        load=busy_http2,
        rate=H2LOAD,
        acceptable=(r"(nginx|h2load).*(comput|\bcpu\b|own code|kernel|system call)", r"cpus? (are|is) (full|busy)"),
        needs=("nginx", "h2load", "openssl"),
    ),
    System(
        name="control_websocket_ticker",
        kind="control",
        truth="ticker sends ten prices in a second by intention over a websocket, because there are no more, and both are idle most of the time",
        load=ticker,
        rate=ITEMS,
        acceptable=(r"ticker.*(sleep|timer|until a time|idle)", r"idle"),
    ),
    System(
        name="control_go_desks",
        kind="control",
        truth="two senders and two receivers of desks hash each block for the same time, and both CPUs are full",
        load=desks,
        rate=ITEMS,
        acceptable=(r"desks.*(comput|\bcpu\b|own code|kernel|system call)", r"cpus? (are|is) (full|busy)"),
        needs=("go",),
    ),
]
