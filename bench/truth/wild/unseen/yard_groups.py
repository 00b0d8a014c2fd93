"""A night job and the work of the day, each in its own control group."""
import contextlib
import os
import time
from pathlib import Path

from system import ITEMS, System

# Enters its control group, then packs blocks with two threads; a third thread fills the blocks.
PACKER = """
import java.nio.file.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.zip.*;

public class Main {
    public static void main(String[] words) throws Exception {
        Files.writeString(Path.of(words[1]), "0");
        long begin = System.nanoTime(), end = begin + Long.parseLong(words[0]) * 1000000000L;
        BlockingQueue<byte[]> blocks = new ArrayBlockingQueue<>(8);
        Thread reader = new Thread(() -> {
            try {
                for (int block = 0; ; block++) {
                    byte[] bytes = new byte[32768];
                    for (int i = 0; i < bytes.length; i++) bytes[i] = (byte) ((i * 31 + block) % 251 & i >> 7);
                    blocks.put(bytes);
                }
            } catch (InterruptedException e) { }
        }, "reader");
        reader.start();
        AtomicLong items = new AtomicLong();
        Thread[] packers = new Thread[2];
        for (int packer = 0; packer < 2; packer++) {
            packers[packer] = new Thread(() -> {
                byte[] packed = new byte[65536];
                try {
                    while (System.nanoTime() < end) {
                        Deflater deflater = new Deflater(6);
                        deflater.setInput(blocks.take());
                        deflater.finish();
                        deflater.deflate(packed);
                        deflater.end();
                        items.incrementAndGet();
                    }
                } catch (InterruptedException e) { }
            }, "packer-" + packer);
            packers[packer].start();
        }
        for (Thread packer : packers) packer.join();
        reader.interrupt();
        System.out.printf("items %d seconds %.3f%n", items.get(), (System.nanoTime() - begin) / 1e9);
        System.exit(0);
    }
}
"""
# Updates the index of the shop, with two processes.
INDEXER = """#!/usr/bin/perl
use strict;
while (1) {
    my %index;
    push @{$index{$_ * 7919 % 3001}}, $_ for 1 .. 20000;
    my @words = sort { $a <=> $b } keys %index;
}
"""


def removed(group):
    for _ in range(100):
        with contextlib.suppress(OSError):
            return group.rmdir()
        time.sleep(0.02)


def beside(place):
    groups = {}
    for name, shares in ("night", 1024 if place.fixed else 256), ("day", 1024):
        groups[name] = group = Path("/sys/fs/cgroup/cpu") / f"{name}-{os.getpid()}"
        group.mkdir()
        place.stack.callback(removed, group)
        (group / "cpu.shares").write_text(str(shares))
    indexer = place.write("indexer", INDEXER)
    for _ in range(2):
        place.start("sh", "-c", f"echo 0 > {groups['day']}/cgroup.procs; exec {indexer}")
    return ["java", "-Xmx64m", "-XX:+UseSerialGC", "-cp", str(place.java(PACKER)), "Main", str(place.seconds), f"{groups['night']}/cgroup.procs"]


SYSTEMS = [
    System(
        name="java_group_of_the_night",
        kind="group-weight",
        truth="the control group of the packing job in java has 256 CPU shares, that of indexer 1024, so that the job waits for the CPUs, which indexer has",
        load=beside,
        rate=ITEMS,
        component=(r"\bjava", r"pack", r"reader", r"indexer", r"perl", r"night", r"\bday\b"),
        mechanism=(r"waits? for (a|the|its|one of the|any) CPUs?", r"runnable", r"preempt", r"(has|have|had|keeps?|takes?|occup(y|ies)|holds?|uses?) (the|a|its|both|all|two) CPUs?",
                   r"CPU shares?", r"cpu\.shares", r"weight", r"\bc?groups?\b", r"priorit", r"scheduler"),
        never=(r"\bdisk\b", r"\bsleeps", r"collect", r"\bjava computes"),
        needs=("java", "javac", "perl"),
    ),
]
