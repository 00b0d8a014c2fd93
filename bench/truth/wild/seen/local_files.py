"""Files: a mount that syncs, ownership changed in a container, a lock of a backup, a full spool."""
import os

from services import private_network
from system import COMPUTES, ITEMS, LOCKS, PYTHON, System


def synchronous_mount(place):
    """Unpacks a release into a file system that is mounted with `sync`."""
    (place.folder / "release").mkdir()
    for number in range(400):
        place.write(f"release/page{number}.txt", f"page {number} of the manual\n" * 40)
    place.run("sh", "-c", "tar cf - release | zstd -q -o release.tar.zst")
    option = "async" if place.fixed else "sync"
    (place.folder / "data").mkdir()
    inside = private_network(place, f"truncate -s 200M {place.folder}/disk", f"mkfs.ext4 -q {place.folder}/disk", f"mount -o loop,{option} {place.folder}/disk {place.folder}/data")
    return [*inside, "sh", "-c", f"cd {place.folder} && zstd -q -d -c release.tar.zst | tar xf - -C data"]


ENTRYPOINT = """#!/bin/sh
# Gives the files to the user of the service, and starts it.
chown -R daemon root/srv || exit 1
exec ./service root/srv
"""

SERVICE = """#!/usr/bin/python3
import os, sys
names = sorted(os.listdir(sys.argv[1]))
print("ready with", len(names), "models, the first of", os.stat(f"{sys.argv[1]}/{names[0]}").st_uid)
"""


def ownership_in_container(place):
    """Without `metacopy` each file is copied to the upper layer because its owner changes."""
    for name in "image/srv", "upper", "work", "root":
        (place.folder / name).mkdir(parents=True)
    block = os.urandom(2**17)
    for number in range(round(700 * place.scale)):
        (place.folder / f"image/srv/model{number}").write_bytes(block)
    # Otherwise the disk would still be busy with these files.
    place.run("sync", "-f", place.folder)
    place.write("entrypoint", ENTRYPOINT)
    place.write("service", SERVICE)
    options = "lowerdir=image,upperdir=upper,workdir=work,metacopy=" + ("on" if place.fixed else "off")
    inside = private_network(place, f"cd {place.folder}", f"mount -t overlay overlay -o {options} root")
    return [*inside, "sh", "-c", f"cd {place.folder} && exec ./entrypoint"]


BACKUP = """#!/bin/bash
# Sums the spool up from time to time: with its lock, or only looks at its size with the lock.
while true; do
    if [ "$1" = locked ]; then
        flock spool.lock sha256sum archive >sums
    else
        flock spool.lock stat archive >sizes
        sha256sum archive >sums
    fi
    sleep 0.03
done
"""

INTAKE = """#!/usr/bin/perl
# Appends an order every few milliseconds.
use strict;
use Fcntl ':flock';
use Time::HiRes 'time';
my ($begin, $items) = (time, 0);
while (time < $begin + $ARGV[0]) {
    open(my $lock, '>>', 'spool.lock') or die;
    flock($lock, LOCK_EX) or die;
    open(my $spool, '>>', 'spool') or die;
    print $spool "order $items\\n";
    close($spool);
    close($lock);
    $items++;
    select(undef, undef, undef, 0.002);
}
printf("items %d seconds %.3f\\n", $items, time - $begin);
"""


def backup_lock(place):
    with (place.folder / "archive").open("wb") as out:
        out.truncate(round(60 * 2**20 * place.scale))
    place.start(place.write("backup", BACKUP), "free" if place.fixed else "locked")
    return [str(place.write("intake", INTAKE)), str(place.seconds)]


# Takes the oldest job of the spool, which it lists again each time. Finished jobs stay in the
# spool.
DISPATCHER = """#!/usr/bin/ruby
bell, results = File.open('bell', 'r+'), File.open('results', 'r+')
results.sync = true
while bell.gets
  job = Dir.children('spool').select { |name| name.end_with?('.job') }.min
  amount = File.read("spool/#{job}").to_i
  File.delete("spool/#{job}")
  results.puts amount * 2
end
"""

SUBMIT = """#!/usr/bin/python3
import os, sys, time

results, bell = open("results", "rb+", buffering=0), open("bell", "wb+", buffering=0)
begin, items = time.monotonic(), 0
while time.monotonic() < begin + float(sys.argv[1]):
    with open("new", "w") as out:
        print(items, file=out)
    os.rename("new", f"spool/{items:08}.job")
    bell.write(b"-\\n")
    results.readline()
    items += 1
print(f"items {items} seconds {time.monotonic() - begin:.3f}")
"""


def full_spool(place):
    (place.folder / "spool").mkdir()
    place.run("sh", "-c", f"seq -f spool/order-%08g.done {round(6000 * place.fault)} | xargs -r touch")
    for pipe in "results", "bell":
        os.mkfifo(place.folder / pipe)
    place.start(place.write("dispatcher", DISPATCHER))
    return [str(place.write("submit", SUBMIT)), str(place.seconds)]


SYSTEMS = [
    System(
        name="tar_synchronous_mount",
        kind="synchronous-mount",
        truth="tar unpacks small files into a file system that is mounted with sync, so that each of them waits for the disk",
        load=synchronous_mount,
        component=(r"\btar\b",),
        mechanism=(r"\bdisk\b", r"\bsync", r"block device", r"\bloop\d*\b", r"\bjbd2", r"journal", r"\bI/O\b", r"storage"),
        never=(r"zstd comput", r"tar comput", r"\bsleeps"),
        needs=("tar", "zstd", "mkfs.ext4", "mount", "unshare", "nsenter"),
    ),
    System(
        name="overlay_chown_copies",
        kind="copy-up",
        truth="chown -R in a container makes overlayfs copy all files to the upper layer and sync them",
        load=ownership_in_container,
        component=(r"chown",),
        mechanism=(r"\bdisk\b", r"\bsync", r"block device", r"cop(y|ies)", r"overlay", r"\bI/O\b", r"storage", r"\bwrit", r"fchown", r"system call", r"in the kernel"),
        never=(r"\bsleeps", r"python", r"service comput"),
        halves=True,
        needs=("chown", "mount", "unshare", "nsenter", PYTHON),
    ),
    System(
        name="backup_holds_lock",
        kind="file-lock",
        truth="backup holds the lock of the spool while sha256sum computes, and intake waits for it",
        load=backup_lock,
        rate=ITEMS,
        component=(r"backup", r"sha256sum", r"\bflock\b"),
        mechanism=LOCKS,
        never=(r"\bdisk\b", r"backup sleeps", r"intake sleeps"),
        halves=True,
        needs=("bash", "flock", "sha256sum", "perl"),
    ),
    System(
        name="ruby_full_spool",
        kind="directory-scan",
        truth="dispatcher lists a directory of 6000 files for each job",
        load=full_spool,
        rate=ITEMS,
        component=(r"dispatcher", r"ruby"),
        mechanism=(*COMPUTES, r"director", r"getdents", r"\blists?\b"),
        never=(r"\bdisk\b", r"\bsleeps", r"submit (comput|runs)"),
        halves=True,
        needs=("ruby", PYTHON),
    ),
]
