"""Programs on one host with needless waits: for a notification, before typing, for a hanging job.
"""
import os

from system import ITEMS, PYTHON, SLEEPS, System

# One thread packs items of another one. Its wait has a time limit, which was added after it once
# hung.
PACKING = """
import java.util.ArrayDeque;
import java.util.zip.CRC32;

public class Main {
    static final ArrayDeque<byte[]> belt = new ArrayDeque<>();
    static final Object done = new Object();
    static int packed = 0;

    public static void main(String[] words) throws Exception {
        long patience = Long.parseLong(words[1]);
        boolean isNotified = words[2].equals("notify");
        Thread packer = new Thread(() -> {
            try {
                while (true) {
                    byte[] parcel;
                    synchronized (belt) {
                        while (belt.isEmpty()) belt.wait(patience);
                        parcel = belt.poll();
                    }
                    CRC32 sum = new CRC32();
                    for (int n = 0; n < 8; n++) sum.update(parcel);
                    synchronized (done) { packed++; done.notify(); }
                }
            } catch (InterruptedException end) { }
        }, "packer");
        packer.setDaemon(true);
        packer.start();
        Thread.currentThread().setName("conveyor");
        long begin = System.nanoTime(), end = begin + (long) (Double.parseDouble(words[0]) * 1e9);
        int items = 0;
        byte[] parcel = new byte[1 << 20];
        while (System.nanoTime() < end) {
            for (int n = 0; n < parcel.length; n++) parcel[n] += n ^ items;
            synchronized (belt) {
                belt.add(parcel);
                if (isNotified) belt.notify();
            }
            items++;
            synchronized (done) { while (packed < items) done.wait(); }
        }
        System.out.printf("items %d seconds %.3f%n", items, (System.nanoTime() - begin) / 1e9);
    }
}
"""


def missing_notify(place):
    return ["java", "-cp", str(place.java(PACKING)), "Main", str(place.seconds), str(round(40 * place.scale)), "notify" if place.fixed else "silent"]


# Types commands into tclsh on a pseudo terminal, and reads each answer up to the next prompt.
PROVISION = """#!/usr/bin/python3
import os, pty, sys, time

delay, count = float(sys.argv[1]), int(sys.argv[2])
child, terminal = pty.fork()
if child == 0:
    os.execvp("tclsh", ["tclsh"])

def answer():
    text = b""
    while not text.endswith(b"% "):
        text += os.read(terminal, 4096)
    return text

answer()
begin = time.monotonic()
for n in range(count):
    if delay:
        time.sleep(delay)
    os.write(terminal, b"set sum 0; for {set i 0} {$i < 10000} {incr i} {incr sum $i}; expr {$sum + %d}\\n" % n)
    answer()
print(f"items {count} seconds {time.monotonic() - begin:.3f}")
os.write(terminal, b"exit\\n")
os.waitpid(child, 0)
"""


def delay_before_typing(place):
    return [str(place.write("provision", PROVISION)), str(0.06 * place.fault), "70"]


# Each fourth entry is a named pipe into which no process writes.
FINGERPRINT = """#!/bin/sh
if [ "$1" = 0 ] && [ -p "$2" ]; then exit 0; fi
timeout "$1" sha256sum "$2" > /dev/null || echo "$2: no answer"
"""


def hung_job(place):
    for n in range(32):
        path = place.folder / f"entry{n:02}"
        os.mkfifo(path) if n % 4 == 1 else path.write_bytes(os.urandom(1 << 20) * 2)
    script = place.write("fingerprint", FINGERPRINT)
    return ["sh", "-c", f"ls | grep entry | xargs -n 1 {script} {0.5 * place.fault:g}"]


SYSTEMS = [
    System(
        name="java_missing_notify",
        kind="missed-wake-up",
        truth="the thread packer of Java is not notified of a parcel, and finds it only when its wait of 40 ms is over, while the thread conveyor waits for it",
        load=missing_notify,
        rate=ITEMS,
        component=(r"\bjava\b", r"packer"),
        mechanism=(*SLEEPS, r"time ?out", r"timed wait", r"wait(s|ing)? with a (time|limit)"),
        never=(r"(java|packer|conveyor) comput", r"conveyor sleep"),
        change="x0",
        halves=True,
        needs=("java", "javac"),
    ),
    System(
        name="tclsh_typing_delay",
        kind="delay-before-send",
        truth="provision sleeps 60 ms before it types each command into the terminal of tclsh",
        load=delay_before_typing,
        rate=ITEMS,
        component=(r"provision",),
        mechanism=(*SLEEPS, r"delay"),
        never=(r"(tclsh|provision) comput", r"tclsh sleep"),
        change="x0",
        halves=True,
        needs=("tclsh", PYTHON),
    ),
    System(
        name="xargs_hung_job",
        kind="hung-job",
        truth="each fourth sha256sum hangs when it opens a pipe that nobody writes, until timeout ends it after 0.5 s, and xargs starts the next job only then",
        load=hung_job,
        component=(r"\btimeout\b", r"sha256sum", r"fingerprint", r"\bfifo\b", r"named pipe"),
        mechanism=(*SLEEPS, r"time ?out (end|kill|wait)", r"\bopen", r"\bfifo\b", r"\bpipe\b", r"\bhang", r"\bhung"),
        never=(r"sha256sum comput", r"\bdisk\b"),
        change="x0",
        halves=True,
        needs=("xargs", "timeout", "sha256sum"),
    ),
]
