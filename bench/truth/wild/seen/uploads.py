"""curl that waits for permission to send, and PHP that compiles its files for each request."""
from services import PHP_FPM, nginx
from system import COMPUTES, ITEMS, PYTHON, SLEEPS, WRK, System, wrk

# HTTP 1.0, which has no "100 Continue".
INGEST = """
import hashlib, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_PUT(self):
        data = self.rfile.read(int(self.headers["Content-Length"]))
        with open("stored", "wb") as stored:
            stored.write(hashlib.sha256(data).digest() + data)
        self.wfile.write(b"HTTP/1.0 200 OK\\r\\nContent-Length: 7\\r\\n\\r\\nstored\\n")
    def log_message(self, *_):
        pass

HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""

PAGE = """<?php
for ($i = 0; $i < COUNT; $i++)
    require __DIR__ . "/model-$i.php";
echo model_0(7), "\\n";
"""


def expect_continue(place):
    port = place.port()
    place.start(PYTHON, place.write("ingest.py", INGEST), port, port=port)
    (place.folder / "photo").write_bytes(b"0123456789abcdef" * 2 ** 16)
    how = "-H Expect:" if place.fixed else f"-H 'Expect: 100-continue' --expect100-timeout {0.4 * place.fault}"
    # The number of uploads that takes about 4 s.
    count = {1: 9, 0.5: 18}.get(place.fault, 120)
    script = place.write("uploads.sh", f"for i in $(seq {count}); do curl -s -S -o /dev/null {how} -T photo http://127.0.0.1:{port}/photo-$i || exit; done\n")
    return ["bash", "-c", f"begin=$(date +%s.%N); bash {script}; echo items {count} seconds $(perl -e \"print $(date +%s.%N) - $begin\")"]


def files_compiled(place):
    """Half of the fault is half of the files. Without the fault all compiled files are kept."""
    count = int(80 * place.scale)
    for at in range(count):
        methods = "".join(f"  public function m{n}($a) {{ if ($a > {n}) {{ return [$a, 'k{n}' => $a + {n}]; }} foreach ([1, 2, {n}] as $v) {{ $a += $v; }} return $a; }}\n" for n in range(40))
        place.write(f"model-{at}.php", f"<?php\nclass Model{at} {{\n{methods}}}\nfunction model_{at}($a) {{ return (new Model{at})->m3($a) + {at}; }}\n")
    page, port = place.write("page.php", PAGE.replace("COUNT", str(count))), place.port()
    config = place.write("fpm.conf", f"[global]\ndaemonize = no\nerror_log = {place.folder}/fpm.log\n[www]\nuser = root\ngroup = root\n"
                         f"listen = 127.0.0.1:{port}\npm = static\npm.max_children = 2\n")
    place.start(PHP_FPM, "-n", "-R", "-F", "-d", "zend_extension=opcache", "-d", f"opcache.enable={int(place.fixed)}", "-d", "opcache.file_update_protection=0",
                "-y", config, port=port)
    front = nginx(place, f"location / {{ include /etc/nginx/fastcgi_params; fastcgi_pass 127.0.0.1:{port}; fastcgi_param SCRIPT_FILENAME {page}; }}")
    return wrk(f"http://127.0.0.1:{front}/", 4, place.seconds)


SYSTEMS = [
    System(
        name="curl_expect_continue",
        kind="expect-continue",
        truth="curl waits 0.4 s in each upload for \"100 Continue\", which ingest never sends",
        load=expect_continue,
        rate=ITEMS,
        component=(r"curl",),
        mechanism=(*SLEEPS, r"timeout", r"100.continue"),
        never=(r"ingest\S* (sleep|comput)", r"\bdisk\b"),
        change="x0",
        halves=True,
        needs=("curl", "bash", "perl", PYTHON),
    ),
    System(
        name="php_files_compiled",
        kind="no-opcode-cache",
        truth="php-fpm compiles 80 files again for each request, because its cache of compiled files is off",
        load=files_compiled,
        rate=WRK,
        component=(r"php",),
        mechanism=(*COMPUTES, r"compil", r"opcache"),
        never=(r"nginx (comput|sleep)", r"wrk (comput|sleep)", r"\bdisk\b"),
        halves=True,
        needs=(PHP_FPM, "nginx", "wrk"),
    ),
]
