"""The machines of an embassy: five faults of settings that operators meet on Linux hosts, in names,
documents, priorities, archives and mail, and two healthy parts of the same embassy.
"""
import io
import os
import tarfile
import time
from pathlib import Path

from services import at, nginx, postgres, private_network
from system import ITEMS, LOCKS, PGBENCH, PYTHON, SLEEPS, WRK, System, wrk

RUNS = (r"comput", r"\buser\b", r"runs its own code", r"one thread", r"\bruns? on", r"\bCPU")
DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")


def container(place, controller, **limits):
    """Makes a control group with these limits; returns its folder."""
    old = Path("/sys/fs/cgroup", controller)
    root = old if old.is_dir() else old.parent
    if root != old:
        (root / "cgroup.subtree_control").write_text(f"+{controller}")
    group = root / f"embassy-{os.getpid()}-{time.monotonic_ns()}"
    group.mkdir()
    place.stack.callback(removed, group)
    for name, value in limits.items():
        (group / f"{controller}.{name}").write_text(str(value))
    return group


def inside(group, *words):
    """Returns a command that enters the group first."""
    return ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh", *map(str, words)]


def removed(group):
    for _ in range(200):
        try:
            return group.rmdir()
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"{group} is still in use")


# Sends dispatches to the relays of a pool. For each it asks for the pool's addresses, because a
# relay that is being repaired is taken out of the name.
COURIER = """#!/usr/bin/perl
use strict;
use warnings;
use IO::Socket::INET;
use Socket qw(inet_ntoa);
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my ($count) = @ARGV;
my %links;
my $start = clock_gettime(CLOCK_MONOTONIC);
for my $number (1 .. $count) {
    my ($name, $aliases, $type, $length, @addresses) = gethostbyname("relays.embassy.internal");
    die "no relay" unless @addresses;
    my $address = inet_ntoa((sort @addresses)[$number % @addresses]);
    my $link = $links{$address} //= IO::Socket::INET->new(PeerAddr => $address, PeerPort => 2525) || die "no relay: $!";
    print $link "dispatch $number " . "text " x 40 . "\\n";
    die "refused" unless <$link> =~ /^250/;
}
printf "items %d seconds %.3f\\n", $count, clock_gettime(CLOCK_MONOTONIC) - $start;
"""
RELAY = """
const crypto = require("crypto"), fs = require("fs"), net = require("net"), readline = require("readline");
net.createServer(socket => {
  socket.setNoDelay(true);
  readline.createInterface({ input: socket }).on("line", line => {
    const mark = crypto.createHmac("sha256", "seal").update(line).digest("hex");
    socket.write(`250 ${mark}\\n`);
  });
}).listen(2525, "0.0.0.0", () => fs.writeFileSync("relay-ready", ""));
"""


def truncated(place):
    """A reply with 60 addresses does not fit into the 512 bytes that a query without EDNS allows."""
    folder = place.folder
    resolver = place.write("resolv.conf", "nameserver 127.0.0.1\n" + ("options edns0\n" if place.fixed else ""), mode=0o644)
    network = private_network(place, f"mount --bind {resolver} /etc/resolv.conf")
    place.write("relays.hosts", "".join(f"127.20.0.{i + 1} relays.embassy.internal\n" for i in range(60)), mode=0o644)
    place.start(*network, "dnsmasq", "-k", "-C", "/dev/null", "--no-resolv", "--no-hosts", "--user=root",
                f"--pid-file={folder}/dnsmasq.pid", f"--addn-hosts={folder}/relays.hosts",
                "--listen-address=127.0.0.1", "--bind-interfaces", path=folder / "dnsmasq.pid")
    # nsenter enters the mount namespace, but the working directory stays a folder that both have.
    place.start(*network, "sh", "-c", f"cd {folder} && exec node {place.write('relay.js', RELAY)}", path=folder / "relay-ready")
    return [*network, str(place.write("courier", COURIER)), "4500"]


# Allows or forbids each opening of a document, after it has looked for signatures in it. A document
# that was clean can be remembered until somebody changes it.
DOCGUARD = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <unistd.h>

static char text[1 << 20];
static unsigned char signatures[400][12];

// Returns 1 if none of the signatures is in the document.
static int is_clean(int file, int count) {
    ssize_t size = pread(file, text, sizeof text, 0);
    for (int i = 0; size > 0 && i < count; i++)
        if (memmem(text, size, signatures[i], sizeof signatures[i]))
            return 0;
    return 1;
}

int main(int number, char **words) {
    if (number < 4)
        return 1;
    int remember = !strcmp(words[2], "remember"), count = atoi(words[3]);
    for (int i = 0; i < 400; i++)
        for (int j = 0; j < 12; j++)
            signatures[i][j] = 128 + (i * 7 + j * 31) % 127;
    int queue = fanotify_init(FAN_CLASS_CONTENT, O_RDONLY | O_LARGEFILE);
    if (queue < 0 || fanotify_mark(queue, FAN_MARK_ADD, FAN_OPEN_PERM | FAN_EVENT_ON_CHILD, AT_FDCWD, words[1]))
        return perror("fanotify"), 1;
    close(open("docguard-ready", O_CREAT | O_WRONLY, 0644));
    char events[8192];
    ssize_t length;
    while ((length = read(queue, events, sizeof events)) > 0) {
        struct fanotify_event_metadata *event = (void *)events;
        for (; FAN_EVENT_OK(event, length); event = FAN_EVENT_NEXT(event, length)) {
            int clean = is_clean(event->fd, count);
            struct fanotify_response answer = {.fd = event->fd, .response = clean ? FAN_ALLOW : FAN_DENY};
            if (clean && remember) {
                char path[64];
                snprintf(path, sizeof path, "/proc/self/fd/%d", event->fd);
                fanotify_mark(queue, FAN_MARK_ADD | FAN_MARK_IGNORED_MASK, FAN_OPEN_PERM, AT_FDCWD, path);
            }
            if (write(queue, &answer, sizeof answer) < 0)
                perror("fanotify");
            close(event->fd);
        }
    }
}
"""
# The readers of the ministry ask for one document after the other.
READERS = """
local n = 0
request = function()
  n = n + 1
  return wrk.format(nil, "/note" .. n % 40 .. ".txt")
end
"""


def scanned(place):
    documents, folder = place.folder / "documents", place.folder
    documents.mkdir()
    for i in range(40):
        (documents / f"note{i}.txt").write_text(f"Note verbale {i}\n" + "The Embassy presents its compliments to the Ministry.\n" * 500)
    place.start(place.c("docguard", DOCGUARD), documents, "remember" if place.fixed else "anew", round(60 * place.scale),
                path=folder / "docguard-ready")
    port = nginx(place, f"root {documents};", workers=2)
    script = place.write("readers.lua", READERS)
    load = wrk(f"http://127.0.0.1:{port}", 8, place.seconds)
    return [*load[:1], "-s", str(script), *load[1:]]


# Notes who was looked up in the directory of persons.
LOOKUP = """
\\set person random(1, 3000)
update persons set asked = asked + 1 where id = :person returning extension;
"""
# Writes the seals of all entries again; nobody may change an entry meanwhile. Its author did
# not want to disturb the look-ups, and lowers the priority of the server's process.
SEALS = """
select pg_backend_pid() as backend \\gset
\\setenv BACKEND :backend
POLITE
"""
SEAL = """
begin;
lock table persons in share row exclusive mode;
insert into seals select max(md5(concat(id, extension, n))) from persons, generate_series(1, 4) n;
commit;
select pg_sleep(0.2);
"""
LOGPACK = """#!/bin/sh
while :; do
    xz -6 -c access.log >packed-$1.xz
done
"""


def polite_backend(place):
    # One group for all, because the kernel does not compare priorities of different sessions.
    group = container(place, "cpu")
    base = postgres(place, """
        create table persons (id int primary key, extension int, asked int) with (fillfactor = 50);
        create table seals (seal text);
        insert into persons select i, 1000 + i, 0 from generate_series(1, 3000) i;
        analyze; checkpoint""", fsync="off", synchronous_commit="off", max_parallel_workers_per_gather=0)
    (group / "cgroup.procs").write_text((place.folder / "cluster/postmaster.pid").read_text().split()[0])
    place.write("access.log", "".join(
        f"10.1.{i % 7}.{i * 31 % 250} GET /visa/form?number={i * 7919 % 100003} 200 {i % 4096}\n" for i in range(200000)))
    logpack = place.write("logpack", LOGPACK)
    for number in range(2):
        place.start(*inside(group, logpack, number))
    polite = "" if place.fixed else "\\! renice -n 19 -p $BACKEND && touch polite"
    seals = place.write("seals.sql", SEALS.replace("POLITE", polite) + SEAL * 200, mode=0o644)
    place.start("psql", *at(base), "-q", "-v", "ON_ERROR_STOP=1", "-f", seals, path=None if place.fixed else place.folder / "polite")
    script = place.write("lookup.sql", LOOKUP, mode=0o644)
    return inside(group, "pgbench", *at(base), "-n", "-c", "4", "-T", place.seconds, "-f", script, "postgres")


# Restores the cases from the tape of the old embassy.
RESTORE = """#!/bin/sh
cd "$(dirname "$0")" && gzip -dc tape.tar.gz | tar -x -C archive
"""


def synchronous_folder(place):
    """The archive still has the attribute S, which somebody gave it years ago."""
    archive = place.folder / "archive"
    archive.mkdir()
    if not place.fixed:
        place.run("chattr", "+S", archive)
    with tarfile.open(place.folder / "tape.tar.gz", "w:gz", compresslevel=1) as tape:
        for case in range(600):
            text = "".join(f"case {case} page {page} form {page * 7919 % 10007}\n" for page in range(9000)).encode()
            entry = tarfile.TarInfo(f"case{case}.txt")
            entry.size = len(text)
            tape.addfile(entry, io.BytesIO(text))
    return [str(place.write("restore", RESTORE))]


# The settings of the mail server; TRANSPORT says how it writes into a mailbox.
MAIL = """
primary_hostname = mail.embassy.internal
local_interfaces = 127.0.0.1
daemon_smtp_ports = PORT
spool_directory = FOLDER/spool
log_file_path = FOLDER/spool/%slog
pid_file_path = FOLDER/spool/exim.pid
domainlist local_domains = embassy.internal
acl_smtp_rcpt = recipient
smtp_accept_queue_per_connection = 0
tls_advertise_hosts =
rfc1413_hosts =
host_lookup =
keep_environment =
never_users =
begin acl
recipient:
  accept domains = +local_domains
  deny
begin routers
desks:
  driver = accept
  domains = +local_domains
  transport = mailbox
begin transports
mailbox:
  driver = appendfile
  user = Debian-exim
  group = Debian-exim
TRANSPORT
"""


def exim(place, transport):
    """Starts exim, of which only itself sees its settings; returns its port."""
    port, folder = place.port(), place.folder
    for name in ("spool", "mail"):
        (folder / name).mkdir()
        place.run("chown", "Debian-exim:Debian-exim", folder / name)
    text = MAIL.replace("TRANSPORT", transport).replace("PORT", str(port)).replace("FOLDER", str(folder))
    config = place.write("exim.conf", text, mode=0o644)
    place.start("unshare", "-m", "sh", "-c", f'mount --bind {config} /var/lib/exim4/config.autogenerated && exec "$@"', "sh",
                "/usr/sbin/exim4", "-bdf", port=port)
    return port


# Sends the applications of a day to the shared mailbox, and waits until all are in it.
VISAFORMS = """#!/usr/bin/python3
import smtplib, subprocess, sys, threading, time

port, links, each = (int(word) for word in sys.argv[1:4])
form = "Subject: application\\n\\n" + ("passport " * 8 + "\\n") * 14000

def send(link):
    server = smtplib.SMTP("127.0.0.1", port)
    for number in range(each):
        server.sendmail(f"consulate{link}@embassy.internal", "visa@embassy.internal", form)
    server.quit()

start = time.monotonic()
for link in range(links):
    threading.Thread(target=send, args=(link,)).start()
tail = ["tail", "-s", "0.05", "-n", "+1", "-F", "spool/mainlog"]
log = subprocess.Popen(tail, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
done = 0
while done < links * each:
    done += "Completed" in log.stdout.readline()
print(f"items {done} seconds {time.monotonic() - start:.3f}")
log.kill()
"""


def shared_mailbox(place):
    lock = "use_lockfile = false\n  lock_fcntl_timeout = 30s" if place.fixed else "lock_interval = 1s\n  lock_retries = 30"
    port = exim(place, f"  file = FOLDER/mail/visa\n  {lock}")
    return ["sh", "-c", f"cd {place.folder} && exec ./{place.write('visaforms', VISAFORMS).name} {port} 8 8"]


# Control: a probe of the monitoring sends a mail each 250 ms by intention.
MAILPROBE = """#!/usr/bin/python3
import pathlib, smtplib, sys, time

port, seconds, period = int(sys.argv[1]), float(sys.argv[2]), 0.25
server = smtplib.SMTP("127.0.0.1", port)
start, count = time.monotonic(), 0
while time.monotonic() < start + seconds:
    server.sendmail("probe@embassy.internal", "consular@embassy.internal", f"Subject: probe {count}\\n\\nIs the mail alive?\\n")
    count += 1
    time.sleep(max(0, start + count * period - time.monotonic()))
server.quit()
arrived = len(list(pathlib.Path("mail/consular/new").iterdir()))
assert arrived >= count - 2, f"only {arrived} of {count} mails arrived"
print(f"items {count} seconds {time.monotonic() - start:.3f}")
"""


def mail_probe(place):
    port = exim(place, "  maildir_format\n  directory = FOLDER/mail/consular\n  create_directory")
    return ["sh", "-c", f"cd {place.folder} && exec ./{place.write('mailprobe', MAILPROBE).name} {port} {place.seconds}"]


# Control: two jobs at a time pack the editions of the handbook, in a container that is large enough.
EDITIONS = """
all: $(patsubst %,%.tar.xz,$(shell git -C handbook tag))

%.tar.xz:
	git -C handbook archive $* | xz -6 >$@
"""


def editions(place):
    book = place.folder / "handbook"
    git = ("git", "-C", book, "-c", "user.name=archivist", "-c", "user.email=archivist@embassy.internal")
    place.run("git", "init", "-q", book)
    for edition in range(10):
        for chapter in range(10):
            (book / f"chapter{chapter}.txt").write_text("".join(
                f"Rule {i * 7919 % 10007} of chapter {chapter}, edition {edition}: see rule {i * (31 + edition) % 9973}, form {i % 613}\n"
                for i in range(4000)))
        place.run(*git, "add", ".")
        place.run(*git, "commit", "-q", "-m", f"edition {edition}")
        place.run(*git, "tag", f"edition{edition}")
    place.write("Makefile", EDITIONS, mode=0o644)
    return inside(container(place, "pids", max=400), "make", "-s", "-j2", "-C", place.folder, "all")


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="embassy_addresses_of_the_relays",
        kind="truncated-reply-over-tcp",
        truth="the resolver of courier, in perl, asks without EDNS, so that dnsmasq truncates its "
              "reply of 60 addresses and courier asks again by TCP, for which dnsmasq forks a "
              "process each time",
        load=truncated,
        rate=ITEMS,
        component=(r"dnsmasq", r"(courier|perl)[^;]*(DNS|name|resol|look|TCP|port 53|:53\b|connect)"),
        mechanism=(r"\bfork", r"\bclone", r"process(es)? (for|per) each", r"start(s|ed|ing)? [^;]*process", r"new process", r"child",
                   r"short-lived", r"\bexit", r"\bTCP\b", r"truncat", r"EDNS", r"connect", r"wait4", r"copies? [^;]*memory",
                   r"\bDNS\b", r"look(s|ed)?[- ]?ups?", r"name server", r"address space"),
        never=(*DISK, r"(courier|perl|dnsmasq) (\([^)]*\) )?sleeps", r"node (\([^)]*\) )?(comput|sleeps)"),
        needs=("dnsmasq", "perl", "node", "unshare", "nsenter"),
    ),
    System(
        name="embassy_guarded_documents",
        kind="scanner-without-cache",
        truth="docguard, which must allow each open of a document by fanotify, computes: it looks "
              "for its signatures in the unchanged document each time that nginx opens it, one "
              "after the other",
        load=scanned,
        rate=WRK,
        component=(r"docguard", r"nginx[^;]*(open|fanotify|permission)"),
        mechanism=(*RUNS, r"fanotify", r"\bscan", r"memmem", r"is_clean", r"one (\w+ )?at a time", r"permission", r"\bopen(s|at|ing)?\b"),
        never=(*DISK, r"docguard (\([^)]*\) )?sleeps", r"nginx (\([^)]*\) )?computes"),
        code=(r"is_clean", r"memmem"),
        halves=True,
        running=True,
        needs=("gcc", "nginx", "wrk"),
    ),
    System(
        name="embassy_polite_seals",
        kind="low-priority-lock-holder",
        truth="a process of postgres keeps its lock on the table of persons while it waits for a "
              "CPU, because it was reniced to 19 and two xz at the usual priority use both CPUs, and "
              "all look-ups wait for that lock",
        load=polite_backend,
        rate=PGBENCH,
        component=(r"postgres", r"\bpsql\b"),
        mechanism=(*LOCKS, r"\bholds?\b", r"\bheld\b", r"preempt", r"runnable", r"priorit", r"\bnice", r"waits? for (a |the )?CPU",
                   r"ready to run", r"kept from"),
        never=(*DISK, r"network"),
        needs=("psql", "pgbench", "xz", "renice"),
    ),
    System(
        name="embassy_synchronous_archive",
        kind="synchronous-attribute",
        truth="tar waits for the disk each time that it writes 10 KB or creates a file, because the "
              "folder of the archive has the attribute S (synchronous updates)",
        load=synchronous_folder,
        component=(r"\btar\b", r"restore", r"archive"),
        mechanism=(*DISK, r"\bdisk", r"\bsync", r"journal", r"jbd2", r"\bwrites?\b", r"\bopen(at)?\b", r"mkdir", r"storage",
                   r"block device", r"\bvd", r"flush", r"\bI/?O\b"),
        never=(r"\btar (\([^)]*\) )?(computes|sleeps)", r"network", r"gzip (\([^)]*\) )?computes"),
        needs=("tar", "gzip", "chattr"),
    ),
    System(
        name="embassy_shared_mailbox",
        kind="lock-file-retried-by-timer",
        truth="exim4 sleeps 1 s whenever the lock file of the shared mailbox belongs to another "
              "delivery, which keeps it for some milliseconds only",
        load=shared_mailbox,
        rate=ITEMS,
        component=(r"exim",),
        mechanism=(*SLEEPS, *LOCKS, r"retr(y|ies)", r"lock_?interval", r"mailbox"),
        never=(*DISK, r"exim4? (\([^)]*\) )?computes"),
        needs=("/usr/sbin/exim4", "unshare", "tail", PYTHON),
    ),
    System(
        name="control_embassy_mail_probe",
        kind="control",
        truth="mailprobe, in python, sends a mail each 250 ms by intention; exim4 receives it and "
              "delivers it into a maildir long before the next one, and all are idle most of the time",
        load=mail_probe,
        rate=ITEMS,
        acceptable=(*NOTHING, r"[Pp]aced by (mailprobe|python)", r"(mailprobe|python).*(sleep|timer|until a time)", r"\bidle\b"),
        needs=("/usr/sbin/exim4", "unshare", PYTHON),
    ),
    System(
        name="control_embassy_editions",
        kind="control",
        truth="make keeps two jobs of git and xz at work in a container that allows more processes "
              "than they need; xz computes, and both CPUs are full",
        load=editions,
        acceptable=(*NOTHING, rf"\bxz\b.*{COMPUTES}", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs"),
        needs=("git", "make", "xz"),
    ),
]
