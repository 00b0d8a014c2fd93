"""The web and mail services of a parish: notices, photographs, letters, members, and two healthy ones."""
import http.client
import os
import pwd

from services import nginx
from system import COMPUTES, ITEMS, LOCKS, PYTHON, SLEEPS, WRK, System, wrk

# A client whose visitors ask for the same new page at once, day for day. Each waits for the others
# before the next day. Arguments: address, visitors, seconds.
NOTICEBOARD = """
package main

import ("fmt"; "io"; "net/http"; "os"; "strconv"; "sync"; "time")

func main() {
	visitors, _ := strconv.Atoi(os.Args[2])
	seconds, _ := strconv.ParseFloat(os.Args[3], 64)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: visitors}}
	begin, days := time.Now(), 0
	for time.Since(begin).Seconds() < seconds {
		var all sync.WaitGroup
		for i := 0; i < visitors; i++ {
			all.Add(1)
			go func() {
				defer all.Done()
				answer, err := client.Get(fmt.Sprintf("%s/day/%d", os.Args[1], days))
				if err != nil {
					panic(err)
				}
				io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}()
		}
		all.Wait()
		days++
	}
	fmt.Printf("items %d seconds %.3f\\n", days, time.Since(begin).Seconds())
}
"""

CALENDAR = """
const http = require('http')
http.createServer((request, response) => {
  const services = []
  for (let i = 0; i < 1500; i++) services.push({ hour: i % 24, text: request.url + ' service ' + i })
  services.sort((a, b) => a.hour - b.hour)
  response.setHeader('Cache-Control', 'max-age=60')
  response.end(services.slice(0, 40).map(it => `<li>${it.hour}: ${it.text}</li>`).join('\\n'))
}).listen(Number(process.argv[2]), '127.0.0.1')
"""


def notices(place):
    port = place.port()
    place.start("node", place.write("calendar.js", CALENDAR), port, port=port)
    lock = "proxy_cache_lock off;" if place.fixed else f"proxy_cache_lock on; proxy_cache_lock_timeout {round(80 * place.fault)}ms;"
    front = nginx(place, f"""location / {{
        proxy_pass http://calendar; proxy_http_version 1.1; proxy_set_header Connection "";
        proxy_cache pages; proxy_cache_valid 200 1m; {lock} }}""",
        f"proxy_cache_path {place.folder}/pages levels=1:2 keys_zone=pages:8m; upstream calendar {{ server 127.0.0.1:{port}; keepalive 16; }}")
    return [place.go("noticeboard", NOTICEBOARD), f"http://127.0.0.1:{front}", "4", str(place.seconds)]


# Asks for each page once, one after the other. Arguments: port, pages.
CRAWLER = """
package main

import ("fmt"; "io"; "net/http"; "os"; "strconv"; "time")

func main() {
	pages, _ := strconv.Atoi(os.Args[2])
	begin := time.Now()
	for page := 0; page < pages; page++ {
		request, _ := http.NewRequest("GET", fmt.Sprintf("http://127.0.0.1:%s/notices/%d.html", os.Args[1], page), nil)
		request.Host = "www.parish.example"
		answer, err := http.DefaultClient.Do(request)
		if err != nil || answer.StatusCode != 200 {
			panic("no page")
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
	fmt.Printf("items %d seconds %.3f\\n", pages, time.Since(begin).Seconds())
}
"""

BAN_VCL = """
vcl 4.1;
backend origin {{ .host = "127.0.0.1"; .port = "{port}"; }}
sub vcl_recv {{
  if (req.method == "BAN") {{
    ban("req.http.host ~ ^(www|old)\\.parish\\.example$ && req.url ~ " + req.url);
    return (synth(200, "banned"));
  }}
}}
sub vcl_backend_response {{ set beresp.ttl = 1h; }}
"""
BANS, PAGES = 4000, 2400


def bans(place):
    origin = nginx(place, 'location / { default_type text/html; return 200 "a notice\\n"; }')
    port, home = place.port(), place.folder / "varnish"
    home.mkdir()
    home.chmod(0o755)
    place.start("varnishd", "-F", "-n", home, "-a", f"127.0.0.1:{port}", "-f", place.write("parish.vcl", BAN_VCL.format(port=origin)), "-s", "malloc,64m", port=port)
    setup = http.client.HTTPConnection("127.0.0.1", port)

    def ask(method, url):
        setup.request(method, url, headers={"Host": "www.parish.example"})
        answer = setup.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{method} {url}: {answer.status}")
    for page in range(PAGES):
        ask("GET", f"/notices/{page}.html")
    # The editor's pages of former years, which nobody has asked for: no ban matches a page.
    for ban in range(round(BANS * place.fault)):
        ask("BAN", f"/notices/(draft|print|archive)/.*/20{ban % 20:02}/{ban}.html")
    setup.close()
    return [place.go("crawler", CRAWLER), str(port), str(PAGES)]


# Sends photographs of eight pieces and sleeps before each but the first. Arguments: port, number of
# phones, pause.
PHONE = """
package main

import ("bufio"; "fmt"; "io"; "net"; "net/http"; "os"; "strconv"; "time")

func main() {
	phones, _ := strconv.Atoi(os.Args[2])
	pause, _ := time.ParseDuration(os.Args[3])
	for i := 0; i < phones; i++ {
		go func(phone int) {
			piece := make([]byte, 1024)
			for {
				line, err := net.Dial("tcp", "127.0.0.1:" + os.Args[1])
				if err != nil {
					panic(err)
				}
				fmt.Fprintf(line, "PUT /photos/%d.jpg HTTP/1.1\\r\\nHost: parish\\r\\nConnection: close\\r\\nContent-Length: 8192\\r\\n\\r\\n", phone)
				for n := 0; n < 8; n++ {
					if n > 0 {
						time.Sleep(pause)
					}
					line.Write(piece)
				}
				answer, err := http.ReadResponse(bufio.NewReader(line), nil)
				if err != nil || answer.StatusCode >= 300 {
					panic("not stored")
				}
				io.Copy(io.Discard, answer.Body)
				line.Close()
			}
		}(i)
	}
	select {}
}
"""

MODULES = "/usr/lib/apache2/modules"


def apache(place, modules, config):
    """Starts apache2; returns its port."""
    port = place.port()
    loads = "\n".join(f"LoadModule {name}_module {MODULES}/mod_{name}.so" for name in ("authz_core", *modules))
    path = place.write("apache.conf", f"""
ServerRoot {place.folder}
ServerName localhost
PidFile {place.folder}/apache.pid
DefaultRuntimeDir {place.folder}
ErrorLog {place.folder}/apache.error
User www-data
Group www-data
Listen 127.0.0.1:{port}
{loads}
{config}
""")
    place.start("apache2", "-f", path, "-DFOREGROUND", port=port)
    return port


def photos(place):
    pages, stored = place.folder / "pages", place.folder / "photos"
    pages.mkdir()
    (pages / "index.html").write_text("<h1>Parish</h1>\n" * 20)
    for folder in (stored, place.folder / "locks"):
        folder.mkdir()
        folder.chmod(0o777)
    back = apache(place, ("mpm_prefork", "alias", "dir", "mime", "dav", "dav_fs"), f"""
StartServers 4
MinSpareServers 4
MaxSpareServers 4
ServerLimit 4
MaxRequestWorkers 4
ListenBacklog 511
TypesConfig /etc/mime.types
DavLockDB {place.folder}/locks/dav
DocumentRoot {pages}
<Directory {pages}>
  Require all granted
</Directory>
Alias /photos {stored}
<Directory {stored}>
  Dav On
  Require all granted
</Directory>
""")
    buffering = "on" if place.fixed else "off"
    front = nginx(place, f"location / {{ proxy_pass http://127.0.0.1:{back}; proxy_http_version 1.1; proxy_request_buffering {buffering}; }}")
    place.start(place.go("phone", PHONE), front, 6, f"{round(20000 * place.scale)}us")
    return wrk(f"http://127.0.0.1:{front}/index.html", 4, place.seconds)


# A mail server that looks at each message for a while. Arguments: port, pause.
MAILHUB = """
package main

import ("bufio"; "fmt"; "net"; "os"; "strings"; "time")

func main() {
	pause, _ := time.ParseDuration(os.Args[2])
	door, err := net.Listen("tcp", "127.0.0.1:" + os.Args[1])
	if err != nil {
		panic(err)
	}
	for {
		line, err := door.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			defer line.Close()
			words, data := bufio.NewScanner(line), false
			fmt.Fprint(line, "220 mailhub ESMTP\\r\\n")
			for words.Scan() {
				word := strings.ToUpper(words.Text())
				switch {
				case data && word != ".":
				case data:
					data = false
					time.Sleep(pause)
					fmt.Fprint(line, "250 kept\\r\\n")
				case strings.HasPrefix(word, "DATA"):
					data = true
					fmt.Fprint(line, "354 go on\\r\\n")
				case strings.HasPrefix(word, "QUIT"):
					fmt.Fprint(line, "221 bye\\r\\n")
					return
				default:
					fmt.Fprint(line, "250 mailhub\\r\\n")
				}
			}
		}()
	}
}
"""

# Gives one letter after the other to exim4, as a nightly job does, and waits for its delivery.
# Arguments: configuration, recipients, seconds.
NEWSLETTER = """
import subprocess, sys, time

config, count, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
people = [f"member{i}@parish.example" for i in range(count)]
begin, letters = time.monotonic(), 0
while time.monotonic() - begin < seconds:
    text = f"From: office@parish.example\\nTo: members\\nSubject: letter {letters}\\n\\n" + "Dear all,\\n" * 20
    subprocess.run(["/usr/sbin/exim4", "-C", config, "-odf", "-oi", "-f", "office@parish.example", *people], input=text, text=True, check=True)
    letters += 1
print("items", letters, "seconds", time.monotonic() - begin)
"""


def letters(place):
    hub, user = place.port(), pwd.getpwnam("Debian-exim")
    place.start(place.go("mailhub", MAILHUB), hub, f"{round(40000 * place.scale)}us", port=hub)
    for name in ("spool", "log"):
        (place.folder / name).mkdir()
        os.chown(place.folder / name, user.pw_uid, user.pw_gid)
    config = place.write("exim.conf", f"""
primary_hostname = office.parish.example
spool_directory = {place.folder}/spool
log_file_path = {place.folder}/log/%slog
domainlist local_domains =
remote_max_parallel = 1
keep_environment =
disable_ipv6 = true
begin routers
hub:
  driver = manualroute
  transport = to_hub
  route_list = * 127.0.0.1 byname
  self = send
begin transports
to_hub:
  driver = smtp
  port = {hub}
  max_rcpt = {100 if place.fixed else 1}
  hosts_avoid_tls = *
begin retry
* * F,1h,1m
""", mode=0o644)
    return [PYTHON, place.write("newsletter.py", NEWSLETTER), config, "12", str(place.seconds)]


# Answers who a member is, after a while. Arguments: port, pause.
DIRECTORY = """
package main

import ("fmt"; "net/http"; "os"; "time")

func main() {
	pause, _ := time.ParseDuration(os.Args[2])
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(pause)
		fmt.Fprintf(w, "member of %s\\n", r.URL.Path)
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""

# The members' area. Two requests for the same member shall not ask the directory twice at once, so
# that the lookups under way are kept in a map. A member's number begins with that of the household,
# and its last ten bits are those of the person, who is mostly the first: 0.
# Arguments: port, port of the directory, "within" or "before" (where the directory is asked).
MEMBERS = """
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.URL;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;

public class Main {
    static final ConcurrentHashMap<Integer, byte[]> underway = new ConcurrentHashMap<>();
    static String directory;

    static byte[] fetch(Integer member) {
        try (var in = new URL(directory + member).openConnection().getInputStream()) {
            return in.readAllBytes();
        } catch (java.io.IOException error) {
            throw new RuntimeException(error);
        }
    }

    static byte[] within(Integer member) {
        byte[] page = underway.computeIfAbsent(member, Main::fetch);
        underway.remove(member);
        return page;
    }

    static byte[] before(Integer member) {
        byte[] page = underway.get(member);
        if (page == null) {
            page = fetch(member);
            underway.putIfAbsent(member, page);
            underway.remove(member);
        }
        return page;
    }

    public static void main(String[] words) throws Exception {
        directory = "http://127.0.0.1:" + words[1] + "/";
        boolean within = words[2].equals("within");
        var next = new AtomicInteger();
        var threads = new AtomicInteger();
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 511);
        server.setExecutor(Executors.newFixedThreadPool(12, work -> new Thread(work, "members-" + threads.incrementAndGet())));
        server.createContext("/", exchange -> {
            Integer member = next.incrementAndGet() % 60 * 1024;
            byte[] page = within ? within(member) : before(member);
            exchange.sendResponseHeaders(200, page.length);
            exchange.getResponseBody().write(page);
            exchange.close();
        });
        server.start();
    }
}
"""


def members(place):
    source, port, front = place.java(MEMBERS), place.port(), place.port()
    place.start(place.go("directory", DIRECTORY), port, f"{round(16000 * place.scale)}us", port=port)
    place.start("java", "-Xmx128m", "-XX:+UseSerialGC", "-Dhttp.maxConnections=16", "-Dsun.net.httpserver.nodelay=true", "-cp", source, "Main", front, port, "before" if place.fixed else "within", port=front)
    return wrk(f"http://127.0.0.1:{front}/", 12, place.seconds)


CHOIR = """
const http = require('http'), zlib = require('zlib')
let page = 0
http.createServer((request, response) => {
  const rows = []
  for (let i = 0; i < 400; i++) rows.push(`<tr><td>${++page}</td><td>psalm ${(page * 7919) % 150 + 1}, ${Math.sqrt(page).toFixed(4)}</td></tr>`)
  const body = zlib.gzipSync(rows.join('\\n'))
  response.setHeader('Content-Encoding', 'gzip')
  response.end(body)
}).listen(Number(process.argv[2]), '127.0.0.1')
"""


def choir(place):
    ports = [place.port() for _ in range(2)]
    script = place.write("choir.js", CHOIR)
    for port in ports:
        place.start("node", script, port, port=port)
    key, certificate = place.folder / "key.pem", place.folder / "certificate.pem"
    place.run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=parish", "-days", "9", "-keyout", key, "-out", certificate)
    pool = "\n".join(f"BalancerMember http://127.0.0.1:{port}" for port in ports)
    front = apache(place, ("mpm_event", "ssl", "proxy", "proxy_http", "proxy_balancer", "slotmem_shm", "lbmethod_bybusyness"), f"""
MaxKeepAliveRequests 0
SSLEngine on
SSLCertificateFile {certificate}
SSLCertificateKeyFile {key}
<Proxy balancer://choir>
{pool}
ProxySet lbmethod=bybusyness
</Proxy>
ProxyPass / balancer://choir/
""")
    return wrk(f"https://127.0.0.1:{front}/", 8, place.seconds)


POSTBOX = """
import socketserver, sys

class Line(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            with open("letters.spool", "ab") as spool:
                spool.write(line)
            self.wfile.write(b"250 kept\\n")

socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("127.0.0.1", int(sys.argv[1])), Line).serve_forever()
"""

# Counts the letters twice in a second.
ALMANAC = """
$| = 1;
while (1) {
    my $letters = 0;
    if (open my $spool, '<', 'letters.spool') { $letters++ while <$spool>; }
    print "$letters letters\\n";
    select undef, undef, undef, 0.5;
}
"""

# Has a reminder each 65 ms, sees in the hymnal what to write, and sends it. Arguments: port of the
# postbox, port of lighttpd, seconds.
HERALD = """
const net = require('net'), http = require('http')
const [box, web, seconds] = process.argv.slice(2).map(Number)
const line = net.connect(box, '127.0.0.1'), agent = new http.Agent({ keepAlive: true })
let kept = 0
const begin = Date.now()
line.setNoDelay(true)
line.on('data', () => kept++)
const clock = setInterval(() => {
  http.get({ port: web, host: '127.0.0.1', path: '/hymns.txt', agent }, answer => {
    let text = ''
    answer.on('data', piece => text += piece)
    answer.on('end', () => line.write('reminder: ' + text.slice(0, 30).replace(/\\n/g, ' ') + '\\n'))
  })
  if (Date.now() - begin > seconds * 1000) {
    clearInterval(clock)
    console.log('items', kept, 'seconds', (Date.now() - begin) / 1000)
    process.exit(0)
  }
}, 65)
"""


def reminders(place):
    box, web = place.port(), place.port()
    pages = place.folder / "pages"
    pages.mkdir()
    (pages / "hymns.txt").write_text("Now thank we all our God\n" * 40)
    config = place.write("lighttpd.conf", f"""
server.port = {web}
server.bind = "127.0.0.1"
server.document-root = "{pages}"
mimetype.assign = ( ".txt" => "text/plain" )
""")
    place.start("lighttpd", "-D", "-f", config, port=web)
    place.start(PYTHON, place.write("postbox.py", POSTBOX), box, port=box)
    place.start("perl", place.write("almanac.pl", ALMANAC))
    return ["node", place.write("herald.js", HERALD), str(box), str(web), str(place.seconds)]


SYSTEMS = [
    System(
        name="parish_notices_under_lock",
        kind="cache-lock-timer",
        truth="nginx lets one of four visitors fetch a new page and looks again for the three others only when its timer of 80 ms (proxy_cache_lock_timeout) ends, though node has answered within some ms",
        load=notices,
        rate=ITEMS,
        component=(r"nginx",),
        mechanism=(*SLEEPS, *LOCKS, r"time-?out", r"\btimed\b"),
        never=(r"\bdisk\b",),
        halves=True,
        needs=("nginx", "node", "go"),
    ),
    System(
        name="parish_bans_of_the_editor",
        kind="ban-list",
        truth="varnishd computes, because it compares each cached page that crawler asks for with 4000 bans of the editor, two regular expressions each, which no lurker can remove",
        load=bans,
        rate=ITEMS,
        component=(r"varnish", r"\bcache-(main|worker)"),
        mechanism=(*COMPUTES, r"CPUs? (are|is) full"),
        never=(r"\bdisk\b",),
        halves=True,
        needs=("varnishd", "nginx", "go"),
    ),
    System(
        name="parish_photos_hold_workers",
        kind="slow-clients-hold-workers",
        truth="six phones send photographs and sleep 20 ms between two pieces, and hold the four processes of apache2 meanwhile, because nginx passes on what it gets at once (proxy_request_buffering off)",
        load=photos,
        rate=WRK,
        component=(r"apache", r"phone"),
        mechanism=(*SLEEPS, r"\bworkers?\b", r"too few", r"\b(all|four|4|its|busy) (of its )?(processes|threads)\b"),
        never=(r"\bdisk\b",),
        halves=True,
        needs=("apache2", "nginx", "wrk", "go"),
    ),
    System(
        name="parish_letters_one_by_one",
        kind="transaction-per-recipient",
        truth="exim4 sends each letter to its twelve recipients in twelve transactions, one after the other (max_rcpt = 1), and mailhub sleeps 40 ms in each",
        load=letters,
        rate=ITEMS,
        component=(r"exim", r"mailhub"),
        mechanism=(*SLEEPS, r"one after (the other|another)", r"one (\w+ )?at a time", r"\bserial", r"in turn"),
        never=(r"\bdisk\b", r"fsync", r"\block\b"),
        halves=True,
        needs=("exim4", "go", PYTHON),
    ),
    System(
        name="parish_members_in_one_bin",
        kind="map-bin-lock",
        truth="of twelve threads of the members' area in java, one fetches a member from directory, which sleeps 16 ms, within computeIfAbsent, and holds the lock of the one bin that all members' numbers fall into",
        load=members,
        rate=WRK,
        component=(r"java", r"\bmembers\b", r"directory"),
        mechanism=(*LOCKS, r"monitor", r"each other", r"one after (the other|another)"),
        never=(r"\bdisk\b", r"garbage"),
        change="x0.083",
        halves=True,
        needs=("java", "javac", "wrk", "go"),
    ),
    System(
        name="control_parish_choir",
        kind="control",
        truth="two node render and compress pages for wrk behind the TLS and the balancer of apache2, and both CPUs are full",
        load=choir,
        rate=WRK,
        acceptable=(r"no bottleneck", r"CPUs? (are|is) (full|busy)", r"waits? for (a|the) CPUs?", r"\b(node|choir)\b.*(comput|runs its own code|\buser\b)"),
        needs=("apache2", "node", "wrk", "openssl"),
    ),
    System(
        name="control_parish_reminders",
        kind="control",
        truth="herald, in node, has a reminder each 65 ms by intention, sees in a page of lighttpd what to write and gives it to postbox in python, almanac in perl counts them twice in a second, and all are idle most of the time",
        load=reminders,
        rate=ITEMS,
        acceptable=(r"no bottleneck", r"\b(node|herald)\b.*(sleep|timer|until a time|\bpace)", r"\bidle\b"),
        needs=("lighttpd", "node", "perl", PYTHON),
    ),
]
