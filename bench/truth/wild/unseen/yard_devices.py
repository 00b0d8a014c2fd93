"""File systems and terminals that sometimes do not accept writes."""
import contextlib
import subprocess

from system import ITEMS, PYTHON, SLEEPS, System


def mounted(place, name, *words):
    """An empty folder on which a file system is mounted until the end."""
    path = place.folder / name
    path.mkdir()
    place.run("mount", *words, path)
    place.stack.callback(subprocess.run, ["umount", "-l", str(path)], capture_output=True)
    return path


# Stores each letter as a file that appears completely or not at all.
SCRIBE = """#!/usr/bin/perl
use strict; use Time::HiRes 'time';
my ($folder, $seconds) = @ARGV;
my ($begin, $items) = (time, 0);
while (time < $begin + $seconds) {
    my $sum = 0;
    $sum = ($sum * 31 + $_) % 65521 for 1 .. 3000;
    my $path = "$folder/letter" . $items % 500;
    open my $letter, '>', "$path.new" or die;
    print $letter "Dear $sum, " x 200;
    close $letter or die;
    rename "$path.new", $path or die;
    $items++;
}
printf "items %d seconds %.3f\\n", $items, time - $begin;
"""
# Takes images of a disk while no process may write to it.
IMAGER = """#!/usr/bin/perl
use strict;
my ($folder, $hold) = @ARGV;
my $go = 1;
$SIG{TERM} = sub { $go = 0 };
while ($go) {
    system 'fsfreeze', '--freeze', $folder;
    select undef, undef, undef, $hold if $hold > 0;
    system 'fsfreeze', '--unfreeze', $folder;
    select undef, undef, undef, 0.08;
}
"""


def imaged(place):
    image = place.folder / "disk.img"
    place.run("truncate", "-s", "64M", image)
    place.run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
    letters = mounted(place, "letters", "-o", "loop,noauto_da_alloc", image)

    def thaw():
        with contextlib.suppress(OSError):
            subprocess.run(["fsfreeze", "--unfreeze", str(letters)], capture_output=True)

    place.stack.callback(thaw)
    place.start(place.write("imager", IMAGER), letters, 0.25 * place.fault)
    return [str(place.write("scribe", SCRIBE)), str(letters), str(place.seconds)]


# A printer at a serial line. It prints a page, stops the line, feeds the next sheet, and continues.
PRINTER = """#!/usr/bin/python3
import os, sys, termios, time, zlib
line, feed = sys.argv[1], float(sys.argv[2])
master, slave = os.openpty()
mode = termios.tcgetattr(slave)
mode[0] = termios.IXON
mode[1] = mode[3] = 0
termios.tcsetattr(slave, termios.TCSANOW, mode)
os.symlink(os.ttyname(slave), line)
page = bytearray()
while True:
    data = os.read(master, 65536)
    while data:
        head, end, data = data.partition(b"\\f")
        page += head
        if not end:
            break
        raster = bytes(page) * 60
        zlib.compress(raster, 6)
        page.clear()
        os.write(master, b"\\x13")
        if feed:
            time.sleep(feed)
        os.write(master, b"\\x11")
"""
SPOOL = """#!/usr/bin/ruby --disable=gems
line = File.open(ARGV[0], 'r+b')
line.sync = true
start, pages = Process.clock_gettime(Process::CLOCK_MONOTONIC), 0
while Process.clock_gettime(Process::CLOCK_MONOTONIC) < start + ARGV[1].to_f
  text = (1..60).map { |number| format('%4d  %-60s %8.2f', number, "order #{pages * 60 + number}", number * 1.19) }.join("\\n")
  line.write(text + "\\f")
  pages += 1
end
puts "items #{pages} seconds #{(Process.clock_gettime(Process::CLOCK_MONOTONIC) - start).round(3)}"
"""


def printed(place):
    line = place.folder / "lp0"
    place.start(place.write("printer", PRINTER), line, 0.018 * place.fault, path=line)
    return [str(place.write("spool", SPOOL)), str(line), str(place.seconds)]


# Draws frames into a small file system in memory. The encoder takes them from there.
RENDER = """
package main

import ("errors"; "fmt"; "os"; "strconv"; "syscall"; "time")

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	again, _ := time.ParseDuration(os.Args[3])
	end := time.Now().Add(time.Duration(seconds * 1e9))
	frame := make([]byte, 256 << 10)
	for number := 0; time.Now().Before(end); number++ {
		for i := range frame {
			x, y := i & 511 - 256, i >> 9 - 256 + number & 63
			frame[i] = byte((x * x + y * y) >> 9)
		}
		path := fmt.Sprintf("%s/frame%d", os.Args[1], number)
		for {
			err := os.WriteFile(path, frame, 0o644)
			if err == nil { break }
			os.Remove(path)
			if !errors.Is(err, syscall.ENOSPC) { panic(err) }
			time.Sleep(again)
			if !time.Now().Before(end) { return }
		}
		fmt.Println(path)
	}
}
"""
ENCODER = """#!/usr/bin/python3
import os, sys, time, zlib
items, begin = 0, time.monotonic()
for line in iter(sys.stdin.readline, ""):
    with open(line.strip(), "rb") as frame:
        zlib.compress(frame.read(), 1)
    os.unlink(line.strip())
    items += 1
print("items %d seconds %.3f" % (items, time.monotonic() - begin))
"""


def drawn(place):
    frames = mounted(place, "frames", "-t", "tmpfs", "-o", f"size={'64m' if place.fixed else '1m'}", "frames")
    place.go("render", RENDER)
    place.write("encoder", ENCODER)
    return ["sh", "-c", f"./render {frames} {place.seconds} {60 * place.scale:g}ms | ./encoder"]


SYSTEMS = [
    System(
        name="ext4_frozen_for_images",
        kind="frozen-file-system",
        truth="imager freezes the file system of scribe for 250 ms again and again, and scribe waits in its calls meanwhile",
        load=imaged,
        rate=ITEMS,
        component=(r"imager", r"fsfreeze", r"fr[eo]ez", r"frozen"),
        mechanism=(*SLEEPS, r"fr[eo]ez", r"frozen", r"thaw", r"suspend"),
        never=(r"scribe computes", r"\bdisk (is|writes|reads)"),
        change="x0",
        halves=True,
        running=True,
        needs=("perl", "fsfreeze", "mkfs.ext4", "mount"),
    ),
    System(
        name="pty_sheet_feed",
        kind="software-flow-control",
        truth="printer has its line stopped by XOFF after each page, and lets it go on after 18 ms",
        load=printed,
        rate=ITEMS,
        component=(r"printer",),
        mechanism=(*SLEEPS, r"xo(n|ff)", r"flow control", r"\bstops? (the|its) line", r"pause"),
        never=(r"\bdisk\b", r"(printer|spool) computes", r"spool sleeps"),
        change="x0",
        halves=True,
        running=True,
        needs=(PYTHON, "ruby"),
    ),
    System(
        name="tmpfs_no_space",
        kind="full-file-system",
        truth="the tmpfs between render and encoder has room for four frames only; render sleeps 60 ms whenever there is none",
        load=drawn,
        rate=ITEMS,
        component=(r"render", r"tmpfs"),
        mechanism=(*SLEEPS, r"no (space|room)", r"ENOSPC", r"\bfull\b", r"back.?off", r"retr(y|ies)", r"tries again"),
        never=(r"(encoder|render) computes", r"encoder sleeps", r"\bdisk\b"),
        halves=True,
        needs=("go", PYTHON, "mount"),
    ),
]
