"""The computers of a faculty: five frequent faults of simulations, builds, logins and the server
for submissions, and two healthy parts of the same faculty.
"""
from services import nginx
from system import ITEMS, LOCKS, PYTHON, WRK, System, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# Follows photons through a slab until they leave it or are absorbed. rand() of the C library has
# one state for all threads, and a lock around it; rand_r has a state for each thread.
PHOTONS = r"""
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct share {
    pthread_t thread;
    unsigned seed;
    long photons, through, absorbed;
    double depth;
};

static double draw(struct share *share) {
#ifdef OWN_STATE
    return rand_r(&share->seed) / (RAND_MAX + 1.0);
#else
    (void)share;
    return rand() / (RAND_MAX + 1.0);
#endif
}

static void *follow(void *argument) {
    struct share *share = argument;
    for (long i = 0; i < share->photons; i++) {
        double depth = 0, direction = 1;
        for (;;) {
            depth += direction * -log(1 - draw(share));
            if (depth < 0)
                break;
            if (depth > 6) {
                share->through++;
                break;
            }
            if (draw(share) < 0.04) {
                share->absorbed++;
                share->depth += depth;
                break;
            }
            direction = 2 * draw(share) - 1;
        }
    }
    return NULL;
}

int main(int count, char **words) {
    static struct share shares[4];
    long photons = count > 1 ? atol(words[1]) : 100000, through = 0, absorbed = 0;
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    srand(2024);
    for (int i = 0; i < 4; i++) {
        shares[i].seed = 2024 + i;
        shares[i].photons = photons / 4;
        pthread_create(&shares[i].thread, NULL, follow, &shares[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(shares[i].thread, NULL);
        through += shares[i].through;
        absorbed += shares[i].absorbed;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("through %ld, absorbed %ld\n", through, absorbed);
    printf("items %ld seconds %.3f\n", photons, end.tv_sec - start.tv_sec + (end.tv_nsec - start.tv_nsec) / 1e9);
}
"""


def random_numbers(place):
    flags = ["-lm", "-DOWN_STATE"] if place.fixed else ["-lm"]
    return [str(place.c("photons", PHOTONS, *flags)), "4500000"]


# Integrates a model of a lake for many scenarios. The parameters are in a dictionary that belongs
# to the manager's process; a worker either asks for each of them in each step or copies all once.
LAKES = """#!/usr/bin/python3
import multiprocessing, sys, time

def scenario(job):
    number, steps, shared, copy = job
    parameters = shared.copy() if copy else shared
    algae, fish, nitrate = 1.0, 0.2, 4.0 + number % 7 / 10
    for step in range(steps):
        growth = parameters["growth"] * algae * nitrate / (parameters["half"] + nitrate)
        eaten = parameters["grazing"] * algae * fish
        for layer in range(40):
            light = 1 / (1 + 0.02 * layer * algae)
            growth += 0.001 * (light - 0.5) * algae
        algae += 0.01 * (growth - eaten)
        fish += 0.01 * (parameters["yield"] * eaten - parameters["death"] * fish)
        nitrate += 0.01 * (parameters["inflow"] - growth)
    return round(algae + fish + nitrate, 6)

if __name__ == "__main__":
    scenarios, steps, copy = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "copy"
    start = time.monotonic()
    with multiprocessing.Manager() as manager, multiprocessing.Pool(4) as pool:
        shared = manager.dict(growth=0.9, half=1.4, grazing=0.6, death=0.3, inflow=0.5)
        shared["yield"] = 0.4
        jobs = [(number, steps, shared, copy) for number in range(scenarios)]
        total = sum(pool.imap_unordered(scenario, jobs))
    print(f"total {total:.3f}")
    print(f"items {scenarios} seconds {time.monotonic() - start:.3f}")
"""


def shared_parameters(place):
    return [str(place.write("lakes", LAKES)), "90", "260", "copy" if place.fixed else "shared"]


# Copies the results of the nodes with rsync over ssh, some nodes at a time. The server writes the
# names of its clients into its log (UseDNS), and asks the servers in its resolv.conf in turn. The
# first of these was retired; its address accepts packets and does not answer.
COLLECT = """#!/bin/bash
seq 1 "$1" | xargs -P 8 -I% rsync -a -e "ssh -F ssh.conf" node%:/srv/results/ collected/%/ || exit 1
cat collected/*/run.csv | sort -n -k2 -t, | tail -1
"""
RETIRED = """
import socket, sys, time
old = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
old.bind((sys.argv[1], 53))
open("retired-ready", "w").close()
while True:
    time.sleep(3600)
"""


def logins(place):
    port, folder = place.port(), place.folder
    # Port 53 is fixed, so the other port makes the addresses of this run unique.
    old, new = (f"127.{port >> 8}.{port & 255}.{last}" for last in (53, 54))
    place.start(PYTHON, place.write("retired.py", RETIRED), old, path=folder / "retired-ready")
    place.start("dnsmasq", "-k", "-C", "/dev/null", "--no-resolv", "--no-hosts", "--user=root", f"--pid-file={folder}/dnsmasq.pid",
                "--host-record=desk7.physics.internal,127.0.0.7", f"--listen-address={new}", "--bind-interfaces",
                path=folder / "dnsmasq.pid")
    servers = [new] if place.fixed else [old, new]
    resolver = place.write("resolv.conf", "options timeout:1\n" + "".join(f"nameserver {server}\n" for server in servers), mode=0o644)
    key = place.built("faculty", ".txt", "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "{program}")
    place.write("key", key.read_text(), mode=0o600)
    public = key.with_suffix(".pub").read_text()
    place.write("authorized", public, mode=0o600)
    place.write("known", f"results {public}")
    server = place.write("sshd.conf", f"""
ListenAddress 127.0.0.1:{port}
HostKey {folder}/key
AuthorizedKeysFile {folder}/authorized
PidFile {folder}/sshd.pid
StrictModes no
UsePAM no
UseDNS yes
PermitRootLogin yes
PasswordAuthentication no
MaxStartups 50
PrintLastLog no
""")
    place.write("ssh.conf", f"""
Host node*
  HostName 127.0.0.1
  HostKeyAlias results
  Port {port}
  User root
  BindAddress 127.0.0.7
  IdentityFile {folder}/key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known
  GlobalKnownHostsFile /dev/null
  BatchMode yes
""")
    (folder / "results").mkdir()
    for part in range(30):
        lines = "\n".join(f"{step},{step * (part + 3) % 977}" for step in range(400))
        place.write(f"results/{'run' if part == 0 else part}.csv", lines + "\n")
    (folder / "collected").mkdir()
    # Only sshd sees this resolv.conf, its own /run, and the results in /srv.
    script = (f"mount --bind {resolver} /etc/resolv.conf && mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd && "
              f"mount -t tmpfs tmpfs /srv && mkdir /srv/results && mount --bind {folder}/results /srv/results && "
              f"exec /usr/sbin/sshd -D -e -f {server}")
    place.start("unshare", "-m", "sh", "-c", script, port=port)
    return [str(place.write("collect", COLLECT)), "16"]


# Compares a submission with five others; all are in memory, and take about 46 MB of the heap.
SUBMISSIONS = """
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;

public class Main {
    static final Map<Integer, List<String>> SUBMISSIONS = new HashMap<>();

    static List<String> submission(int number) {
        List<String> lines = new ArrayList<>();
        for (int line = 0; line < 100; line++) {
            lines.add("int value" + (number * 31 + line * 7) % 977 + " = compute(" + line + ", " + number % 13 + ");");
        }
        return lines;
    }

    static Set<String> pieces(List<String> lines) {
        Set<String> found = new HashSet<>();
        for (String line : lines) {
            String[] words = line.split(" ");
            for (int i = 0; i + 2 < words.length; i++) {
                found.add(words[i] + " " + words[i + 1] + " " + words[i + 2]);
            }
        }
        return found;
    }

    static String similar(int number) {
        Set<String> own = pieces(SUBMISSIONS.get(number));
        int most = -1, best = 0;
        for (int i = 1; i <= 5; i++) {
            int other = (number + i * 37) % SUBMISSIONS.size();
            Set<String> common = pieces(SUBMISSIONS.get(other));
            common.retainAll(own);
            if (common.size() > most) {
                most = common.size();
                best = other;
            }
        }
        return "{\\"submission\\": " + number + ", \\"similar\\": " + best + ", \\"pieces\\": " + most + "}";
    }

    public static void main(String[] words) throws Exception {
        int count = Integer.parseInt(words[1]);
        for (int i = 0; i < count; i++) {
            SUBMISSIONS.put(i, submission(i));
        }
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 100);
        server.setExecutor(Executors.newFixedThreadPool(8));
        AtomicInteger next = new AtomicInteger();
        server.createContext("/similar", exchange -> {
            byte[] answer = similar(next.incrementAndGet() % count).getBytes();
            exchange.sendResponseHeaders(200, answer.length);
            exchange.getResponseBody().write(answer);
            exchange.close();
        });
        server.start();
    }
}
"""


def small_heap(place):
    port = place.port()
    heap = "-Xmx512m" if place.fixed else "-Xmx72m"
    place.start("java", "-XX:+UseParallelGC", heap, "-Dsun.net.httpserver.nodelay=true", "-cp", place.java(SUBMISSIONS), "Main", port, 6000,
                port=port)
    front = nginx(place, 'location / { proxy_pass http://desk; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream desk {{ server 127.0.0.1:{port}; keepalive 16; }}")
    return wrk(f"http://127.0.0.1:{front}/similar", 6, place.seconds)


# Prints the options of the compiler for the species in a reaction scheme. With "=", make runs it
# anew for each file that it compiles, and with ":=" once.
SCHEME = """#!/usr/bin/python3
import re, sys, xml.etree.ElementTree as tree

species, orders = {}, {}
for reaction in tree.parse("scheme.xml").getroot():
    for name, number in re.findall(r"([A-Z][a-z]*)(\\d*)", reaction.get("formula")):
        species[name] = species.get(name, 0) + int(number or 1)
    orders[reaction.get("order")] = orders.get(reaction.get("order"), 0) + 1
print(f"-DSPECIES={len(species)} -DATOMS={sum(species.values())} -DORDERS={len(orders)}")
"""
MAKEFILE = """
parts := $(patsubst %.c,%.o,$(wildcard part*.c))
SCHEME EQUALS $(shell ./scheme)
CFLAGS = -O1 $(SCHEME)

reactor: $(parts) main.o
	$(CC) -o $@ $^
%.o: %.c
	$(CC) $(CFLAGS) -c -o $@ $<
"""


def build(place):
    place.write("scheme", SCHEME)
    place.write("Makefile", MAKEFILE.replace("EQUALS", ":=" if place.fixed else "="), mode=0o644)
    reactions = (f'<reaction order="{i % 3}" formula="H{i % 5 + 1}C{i % 7 + 1}O{i % 2 + 1}Na{i % 4 + 1}N{i % 3 + 1}"/>'
                 for i in range(round(60000 * place.scale)))
    place.write("scheme.xml", "<scheme>\n" + "\n".join(reactions) + "\n</scheme>\n", mode=0o644)
    for part in range(24):
        rates = "\n".join(f"double rate{part}_{i}(double t) {{ return {i + 1}.5 * t / (t + {part}) + ATOMS; }}" for i in range(40))
        place.write(f"part{part}.c", f"#include <stdio.h>\n#include <stdlib.h>\n{rates}\n", mode=0o644)
    main = 'double rate3_7(double);\nint main(void) { printf("%f\\n", rate3_7(SPECIES)); }\n'
    place.write("main.c", "#include <stdio.h>\n" + main, mode=0o644)
    return ["make", "-s", "-j2", "reactor"]


# Control: two institutes write an overview of their marks into the same folder each 600 ms, one
# after the other because of a lock, and are done long before the next time.
OVERVIEW = """#!/usr/bin/ruby
institute, seconds, offset = ARGV[0], ARGV[1].to_f, ARGV[2].to_f
now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
start = now.call
written = 0
while now.call < start + seconds
  pause = start + offset + written * 0.6 - now.call
  sleep(pause) if pause > 0
  command = "gawk -F, '{ sum[$2] += $3; n[$2]++ } END { for (c in sum) print c, sum[c] / n[c] }' marks.csv" \\
            " | sort -k2 -n | xz -1 > shared/#{institute}.xz"
  File.open("shared/lock", "w") do |lock|
    lock.flock(File::LOCK_EX)
    system(command) or raise "no overview"
  end
  written += 1
end
puts "items #{written} seconds #{(now.call - start).round(3)}"
"""


def overview(place):
    (place.folder / "shared").mkdir()
    marks = "\n".join(f"student{i % 1700},course{i % 43},{i * 7 % 30 / 10 + 1}" for i in range(25000))
    place.write("marks.csv", marks + "\n", mode=0o644)
    program = place.write("overview", OVERVIEW)
    place.start(program, "physics", 3600, 0.3)
    return [str(program), "chemistry", str(place.seconds), "0"]


# Control: the page of a course comes from a small database, and the four processes of gunicorn
# keep both CPUs busy.
PORTAL = """
import html, sqlite3, threading
from flask import Flask

app = Flask(__name__)
own = threading.local()

def base():
    if not hasattr(own, "base"):
        own.base = sqlite3.connect("file:marks.db?mode=ro", uri=True)
    return own.base

@app.get("/course/<int:course>")
def course(course):
    rows = base().execute("select student, task, points from points where course = ? order by points desc", (course,))
    lines = [f"<tr><td>{html.escape(student)}<td>{task}<td>{points:.1f}" for student, task, points in rows]
    return "<table>" + "\\n".join(lines) + "</table>"
"""


def portal(place):
    port = place.port()
    place.write("points.sql", """
create table points (course int, student text, task int, points real);
with recursive n(i) as (select 0 union all select i + 1 from n where i < 15999)
insert into points select i % 40, 'student' || i % 170, i / 40 % 8, i * 7 % 40 / 2.0 from n;
create index of_course on points (course);
""")
    place.run("sqlite3", "marks.db", ".read points.sql")
    place.write("portal.py", PORTAL)
    place.start("/usr/bin/gunicorn", "-w", "4", "-k", "gthread", "--threads", "4", "-b", f"127.0.0.1:{port}", "--chdir", place.folder,
                "portal:app", port=port)
    front = nginx(place, 'location / { proxy_pass http://portal; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream portal {{ server 127.0.0.1:{port}; keepalive 16; }}")
    return wrk(f"http://127.0.0.1:{front}/course/7", 8, place.seconds)


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="faculty_random_numbers",
        kind="lock-in-library",
        truth="the four threads of photons wait for one another's lock in rand() of the C library, "
              "which has one state for all threads",
        load=random_numbers,
        rate=ITEMS,
        component=(r"photons",),
        mechanism=(*LOCKS, r"futex", r"for one another", r"\bholds?\b", r"\bheld\b", r"contend|contention",
                   r"\b_*rand(om)?\b"),
        never=(*DISK, r"photons (\([^)]*\) )?sleeps"),
        code=(r"\b_*rand(om)?\b", r"\bdraw\b", r"\bfollow\b"),
        needs=("gcc",),
    ),
    System(
        name="faculty_shared_parameters",
        kind="chatty-shared-state",
        truth="lakes, in python, asks the process of its multiprocessing manager for each parameter "
              "in each step, so that its four workers wait for the replies of one process, whose "
              "threads run one at a time",
        load=shared_parameters,
        rate=ITEMS,
        component=(r"lakes", r"python", r"[Mm]anager"),
        mechanism=(r"manager", r"serve_client", r"_callmethod", r"pickle", r"\brecv", r"\bsend", r"socket",
                   r"round trips?", r"requests? to", r"repl(y|ies)", r"calls? to", r"messages?", r"\bGIL\b",
                   r"interpreter", *LOCKS, r"one thread"),
        never=(*DISK, r"(lakes|python3?) (\([^)]*\) )?sleeps"),
        code=(r"serve_client", r"_callmethod", r"managers", r"connection"),
        needs=(PYTHON,),
    ),
    System(
        name="faculty_logins_of_nodes",
        kind="dead-name-server",
        truth="sshd waits in each login until its queries to a retired name server, the first in "
              "its resolv.conf, time out after a second, before it asks the second one",
        load=logins,
        component=(r"\bsshd", r"retired", r":53\b", r"\bport 53\b", r"\bDNS\b", r"name ?server", r"resolver"),
        mechanism=(r"\b53\b", r"\bDNS\b", r"name ?server", r"resol(v|ution)", r"look(s|ed)? ?up", r"time[sd]?[- ]?out",
                   r"timer", r"until a time", r"\bpoll", r"\bUDP\b", r"repl(y|ies)", r"answers?\b", r"unanswered"),
        never=(*DISK, r"sshd (\([^)]*\) )?computes", r"dnsmasq (\([^)]*\) )?(computes|sleeps)"),
        needs=("/usr/sbin/sshd", "ssh", "ssh-keygen", "rsync", "dnsmasq", "unshare", PYTHON),
    ),
    System(
        name="faculty_scheme_for_each_file",
        kind="command-repeated-by-make",
        truth="scheme, in python, computes: make runs it by $(shell) anew for each file that it "
              "compiles, and waits for it, because its variable is expanded each time",
        load=build,
        component=(r"scheme", r"python", r"\bmake\b", r"\bg?make:", r"\bsh\b"),
        mechanism=(*RUNS, r"\bstarts?\b", r"\bexec", r"\bfork", r"child", r"shell", r"\bend(s|ing)? of\b", r"\bexits?\b",
                   r"pars(es|ing)", r"one (\w+ )?at a time", r"one after (the other|another)"),
        never=(*DISK, r"(scheme|python3?) (\([^)]*\) )?sleeps", r"^(?![^;]*(scheme|python))[^;]*\b(cc1|gcc|cc|as|ld)\b[^;]*comput"),
        halves=True,
        needs=("make", "gcc", PYTHON),
    ),
    System(
        name="faculty_heap_of_submissions",
        kind="small-heap",
        truth="the garbage collector of java runs again and again, and stops all threads meanwhile, "
              "because the heap of 72 MB is only a little larger than the submissions in it",
        load=small_heap,
        rate=WRK,
        component=(r"\bjava\b", r"\bGC\b", r"garbage"),
        mechanism=(r"\bGC\b", r"garbage", r"collect(s|or|ion)", r"\bheap\b", r"VM Thread", r"PSParallelCompact", r"MarkFromRoots",
                   r"safepoint"),
        never=(*DISK, r"java (\([^)]*\) )?sleeps"),
        running=True,
        needs=("java", "javac", "nginx", "wrk"),
    ),
    System(
        name="control_faculty_overview",
        kind="control",
        truth="overview, in ruby, writes a file each 600 ms by intention with gawk, sort and xz; the "
              "lock that it shares with another institute is free most of the time",
        load=overview,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by (overview|ruby)", r"(overview|ruby).*(\bpaced\b|sleep|timer|until a time)", r"\bidle\b"),
        needs=("ruby", "gawk", "sort", "xz"),
    ),
    System(
        name="control_faculty_portal",
        kind="control",
        truth="the four processes of gunicorn behind nginx compute pages from a database with an "
              "index, and both CPUs are full",
        load=portal,
        rate=WRK,
        acceptable=(*NOTHING, rf"(gunicorn|portal|python).*{COMPUTES}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs", r"load generator",
                    r"\bwrk\b[^;]*(bottleneck|comput|load)"),
        needs=("/usr/bin/gunicorn", "nginx", "sqlite3", "wrk"),
    ),
]
