"""Commands that pass files on: tar, xz, zstd, dd, rsync, ssh. Each has a fixed amount of work."""
import random

from system import COMPUTES, SLEEPS, System


def text(mebibytes, seed=7):
    """Returns text that takes a compressor some time."""
    of = random.Random(seed)
    words = ["%x" % of.getrandbits(of.choice((8, 16, 24, 32))) for _ in range(20000)]
    part = " ".join(of.choice(words) for _ in range(mebibytes * 1024 * 1024 // 7)).encode()
    return part[:mebibytes * 1024 * 1024]


def compressed(place):
    (place.folder / "tree").mkdir()
    whole = text(5)
    for part in range(20):
        (place.folder / f"tree/part{part}").write_bytes(whole[part * 262144:(part + 1) * 262144])
    return ["bash", "-c", f"tar cf - tree | {'zstd -q -1' if place.fixed else 'xz -T1 -6'} >tree.tar.compressed"]


def tiny_blocks(place):
    place.write("image", "\0" * (12 << 20))
    return ["bash", "-c", f"dd if=image bs={'64k' if place.fixed else '8'} status=none | sha256sum"]


def limited(place):
    port, folder = place.port(), place.folder
    (folder / "tree").mkdir()
    for part in range(24):
        (folder / f"tree/part{part}").write_bytes(random.Random(part).randbytes(1 << 20))
    config = place.write("rsyncd.conf", f"use chroot = no\naddress = 127.0.0.1\nport = {port}\npid file = {folder}/rsyncd.pid\n[tree]\npath = {folder}/tree\nuid = root\ngid = root\n")
    place.start("rsync", "--daemon", "--no-detach", f"--config={config}", port=port)
    return ["rsync", "-a", *([] if place.fixed else [f"--bwlimit={round(8 / place.fault)}M"]), f"rsync://127.0.0.1:{port}/tree/", "copy/"]


def secure_copy(place):
    port, folder = place.port(), place.folder
    for key in "host", "client":
        place.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{key}.key")
    (folder / "data").write_bytes(text(3) * 16)
    config = place.write("sshd.conf", f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host.key\nAuthorizedKeysFile {folder}/client.key.pub\nStrictModes no\nUsePAM no\n"
                         f"PermitRootLogin yes\nPidFile {folder}/sshd.pid\nCompression yes\n", 0o600)
    place.run("install", "-d", "-m", "755", "/run/sshd")
    place.start("/usr/sbin/sshd", "-D", "-f", config, port=port)
    options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "IdentitiesOnly=yes", f"Compression={'no' if place.fixed else 'yes'}")
    ssh = " ".join(["ssh", "-F", "/dev/null", "-i", "client.key", "-p", str(port), *(f"-o {option}" for option in options), "root@127.0.0.1"])
    return ["bash", "-c", f"{ssh} 'cat >/dev/null' <data"]


SYSTEMS = [
    System(
        name="tar_xz_one_thread",
        kind="slow-compressor",
        truth="xz compresses with one thread what tar gives it much faster",
        load=compressed,
        component=(r"\bxz\b",),
        mechanism=(*COMPUTES, r"lzma", r"compress"),
        never=(r"\bdisk\b", r"\bsleeps"),
        needs=("tar", "xz", "zstd"),
    ),
    System(
        name="dd_tiny_blocks",
        kind="tiny-reads-and-writes",
        truth="dd reads and writes 8 bytes with each system call",
        load=tiny_blocks,
        component=(r"\bdd\b",),
        mechanism=(r"system call", r"syscall", r"\bread", r"\bwrit", r"in the kernel", r"\bbytes\b"),
        never=(r"\bdisk\b", r"\bsleeps"),
        needs=("dd", "sha256sum"),
    ),
    System(
        name="rsync_bandwidth_limit",
        kind="token-bucket",
        truth="rsync's daemon sleeps between writes, because it was told to send at most 8 MiB in a second",
        load=limited,
        component=(r"rsync",),
        mechanism=SLEEPS,
        never=(r"comput", r"\bdisk\b"),
        change="x0",
        halves=True,
        needs=("rsync",),
    ),
    System(
        name="ssh_compression",
        kind="needless-compression",
        truth="the ssh client compresses with one thread what it sends over the loopback",
        load=secure_copy,
        component=(r"\bssh\b",),
        mechanism=(*COMPUTES, r"libz", r"deflate", r"compress"),
        never=(r"\bdisk\b", r"\bsleeps"),
        needs=("ssh", "/usr/sbin/sshd", "ssh-keygen"),
    ),
]
