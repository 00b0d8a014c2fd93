"""Files, pipes and logs: a process or a sync per file, one read at a time, a slow sink."""
import os
from pathlib import Path

from system import WRK, System, wrk

DISK = (r"\bsync", r"\bdisk\b", r"\bfsync", r"block (device|I/O)", r"journal")


def find_exec(place):
    folder = place.folder / "reports"
    for number in range(3000):
        part = folder / ("by-one" if number < 3000 * place.fault else "at-once")
        part.mkdir(parents=True, exist_ok=True)
        (part / f"{number}.txt").write_text(f"total {number}\n" * 20)
    (folder / "by-one").mkdir(exist_ok=True)
    (folder / "at-once").mkdir(exist_ok=True)
    # All files together take a second, so that there is also work without the fault.
    return ["sh", "-c", f"find {folder}/by-one -name '*.txt' -exec sha256sum {{}} ';' >one; find {folder}/at-once -name '*.txt' -exec sha256sum {{}} + >all; "
            "head -c 100000000 /dev/zero | sha256sum"]


def git_loose_objects(place):
    folder = place.folder / "repository"
    for number in range(1200):
        part = folder / ("synced" if number < 1200 * place.fault else "later")
        part.mkdir(parents=True, exist_ok=True)
        (part / f"{number}.txt").write_text(f"line {number}\n" * 50)
    (folder / "synced").mkdir(exist_ok=True)
    (folder / "later").mkdir(exist_ok=True)
    place.run("git", "init", "-q", folder)
    return ["sh", "-c", f"cd {folder} && git -c core.fsync=loose-object -c core.fsyncMethod=fsync add synced && git -c core.fsync=none add later"]


SSHD = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
PidFile none
AuthorizedKeysFile {folder}/client.pub
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
Subsystem sftp {sftp}
"""


def sftp_one_request(place):
    for name in ("host", "client"):
        place.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place.folder / name)
    port = place.port()
    Path("/run/sshd").mkdir(exist_ok=True)
    config = place.write("sshd.conf", SSHD.format(port=port, folder=place.folder, sftp="/usr/lib/openssh/sftp-server"))
    place.start("/usr/sbin/sshd", "-D", "-e", "-f", config, port=port)
    (place.folder / "volume").write_bytes(os.urandom(2**20) * 24)
    size = 32768 if place.fixed else int(2048 / place.fault)
    several = [] if place.fixed else ["-R", "1", "-B", str(size)]
    batch = place.write("batch", f"get {place.folder}/volume {place.folder}/copy\n")
    return ["sftp", "-q", *several, "-F", "none", "-i", str(place.folder / "client"), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
            "-P", str(port), "-b", str(batch), "root@127.0.0.1"]


def device_of(path):
    """Returns the number of the whole device of a file, in the form of control groups."""
    at = Path(f"/sys/dev/block/{os.major(os.stat(path).st_dev)}:{os.minor(os.stat(path).st_dev)}").resolve()
    return ((at.parent if (at / "partition").exists() else at) / "dev").read_text().strip()


def read_quota(place):
    group = Path("/sys/fs/cgroup/blkio") / f"backup-{os.getpid()}-{place.folder.name}"
    group.mkdir()
    place.stack.callback(group.rmdir)
    if not place.fixed:
        (group / "blkio.throttle.read_bps_device").write_text(f"{device_of(place.folder)} {int(20e6 / place.fault)}")
    volume = place.folder / "volume"
    volume.write_bytes(os.urandom(2**20) * 80)
    with volume.open("rb") as file:
        os.fsync(file.fileno())
    return ["sh", "-c", f"echo $$ >{group}/cgroup.procs; dd if={volume} iflag=direct bs=256k status=none | sha256sum"]


def sed_unbuffered(place):
    lines = "".join(f"10.0.{number % 250}.{number % 199} GET /article/{number} 200 {number * 7919 % 50000}\n" for number in range(200000))
    place.write("access.log", lines)
    often = [] if place.fixed else ["-u"]
    return ["sh", "-c", f"cat access.log | sed {' '.join(often)} 's/^10\\.0/client/' | awk '{{ sum[$1] += $5 }} END {{ for (key in sum) print key, sum[key] }}' | sort >sums"]


CHECKOUT = """
package main

import ("fmt"; "net"; "net/http"; "os")

func main() {
	sink, err := net.Dial("unixgram", os.Args[2])
	if err != nil { panic(err) }
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(sink, "paid %s", r.URL.Path)
		w.Write([]byte("paid\\n"))
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""
LOGKEEPER = """
use strict; use Socket; use IO::Handle;
my ($path, $file, $share) = @ARGV;
socket(my $in, PF_UNIX, SOCK_DGRAM, 0) or die;
bind($in, sockaddr_un($path)) or die;
open(my $out, '>>', $file) or die;
my $count = 0;
while (defined recv($in, my $line, 4096, 0)) {
    syswrite($out, "$line\\n");
    $count++;
    $out->sync if int($count * $share) > int(($count - 1) * $share);
}
"""


def slow_log_sink(place):
    port, path = place.port(), place.folder / "log.socket"
    place.start("perl", place.write("logkeeper.pl", LOGKEEPER), path, place.folder / "checkout.log", place.fault / 2 if place.fault else 0.02, path=path)
    place.start(place.go("checkout", CHECKOUT), port, path, port=port)
    return wrk(f"http://127.0.0.1:{port}/", 16, place.seconds)


SYSTEMS = [
    System(
        name="find_exec_each",
        kind="process-per-item",
        truth="find starts a sha256sum for each of 3000 small files, and waits for its end",
        load=find_exec,
        component=(r"\bfind\b", r"sha256sum"),
        mechanism=(r"start(s|ed|ing)?\b", r"fork", r"exec", r"new process", r"short-lived", r"processes", r"\bexit", r"\bchild", r"page fault"),
        never=(r"\bdisk\b", r"sleep", r"\block"),
        halves=True,
        needs=("find", "sha256sum"),
    ),
    System(
        name="git_sync_each",
        kind="fsync-per-file",
        truth="git syncs each of the objects that it adds to the disk",
        load=git_loose_objects,
        component=(r"\bgit\b", r"\bdisk\b", r"\b([sv]d[a-z]|nvme\d)", r"block device"),
        mechanism=DISK,
        never=(r"sleep", r"\block", r"network"),
        change="x0",
        halves=True,
        needs=("git",),
    ),
    System(
        name="sftp_one_request",
        kind="one-outstanding-request",
        truth="sftp asks for the next 2 KiB only when it has the last ones, so that each piece costs a round trip through four processes",
        load=sftp_one_request,
        component=(r"\bsftp\b", r"\bssh\b", r"sftp-server", r"\bsshd\b"),
        mechanism=(r"round.?trip", r"request", r"repl", r"answer", r"wake", r"one (\w+ )*(at a time|after)", r"back and forth", r"ping.?pong", r"messages?", r"small", r"one another", r"each other", r"in turn"),
        never=(r"\bdisk\b", r"sleep", r"\block"),
        halves=True,
        needs=("sftp", "ssh-keygen", "/usr/sbin/sshd"),
    ),
    System(
        name="dd_read_quota",
        kind="io-quota",
        truth="the control group of dd may read 20 MB of the disk in a second, and dd waits for its reads",
        load=read_quota,
        component=(r"\bdd\b", r"\bdisk\b", r"\b([sv]d[a-z]|nvme\d)", r"block device"),
        mechanism=(r"\bdisk\b", r"\bread", r"block", r"throttl", r"I/O", r"quota", r"limit"),
        never=(r"comput", r"sleep", r"\bsync", r"pipe.* full"),
        halves=True,
        needs=("dd", "sha256sum"),
    ),
    System(
        name="sed_unbuffered",
        kind="unbuffered-stage",
        truth="sed -u reads a pipe byte by byte and writes line by line",
        load=sed_unbuffered,
        component=(r"\bsed\b",),
        mechanism=(r"\bread", r"writ", r"system call", r"kernel", r"small", r"byte", r"comput", r"one thread"),
        never=(r"\bdisk\b", r"sleep", r"\block"),
        needs=("sed", "awk", "sort", "cat"),
    ),
    System(
        name="go_log_datagrams",
        kind="slow-log-sink",
        truth="logkeeper syncs every second line of the log to the disk, so that the Go server checkout waits for room in its socket",
        load=slow_log_sink,
        rate=WRK,
        component=(r"logkeeper", r"perl", r"\bdisk\b", r"\b([sv]d[a-z]|nvme\d)", r"block device"),
        mechanism=DISK,
        never=(r"wrk", r"sleep"),
        halves=True,
        running=True,
        needs=("go", "perl", "wrk"),
    ),
]
