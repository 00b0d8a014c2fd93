"""The real scenarios and controls: small systems of `role` programs (programs/role.c), of which one
is recorded to its end and the others are started here.

Each function makes one system: processes that run in the background, and the command whose end
counts. `fixed` is the same system with the fault halved or removed, as `change` in real.toml says.
Everything that it creates on this host (namespaces, control groups) is removed when its place is
left.
"""
import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PIPELINE = ROOT / "examples" / "packet_pipeline"
sys.dont_write_bytecode = True
sys.path.insert(0, str(PIPELINE))
import build  # noqa: E402

LAST = max(os.sched_getaffinity(0))

# Roles that get random names if there is a seed; all others keep their names.
ROLES = "client server front store relay sender receiver decoy function scan first second left right".split()


def sh(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


def compiled(folder):
    """Compiles the program of all roles."""
    program = Path(folder, "role")
    sh("gcc", "-O2", "-std=gnu11", "-Wall", "-Wextra", f"-I{ROOT / 'include'}", HERE / "programs" / "role.c", "-o", program)
    return program


def words(seed):
    """Returns the names of the roles; without a seed they are the roles themselves."""
    if not seed:
        return {role: role for role in ROLES}
    draw = random.Random(seed)
    made = {}
    while len(made) < len(ROLES):
        word = "".join(draw.choice("bdfgklmnprstvz") + draw.choice("aeiou") for _ in range(draw.randint(3, 5)))
        if word not in made.values() and word not in ROLES:
            made[ROLES[len(made)]] = word
    return made


class Place:
    """The environment of one system: its folder, its names, its processes, and the clean-up after
    it.
    """

    def __init__(self, program, folder, seed, seconds, fixed, strength, environment):
        self.program, self.folder, self.seed, self.seconds, self.fixed, self.strength, self.environment = program, Path(folder), seed, seconds, fixed, strength, environment
        self.names = words(seed)
        self.draw = random.Random(f"{seed}")
        self.stack = contextlib.ExitStack()
        self.left = None

    def __enter__(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_):
        self.stack.close()

    def about(self, number):
        """Returns the number, or with a seed a random one from 0.8 to 1.25 times as large."""
        return round(number * (self.draw.uniform(0.8, 1.25) if self.seed else 1))

    def fifo(self, name, room=None):
        path = self.folder / f"{name}.fifo"
        if not path.exists():
            os.mkfifo(path)
        return f"{name}=fifo:{path}" + (f",room={room}" if room else "")

    def role(self, name, *arguments, cpu=None, urgent=False):
        """Returns the command of a role. `urgent` roles alternate on one CPU with priority over
        everything else, and the rest of the host has the other CPUs.
        """
        # The program's file has the name of the role.
        program = self.folder / self.names.get(name, name)
        if not program.exists():
            os.link(self.program, program)
        command = [str(program), program.name, *(["first_of_all"] if urgent else []), *map(str, arguments)]
        return command if cpu is None else ["taskset", "-c", str(cpu), *command]

    def part(self, name, *arguments):
        """Returns the command of a role in a system whose roles wait for each other, so that one
        CPU is enough for them.
        """
        return self.role(name, *arguments, cpu=LAST, urgent=True)

    def asks(self, name, *arguments):
        """Returns the command of the role that gives the others work. It runs on another CPU, so
        that no CPU is busy all the time: the kernel reserves some time of a CPU for non-real-time
        threads.
        """
        return self.role(name, *arguments, cpu=0, urgent=True)

    def start(self, *command, group=None):
        """Runs a command in the background until the place is left."""
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, env=self.environment)
        self.stack.callback(ended, process)
        if group:
            group(process.pid)
        return process

    def decoy(self):
        """Starts a process that is hot but never waited for; it takes the remaining CPU time."""
        self.start(*self.role("decoy", "loop", "do:-:1000", cpu=0))

    def namespaces(self, *names):
        made = []
        for name in names:
            full = f"lpt{os.getpid()}{name}"
            sh("ip", "netns", "add", full)
            self.stack.callback(subprocess.run, ["ip", "netns", "delete", full], capture_output=True)
            sh("ip", "-n", full, "link", "set", "lo", "up")
            made.append(full)
        return made

    def cable(self, left, right, net):
        """Makes a pair of devices between two namespaces; .1 is the left one, .2 the right one."""
        devices = [f"v{net}{side}{os.getpid()}" for side in "ab"]
        sh("ip", "link", "add", devices[0], "netns", left, "type", "veth", "peer", "name", devices[1], "netns", right)
        hardware = [f"02:00:00:00:{net:02x}:0{at}" for at in (1, 2)]
        for at, (space, device) in enumerate(zip((left, right), devices)):
            sh("ip", "-n", space, "address", "add", f"10.78.{net}.{at + 1}/24", "dev", device)
            sh("ip", "-n", space, "link", "set", device, "address", hardware[at], "up")
            # With a permanent neighbour entry no address resolution is needed. Data that waited for
            # it would be sent by the kernel and not by its sender.
            sh("ip", "-n", space, "neigh", "replace", f"10.78.{net}.{2 - at}", "lladdr", hardware[1 - at], "dev", device, "nud", "permanent")
        return devices

    def quota(self, quota_us, period_us):
        """Makes a control group with a CPU quota. Returns a function that puts a process into it.
        """
        group = self.stack.enter_context(control_group("quota"))
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{quota_us} {period_us}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(period_us))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
        return lambda pid: (group / "cgroup.procs").write_text(str(pid))


@contextlib.contextmanager
def control_group(name):
    """Makes a control group of the CPU controller (version 1 or 2) with the greatest possible
    weight, so that other work on this host takes almost nothing from it.
    """
    old = Path("/sys/fs/cgroup/cpu")
    if not (old / "cpu.shares").exists() and not (old / "cgroup.procs").exists():
        old = None
        Path("/sys/fs/cgroup/cgroup.subtree_control").write_text("+cpu")
    group = (old or Path("/sys/fs/cgroup")) / f"longpole-truth-{os.getpid()}-{name}"
    group.mkdir()
    try:
        (group / ("cpu.shares" if old else "cpu.weight")).write_text("262144" if old else "10000")
        if name == "own" and (group / "cpu.rt_runtime_us").exists():
            (group / "cpu.rt_runtime_us").write_text("940000")
        yield group
    finally:
        removed(group)


@contextlib.contextmanager
def alone():
    """Runs this process and its children with priority over everything else on the host."""
    with control_group("own") as group:
        (group / "cgroup.procs").write_text(str(os.getpid()))
        try:
            yield
        finally:
            (group.parent / "cgroup.procs").write_text(str(os.getpid()))


def ended(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def removed(group):
    """Removes a control group. That may fail for a moment after its last process has ended."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.02)


def inside(namespace, *command):
    # `ip netns exec` also makes a mount namespace, and the end of its last process waits for all
    # CPUs.
    return ["nsenter", f"--net=/var/run/netns/{namespace}", *command]


# The scenarios. Each returns the command that is recorded to its end, and starts the rest in its
# place.


def pipeline(fault, fixed, *options):
    size = "1400" if fault.startswith("--checksum") else "64"

    def system(place):
        program = place.folder.parent / f"packet_pipeline-{place.seed}"
        if not program.exists():
            built = build.build(program.parent / f"built-{place.seed}") if not place.seed else build.build_scrambled(program.parent / f"built-{place.seed}", place.seed)
            built.rename(program)
        real = build.names().items()
        dealt = build.scramble(place.seed) if place.seed else {}
        place.names.update({name: dealt.get(macro, name) for macro, name in real})
        return [str(program), f"--seconds={place.seconds}", f"--bytes={size}", *options, fault, *([fixed] if place.fixed else [])]

    return system


def token_bucket(place):
    left, right = place.namespaces("a", "b")
    device, _ = place.cable(left, right, 1)
    place.names["out"] = device
    rate = place.about(200) * (2 if place.fixed else 1)
    sh("tc", "-n", left, "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{rate}mbit", "burst", "32kb", "limit", "1mb")
    place.decoy()
    place.start(*inside(left, *place.role("sender", "c=connect:10.78.1.2:5000,size=16384", "loop", "give:c")))
    return inside(right, *place.role("receiver", "c=listen:5000,size=16384", f"seconds={place.seconds}", "loop", "take:c"))


def relay(place):
    left, middle, right = place.namespaces("a", "r", "b")
    place.cable(left, middle, 1)
    place.cable(middle, right, 2)
    hold = place.about(1000) // (2 if place.fixed else 1)
    place.decoy()
    place.start(*inside(right, *place.part("server", "c=listen:5000", "loop", "take:c", "do:-:150", "give:c")))
    place.start(*inside(middle, *place.part("relay", "b=connect:10.78.2.2:5000", "a=listen:5000", "loop", "take:a", f"do:-:5:{hold}", "give:b", "take:b", "give:a")))
    return inside(left, *place.asks("client", "c=connect:10.78.1.2:5000", f"seconds={place.seconds}", "loop", "do:-:100", "give:c", "take:c"))


def round_trip(place, server):
    """A client sends requests and a server answers them, one at a time."""
    channels = place.fifo("q"), place.fifo("r")
    place.decoy()
    place.start(*place.part("server", *channels, "loop", "take:q", *server, "give:r"))
    return place.asks("client", *channels, f"seconds={place.seconds}", "loop", f"do:-:{place.about(250)}", "give:q", "take:r")


def longer_function(sleeps):
    def system(place):
        base = place.about(500)
        more = 0 if place.fixed else round(3 * base * place.strength)
        place.left = base / (base + 3 * base * place.strength)
        function = place.names["function"]
        slow = f"do:{function}:{base}:{more}" if sleeps else f"do:{function}:{base + more}"
        return round_trip(place, [f"do:{place.names['first']}:{base}", slow, f"do:{place.names['second']}:{base}"])

    return system


def small_buffer(place):
    left, right = place.namespaces("a", "b")
    place.cable(left, right, 1)
    size = 4096 * (8 if place.fixed else 1)
    place.start(*inside(left, *place.role("sender", "u=to:10.78.1.2:5000,size=1000", "loop", "give:u*40", f"pace:{place.about(2000)}")))
    return inside(right, *place.role("receiver", f"u=bind:5000,rcvbuf={size}", f"seconds={place.seconds}", "loop", "take:u", "do:-:20"))


def cpu_quota(place):
    enter = place.quota(-1 if place.fixed else 3000, place.about(10000))
    channels = place.fifo("q"), place.fifo("r")
    place.decoy()
    place.start(*place.role("server", *channels, "loop", "take:q", f"do:-:{place.about(800)}", "give:r"), group=enter)
    return place.role("client", *channels, f"seconds={place.seconds}", "loop", "do:-:50", "give:q", "take:r")


def rps_pinning(place):
    left, right = place.namespaces("a", "b")
    _, device = place.cable(left, right, 1)
    # A filter with many rules makes the delivery of a datagram expensive.
    rules = "".join(f"add rule ip t in udp dport {20000 + at} drop\n" for at in range(500 if place.fixed else 1000))
    table = place.folder / "rules.nft"
    table.write_text("add table ip t\nadd chain ip t in { type filter hook input priority 0 ; }\n" + rules)
    sh(*inside(right, "nft", "-f", table))
    cpu = max(os.sched_getaffinity(0))
    queue = f"/sys/class/net/{device}/queues/rx-0/rps_cpus"
    # The files of a namespace's devices are visible only in a sysfs of that namespace, which `ip`
    # mounts.
    sh("ip", "netns", "exec", right, "sh", "-c", f"echo {1 << cpu:x} > {queue}")
    place.start(*inside(right, *place.role("receiver", "u=bind:5000,rcvbuf=4000000", "first", "give:u*4", "loop", "take:u*32", "do:-:400", "give:u", cpu=cpu)))
    return inside(left, *place.role("sender", "u=to:10.78.1.2:5000,size=1000", f"seconds={place.seconds}", "loop", "take:u", "give:u*32", cpu=0))


def fsync(place):
    channels = place.fifo("q"), place.fifo("r")
    path = place.folder / "store"
    disk = disk_of(place.folder)
    device = os.path.basename(os.path.realpath(f"/sys/dev/block/{disk}"))
    place.names.update(disk=disk, device=device, journal="jbd2")
    place.decoy()
    item = [["take:q", "do:-:50", f"{how}:{path}", "give:r"] for how in ("store", "append" if place.fixed else "store")]
    place.start(*place.part("server", *channels, "loop", *item[0], *item[1]))
    return place.asks("client", *channels, f"seconds={place.seconds}", "loop", "do:-:50", "give:q", "take:r")


def disk_of(folder):
    device = os.stat(folder).st_dev
    return f"{os.major(device)}:{os.minor(device)}"


def rpc(place):
    """A front server calls a store."""
    channels = place.fifo("q"), place.fifo("r")
    further = place.fifo("s"), place.fifo("t")
    scan = place.about(600) // (2 if place.fixed else 1)
    place.decoy()
    place.start(*place.part("store", *further, "loop", "take:s", "dispatch:find", f"do:{place.names['scan']}:{scan}", "reply:find", "give:t"))
    place.start(*place.part("front", *channels, *further, "loop", "take:q", "do:-:100", "call:find", "give:s", "take:t", "returned:find", "do:-:100", "give:r"))
    return place.asks("client", *channels, f"seconds={place.seconds}", "loop", "do:-:100", "give:q", "take:r")


# The controls.


def idle(place):
    return ["--for", f"{place.seconds}s"]


def sleeper(place):
    return ["sleep", str(place.seconds)]


def balanced(place):
    # One of two virtual CPUs is often a tenth slower, and so is the stage on it; therefore the
    # stages change CPUs regularly.
    length = place.about(300)
    place.start(*place.role("left", place.fifo("q", 4096), "loop", "hop:0:50", f"do:-:{length}", "give:q"))
    return place.role("right", place.fifo("q", 4096), f"seconds={place.seconds}", "loop", "hop:1:50", "take:q", f"do:-:{length}")


def symmetric(place):
    channels, length = (place.fifo("q"), place.fifo("r")), place.about(2000)
    place.start(*place.part("left", *channels, "loop", f"do:-:{length}", "give:q", "take:r"))
    return place.part("right", *channels, f"seconds={place.seconds}", "loop", f"do:-:{length}", "give:r", "take:q")


def ping_pong(place):
    channels, length = (place.fifo("q"), place.fifo("r")), place.about(20)
    place.start(*place.part("left", *channels, "loop", "take:q", f"do:-:{length}", "give:r"))
    return place.part("right", *channels, f"seconds={place.seconds}", "loop", f"do:-:{length}", "give:q", "take:r")


def all_busy(place):
    for _ in range(len(os.sched_getaffinity(0)) - 1):
        place.start(*place.role("left", "loop", "do:-:1000"))
    return place.role("right", f"seconds={place.seconds}", "loop", "do:-:1000")


def producer(place):
    place.start(*place.part("left", place.fifo("q"), "loop", f"pace:{place.about(2000)}", "do:-:100", "give:q"))
    return place.part("right", place.fifo("q"), f"seconds={place.seconds}", "loop", "take:q", "do:-:100")


def single(place):
    return place.role("left", f"seconds={place.seconds}", "loop", "do:-:1000")


def timers(place):
    place.start(*place.part("left", "loop", "do:-:100", f"pace:{place.about(1700)}"))
    return place.part("right", f"seconds={place.seconds}", "loop", "do:-:100", f"pace:{place.about(2300)}")


def light(place):
    channels = place.fifo("q"), place.fifo("r")
    place.start(*place.part("server", *channels, "loop", "take:q", f"do:-:{place.about(200)}", "give:r"))
    return place.part("client", *channels, f"seconds={place.seconds}", "loop", "pace:4000", "do:-:100", "give:q", "take:r")


def even(place):
    channels, length = (place.fifo("q"), place.fifo("r")), place.about(300)
    parts = [f"do:{place.names[name]}:{length}" for name in ("function", "scan", "first", "second")]
    place.start(*place.part("server", *channels, "loop", "take:q", *parts[:2], "give:r"))
    return place.part("client", *channels, f"seconds={place.seconds}", "loop", *parts[2:], "give:q", "take:r")


def datagrams(place):
    left, right = place.namespaces("a", "b")
    place.cable(left, right, 1)
    place.start(*inside(left, *place.role("sender", "u=to:10.78.1.2:5000,size=1000", "loop", "give:u", f"pace:{place.about(1000)}")))
    return inside(right, *place.role("receiver", "u=bind:5000", f"seconds={place.seconds}", "loop", "take:u", "do:-:50"))


SYSTEMS = {
    "pipeline_lookup": pipeline("--lookup=exceptions", "--one-in=2"),
    "pipeline_timeouts": pipeline("--timeouts=exact", "--one-in=2", "--apart"),
    "pipeline_batch": pipeline("--batch=2", "--batch=4"),
    "pipeline_signals": pipeline("--signals=eager", "--one-in=2"),
    "pipeline_checksum": pipeline("--checksum=full", "--one-in=2"),
    "token_bucket": token_bucket,
    "relay": relay,
    "spin": longer_function(sleeps=False),
    "sleep": longer_function(sleeps=True),
    "small_buffer": small_buffer,
    "cpu_quota": cpu_quota,
    "rps_pinning": rps_pinning,
    "fsync": fsync,
    "rpc": rpc,
    "control_idle": idle,
    "control_sleep": sleeper,
    "control_balanced": balanced,
    "control_symmetric": symmetric,
    "control_ping_pong": ping_pong,
    "control_all_busy": all_busy,
    "control_producer": producer,
    "control_alone": single,
    "control_timers": timers,
    "control_light": light,
    "control_even": even,
    "control_datagrams": datagrams,
}


def rate(name, output):
    """Returns the items per second that the system itself prints; None if it prints none."""
    if name.startswith("pipeline"):
        found = re.findall(r"Received ([\d,]+) packets in (\d+) ms", output)
        return int(found[-1][0].replace(",", "")) / max(int(found[-1][1]), 1) * 1e3 if found else None
    found = re.search(r"items (\d+) seconds ([\d.]+)", output)
    return int(found[1]) / float(found[2]) if found and float(found[2]) > 0 else None
