"""Front doors of a shop: a gateway that copies requests to a ledger, and pages with settings of their own."""
from services import nginx
from system import COMPUTES, PYTHON, SLEEPS, WRK, System, wrk

TILL = """
package main

import ("crypto/sha256"; "fmt"; "net/http"; "os")

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.Sum256([]byte(r.URL.Path))
		for i := 0; i < 2000; i++ { sum = sha256.Sum256(sum[:]) }
		fmt.Fprintf(w, "%x\\n", sum)
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""

LEDGER = """#!/usr/bin/python3
# usage: ledger PORT PAUSE: writes down which pages were asked for.
import sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

pages, pause = {}, float(sys.argv[2])

class Entry(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        pages[self.path] = pages.get(self.path, 0) + 1
        if pause:
            time.sleep(pause)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *words):
        pass

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Entry).serve_forever()
"""


def copied_requests(place):
    till, ledger = place.port(), place.port()
    place.start(place.go("till", TILL), till, port=till)
    place.start(place.write("ledger", LEDGER), ledger, 0.02 * place.fault, port=ledger)
    port = nginx(place, """
location / { mirror /entry; proxy_pass http://till; proxy_http_version 1.1; proxy_set_header Connection ""; }
location = /entry { internal; proxy_pass http://ledger$request_uri; proxy_http_version 1.1; proxy_set_header Connection ""; }
""", http=f"upstream till {{ server 127.0.0.1:{till}; keepalive 16; }} upstream ledger {{ server 127.0.0.1:{ledger}; keepalive 16; }}")
    return wrk(f"http://127.0.0.1:{port}/basket", 4, place.seconds)


def moved_pages(place):
    port, folder, modules = place.port(), place.folder, "/usr/lib/apache2/modules"
    shelf = folder / "pages/books/history/maps/europe"
    shelf.mkdir(parents=True)
    (shelf / "index.html").write_text("closed on Mondays\n")
    for depth, home in enumerate(list(shelf.parents)[:3]):
        (home / ".htaccess").write_text("".join(f"Redirect /former/{depth}/{number}.html /books/{number}.html\n" for number in range(200)))
    config = place.write("apache.conf", f"""
ServerRoot {folder}
PidFile {folder}/apache.pid
ServerName localhost
Listen 127.0.0.1:{port}
ErrorLog {folder}/error.log
DefaultRuntimeDir {folder}
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule alias_module {modules}/mod_alias.so
StartServers 1
ServerLimit 1
ThreadsPerChild 16
ThreadLimit 16
MaxRequestWorkers 16
MaxKeepAliveRequests 0
DocumentRoot {folder}/pages
<Directory {folder}/pages>
AllowOverride {'None' if place.fixed else 'All'}
</Directory>
""")
    place.start("apache2", "-X", "-f", config, port=port)
    return wrk(f"http://127.0.0.1:{port}/books/history/maps/europe/index.html", 8, place.seconds)


SYSTEMS = [
    System(
        name="nginx_copied_requests",
        kind="mirrored-requests",
        truth="nginx sends a copy of each request to ledger, which sleeps 20 ms before it answers; "
              "nginx takes the next request of a connection only when the copy is answered",
        load=copied_requests,
        rate=WRK,
        component=(r"ledger", r"python"),
        mechanism=SLEEPS,
        never=(r"(wrk|till|nginx) (comput|sleeps)", r"ledger comput", r"\bdisk\b"),
        change="x0",
        halves=True,
        running=True,
        needs=("nginx", "go", "wrk", PYTHON),
    ),
    System(
        name="apache_settings_in_folders",
        kind="per-directory-settings",
        truth="apache2 opens and parses the .htaccess files of all folders above a page anew for each request",
        load=moved_pages,
        rate=WRK,
        component=(r"apache", r"httpd", r"port \d+"),
        mechanism=(*COMPUTES, r"\bcpu", r"\bruns\b", r"htaccess", r"\bfiles?\b", r"\bopens?\b", r"\bpars",
                   r"\breads?\b", r"director(y|ies)", r"folders", r"configuration"),
        never=(r"wrk (comput|sleep)", r"apache2? sleeps", r"\bdisk\b"),
        needs=("apache2", "wrk"),
    ),
]
