"""The field stations of a coast guard: five frequent faults of transfers, names, logs and limits of
the kernel, and two healthy parts of the same stations.
"""
import os
import struct
import time
from pathlib import Path

from services import nginx, private_network
from system import ITEMS, WRK, System, number, wrk

DISK = (r"\bwait(s|ing)? for (the |a )?(disk|sync|writeback)", r"reads? from the disk")

# A new station gets the charts from headquarters. Somebody has copied the `socket options` from a
# page with tuning advice for other software.
def charts(place):
    port, folder = place.port(), place.folder
    (folder / "charts").mkdir()
    picture = os.urandom(1 << 20)
    for chart in range(80):
        (folder / "charts" / f"chart{chart:03}.tif").write_bytes(picture)
    tuning = "" if place.fixed else "socket options = TCP_NODELAY,SO_SNDBUF=8192"
    config = place.write("rsyncd.conf", f"""
address = 127.0.0.1
port = {port}
use chroot = no
uid = root
gid = root
{tuning}
[charts]
path = {folder}/charts
""")
    place.start("rsync", "--daemon", "--no-detach", f"--config={config}", port=port)
    return ["rsync", "-a", f"rsync://127.0.0.1:{port}/charts/", f"{folder}/station/"]


# Three watchers classify the ships of their sector, and log each of them to the station's logbook.
WATCH = """#!/usr/bin/ruby
require "socket"
path, count, watchers = ARGV[0], ARGV[1].to_i, 3

# Returns the class of a ship and the distance of its track from the harbour's.
def classify(ship)
  distance = (1..150).sum { |i| Math.hypot(Math.sin(ship * i), Math.cos(ship + i)) }
  ["fishing", "cargo", "ferry", "sailing"][ship % 4] + format(" %.3f", distance)
end

start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
watchers.times do |watcher|
  fork do
    logbook = Socket.new(:UNIX, :DGRAM)
    logbook.connect(Socket.sockaddr_un(path))
    (count / watchers).times do |i|
      ship = i * watchers + watcher
      logbook.send("<134>watch[#{$$}]: ship #{ship} is #{classify(ship)} miles away", 0)
    end
  end
end
Process.waitall
puts "items #{count} seconds #{(Process.clock_gettime(Process::CLOCK_MONOTONIC) - start).round(3)}"
"""


def logbook(place):
    folder = place.folder
    config = place.write("logbook.conf", f"""
global(workDirectory="{folder}")
module(load="imuxsock" SysSock.Use="off")
main_queue(queue.type="Direct")
input(type="imuxsock" Socket="{folder}/logbook.sock" RateLimit.Interval="0")
action(type="omfile" File="{folder}/logbook.txt" Sync="{'off' if place.fixed else 'on'}")
""")
    place.start("rsyslogd", "-n", "-f", config, "-i", folder / "logbook.pid", path=folder / "logbook.sock")
    return [str(place.write("watch", WATCH)), str(folder / "logbook.sock"), "2000"]


# Computes the heights of the tide for a day from the constituents of a port.
TIDES = """
package main

import ("fmt"; "math"; "net"; "net/http"; "os"; "strconv")

func heights(port int) (highest float64, minute int) {
	for now := 0; now < 1440; now++ {
		height := 4.0
		for wave := 1; wave <= 37; wave++ {
			height += math.Cos(float64(now*wave)/720+float64(port%wave)) / float64(wave)
		}
		if height > highest {
			highest, minute = height, now
		}
	}
	return
}

func main() {
	http.HandleFunc("/tide", func(w http.ResponseWriter, r *http.Request) {
		port, _ := strconv.Atoi(r.URL.Query().Get("port"))
		height, minute := heights(port)
		fmt.Fprintf(w, "high water %.2f m at %02d:%02d\\n", height, minute/60, minute%60)
	})
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil {
		panic(err)
	}
	http.Serve(listener, nil)
}
"""


def limited(place, name, microseconds):
    """Makes a control group that may run for so long in each 100 ms; returns the words before a
    command that should run in it.
    """
    first = Path("/sys/fs/cgroup/cpu")
    group = (first if first.exists() else first.parent) / f"{name}-{os.getpid()}-{time.monotonic_ns()}"
    group.mkdir()
    # The kernel releases the last process a little after its end; then the group can be removed.
    place.stack.callback(removed, group)
    if first.exists():
        (group / "cpu.cfs_quota_us").write_text(str(microseconds or -1))
    else:
        (group / "cpu.max").write_text(f"{microseconds or 'max'} 100000")
    return ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]


def removed(group):
    for _ in range(100):
        try:
            return group.rmdir()
        except OSError:
            time.sleep(0.02)
    group.rmdir()


def tides(place):
    socket = place.folder / "tides.sock"
    bound = limited(place, "tides", 0 if place.fixed else round(20000 / place.fault))
    place.start(*bound, place.go("tides", TIDES), socket, path=socket)
    front = nginx(place, 'location / { proxy_pass http://tides; proxy_http_version 1.1; proxy_set_header Connection ""; }',
                  f"upstream tides {{ server unix:{socket}; keepalive 32; }}")
    return wrk(f"http://127.0.0.1:{front}/tide?port=17", 6, place.seconds)


# Each lightship fetches the weather from the station, from an address of its own. The station is
# in a network of its own, in which nothing answers at the address of the old name server.
LIGHTSHIPS = """#!/bin/bash
export port=$1 key=$2
fetch() {
    scp -q -F none -i $key -P $port -o BindAddress=127.20.0.$1 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \\
        root@127.0.0.1:$PWD/weather.txt weather$1.txt && cmp weather$1.txt weather.txt
}
export -f fetch
seq $3 | xargs -P 6 -I N bash -c 'fetch N'
"""
OLD, NEW = "127.0.9.53", "127.0.9.54"


def weather(place):
    folder, port, ships = place.folder, place.port(), range(1, 7)
    first = "" if place.fixed else f"nameserver {OLD}\n"
    resolver = place.write("resolv.conf", f"{first}nameserver {NEW}\noptions timeout:1 attempts:1\n", mode=0o644)
    # sshd wants an empty folder in /run.
    bound = private_network(
        place, f"mount --bind {resolver} /etc/resolv.conf", "mount -t tmpfs tmpfs /run", "mkdir -m 755 /run/sshd",
        f"nft 'add table ip sea; add chain ip sea in {{ type filter hook input priority 0; }}; add rule ip sea in ip daddr {OLD} drop'")
    zone = "".join(f"""
  local-data-ptr: "127.20.0.{ship} lightship{ship}.coast.internal"
  local-data: "lightship{ship}.coast.internal A 127.20.0.{ship}\"""" for ship in ships)
    config = place.write("unbound.conf", f"""
server:
  interface: {NEW}
  port: 53
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "{folder}"
  pidfile: "{folder}/unbound.pid"
  use-syslog: no
  local-zone: "20.127.in-addr.arpa." static
  local-zone: "coast.internal." static{zone}
""")
    place.start(*bound, "unbound", "-d", "-c", config, path=folder / "unbound.pid")
    for key in ("station", "lightship"):
        place.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key)
    place.write("weather.txt", "".join(f"sector {i}: wind {i % 9}, sea {i % 6}, good\n" for i in range(20000)))
    config = place.write("sshd.conf", f"""
ListenAddress 127.0.0.1:{port}
HostKey {folder}/station
PidFile {folder}/sshd.pid
AuthorizedKeysFile {folder}/lightship.pub
PermitRootLogin yes
StrictModes no
UsePAM no
UseDNS yes
Subsystem sftp internal-sftp
""")
    place.start(*bound, "/usr/sbin/sshd", "-D", "-e", "-f", config, path=folder / "sshd.pid")
    return [*bound, f"--wd={folder}", str(place.write("lightships", LIGHTSHIPS)), str(port), str(folder / "lightship"), str(len(ships))]


# Computes the length of a track from the file of a ship, which has a time and two coordinates for
# each fix.
TRACKS = """
import com.sun.net.httpserver.HttpServer;
import java.io.*;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;

public class Main {
    static double length(InputStream file) throws IOException {
        double length = 0, north = 0, east = 0;
        try (DataInputStream track = new DataInputStream(file)) {
            int fixes = track.readInt();
            for (int i = 0; i < fixes; i++) {
                long time = track.readLong();
                double lastNorth = north, lastEast = east;
                north = track.readInt() / 60000.0;
                east = track.readInt() / 60000.0;
                if (i > 0 && time > 0) {
                    double shrink = Math.cos(Math.toRadians(north));
                    length += Math.hypot(north - lastNorth, (east - lastEast) * shrink) * 60;
                }
            }
        }
        return length;
    }

    public static void main(String[] words) throws Exception {
        boolean buffered = words[1].equals("buffered");
        InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0]));
        HttpServer server = HttpServer.create(address, 100);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/length", exchange -> {
            InputStream file = new FileInputStream("track" + exchange.getRequestURI().getQuery());
            byte[] text = String.format("%.2f miles", length(buffered ? new BufferedInputStream(file) : file)).getBytes();
            exchange.sendResponseHeaders(200, text.length);
            exchange.getResponseBody().write(text);
            exchange.close();
        });
        server.start();
    }
}
"""


def tracks(place):
    port, front, fixes = place.port(), place.port(), 1500
    records = [struct.pack(">qii", 1 + i * 10, 3240000 + i * 7 % 90, 480000 + i * 5 % 70) for i in range(fixes)]
    track = struct.pack(">i", fixes) + b"".join(records)
    (place.folder / "track7").write_bytes(track)
    place.start("java", "-Dsun.net.httpserver.nodelay=true", "-Xmx128m", "-cp", place.java(TRACKS), "Main", port,
                "buffered" if place.fixed else "plain", port=port)
    config = place.write("haproxy.cfg", f"""
global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend tracks
    bind 127.0.0.1:{front}
    default_backend tracks
backend tracks
    server tracks 127.0.0.1:{port}
""")
    place.start("haproxy", "-db", "-f", config, port=front)
    return wrk(f"http://127.0.0.1:{front}/length?7", 6, place.seconds)


# Control: the radar sends 25 pictures of 300 KB in each second by its own clock.
def radar(place):
    port, relay = place.port(), place.port()
    place.start("iperf3", "-s", "-B", "127.0.0.1", "-p", port)
    place.start("socat", "-b", "131072", f"TCP4-LISTEN:{relay},bind=127.0.0.1,reuseaddr,fork", f"TCP4:127.0.0.1:{port}")
    # iperf3 would take a connection that only tests the port for a client.
    for listening in (port, relay):
        found = f"grep -q ':{listening:04X} 00000000:0000 0A' /proc/net/tcp"
        place.run("bash", "-c", f"for i in {{1..200}}; do {found} && exit; sleep 0.05; done; exit 1")
    return ["iperf3", "-c", "127.0.0.1", "-p", str(relay), "-b", "60M", "-l", "300K", "-f", "m", "-t", str(place.seconds)]


# Control: unbound has all names in its own zone, and answers as fast as the CPUs permit.
def names(place):
    port, folder = place.port(), place.folder
    buoys = [f"buoy{i}.coast.internal" for i in range(500)]
    config = place.write("unbound.conf", f"""
server:
  interface: 127.0.0.1
  port: {port}
  num-threads: 2
  so-reuseport: yes
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "{folder}"
  pidfile: "{folder}/unbound.pid"
  use-syslog: no
  local-zone: "coast.internal." static
""" + "".join(f'  local-data: "{name} A 127.30.{i >> 8}.{i & 255}"\n' for i, name in enumerate(buoys)))
    place.start("unbound", "-d", "-c", config, port=port)
    queries = place.write("queries.txt", "".join(f"{name} A\n" for name in buoys))
    return ["dnsperf", "-s", "127.0.0.1", "-p", str(port), "-d", str(queries), "-c", "8", "-T", "2", "-l", str(place.seconds)]


COMPUTES = r"(user|kernel|\brun|preempted|interrupted|comput|own code|\bCPU)"
NOTHING = (r"[Nn]othing stands out", r"[Nn]o (single |one )?(program|process|thread|bottleneck)")
SYSTEMS = [
    System(
        name="lighthouse_charts_through_small_buffer",
        kind="small-socket-buffer",
        truth="the daemon of rsync waits in poll until its peer has acknowledged the last block, "
              "because `socket options` limit its send buffer to 8 KB, and the receiving rsync "
              "waits for data",
        load=charts,
        component=(r"\brsync",),
        mechanism=(r"buffer", r"window", r"\back(s|ed|nowledg\w*)?\b", r"\b(room|space)\b", r"to send", r"to write", r"writ(e|a)able",
                   r"\bSNDBUF", r"in flight", r"round trips?", r"wait for one another", r"each other", r"take(s)? (the |its )?data"),
        never=(*DISK, r"rsync (\([^)]*\) )?(computes|sleeps)", r"runs its own code"),
        needs=("rsync",),
    ),
    System(
        name="lighthouse_logbook_synced_each_line",
        kind="fsync-per-line",
        truth="rsyslogd waits for the disk, because it calls fsync after each line of its log; "
              "the three watch processes, in ruby, wait until its unix socket has room",
        load=logbook,
        rate=ITEMS,
        component=(r"rsyslog", r"in:imuxsock", r"logbook"),
        mechanism=(r"\bdisk\b", r"f(data)?sync", r"\bsync", r"flush", r"journal", r"jbd2", r"writeback", r"ext4"),
        never=(r"(ruby|watch|rsyslogd|imuxsock) (\([^)]*\) )?(computes|sleeps)",),
        needs=("rsyslogd", "ruby"),
    ),
    System(
        name="lighthouse_tides_in_small_quota",
        kind="cpu-quota",
        truth="tides, in Go, may run only for 20 ms in each 100 ms, because its control group has "
              "a CPU quota; the CPUs are idle in the rest of the time, and nginx waits for it",
        load=tides,
        rate=WRK,
        component=(r"\btides\b",),
        mechanism=(r"quota", r"throttl", r"control group", r"cgroup", r"cpu\.max", r"cfs", r"\blimit",
                   r"not (allowed|permitted) to run", r"bandwidth"),
        never=(*DISK, r"tides (\([^)]*\) )?sleeps", r"\block\b"),
        halves=True,
        running=True,
        needs=("go", "nginx", "wrk"),
    ),
    System(
        name="lighthouse_weather_by_dead_name_server",
        kind="dns-timeout",
        truth="sshd waits 1 s in poll for a reply of the first name server of resolv.conf, 127.0.9.53, "
              "which never answers, before it asks the second one; with UseDNS it looks up the name "
              "and the address of each client",
        load=weather,
        component=(r"\bsshd\b", r"127\.0\.9\.53", r"name ?servers?", r"resolv"),
        mechanism=(r"\bDNS\b", r"name ?server", r"resol(v|ution)", r"look(s|ed)? ?up", r"127\.0\.9\.53", r"port 53\b", r":53\b",
                   r"\bdomain\b", r"\bUDP\b", r"time-?outs?\b", r"timed? out", r"never (answer|repl)", r"no (answer|reply)",
                   r"without (an? )?(answer|reply)", r"unanswered"),
        never=(*DISK, r"sshd (\([^)]*\) )?computes", r"unbound (\([^)]*\) )?(computes|sleeps)", r"\block\b"),
        needs=("/usr/sbin/sshd", "scp", "unbound", "nft", "unshare", "nsenter"),
    ),
    System(
        name="lighthouse_tracks_byte_by_byte",
        kind="unbuffered-reads",
        truth="java (Tracks) spends its time in the system call read, of one to eight bytes each, "
              "because its DataInputStream has no buffer over the file",
        load=tracks,
        rate=WRK,
        component=(r"\bjava\b", r"HTTP-Dispatcher", r"\bpool-1-thread"),
        mechanism=(r"\breads?\b", r"system calls?", r"syscalls?", r"in the kernel", r"\bkernel\b", r"unbuffered", r"small (reads|pieces)",
                   r"\bbytes?\b", r"FileInputStream", r"\b(vfs|ext4|ksys|filemap)_\w*read"),
        never=(*DISK, r"java (\([^)]*\) )?sleeps", r"\block\b"),
        code=(r"read",),
        needs=("java", "javac", "haproxy", "wrk"),
    ),
    System(
        name="control_lighthouse_radar",
        kind="control",
        truth="iperf3 sends 25 pictures a second by its own clock through socat, and all are idle "
              "most of the time",
        load=radar,
        rate=number(r"([\d.]+) Mbits/sec.*sender"),
        acceptable=(*NOTHING, r"\b[Pp]aced\b", r"iperf3.*(sleep|timer|until a time|clock)", r"load generator", r"\bidle\b"),
        needs=("iperf3", "socat"),
    ),
    System(
        name="control_lighthouse_names",
        kind="control",
        truth="dnsperf asks as fast as two threads of unbound can answer from their zone, and both "
              "CPUs are full",
        load=names,
        rate=number(r"Queries per second:\s+([\d.]+)"),
        acceptable=(*NOTHING, rf"(unbound|dnsperf).*{COMPUTES}", r"load generator", r"([Bb]oth|[Aa]ll|[Tt]he) CPUs"),
        needs=("unbound", "dnsperf"),
    ),
]
