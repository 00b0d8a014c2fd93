"""Other tracers for comparison: how each is obtained, built and started, and how its recorded
events are counted.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import venv

from common import Lttng, Open, run
from subjects import BUILT, PEERS, Subject, compiled, crate, executable

# The versions that a plain `pip install barectf` selects are incompatible with each other.
BARECTF = ["barectf==3.1.2", "pyyaml", "jsonschema<4", "jinja2", "termcolor", "attrs", "pyrsistent", "markupsafe", "six", "setuptools<81"]
TRACING = pathlib.Path("/sys/kernel/tracing/instances")


class Peer:
    """One other tracer. `recorded` returns for each loop the number of recorded events and the
    bytes of each; None if that is unknown.
    """

    title = ""
    # Names of the loops that are compared with our mark of two words and with our span, and the
    # budget: the minimum ratio of the other cost to ours.
    event, span, budget = "event", "span", None

    def __init__(self, work, stack):
        self.work, self.stack = work, stack
        self.subject = self.make()

    def make(self):
        raise NotImplementedError

    def finished(self):
        """Called after the last batch, when the program has ended."""

    def recorded(self):
        raise NotImplementedError


def counted(trace):
    """Returns the number of events in a CTF trace, counted by babeltrace2."""
    text = run("babeltrace2", trace, "--component=sink.utils.counter", timeout=600)
    # It prints intermediate counts too; the last one is the total.
    return int(re.findall(r"(\d+) Event messages", text.replace(",", ""))[-1])


class LttngUst(Peer):
    title, budget = "LTTng-UST", 10

    def __init__(self, work, stack):
        self.daemon = stack.enter_context(Lttng(work))
        self.trace = work / "lttng-trace"
        lttng = self.daemon.lttng
        lttng("create", "bench", "--output", self.trace)
        for channel, events in (("two", "two"), ("edges", "begin,end")):
            # The buffers are so large that no event is lost while the consumer is not scheduled,
            # but otherwise as small as ours.
            lttng("enable-channel", "-u", channel, "--subbuf-size=512K", "--num-subbuf=8")
            lttng("enable-event", "-u", "-c", channel, ",".join(f"longpole_bench:{event}" for event in events.split(",")))
        lttng("start")
        super().__init__(work, stack)

    def make(self):
        part = compiled(PEERS / "lttng.c", "peer-lttng", "-fPIE", "-I", PEERS)
        return Subject(self.title, executable("peer-lttng", part, libraries=["-llttng-ust"]), environment=self.daemon.environment)

    def finished(self):
        self.daemon.lttng("stop")
        self.daemon.lttng("destroy")

    def recorded(self):
        told = {}
        for loop, channel in (("event", "two"), ("span", "edges")):
            # A folder with the streams of this channel only, because the reader does not
            # distinguish channels.
            folder = self.work / f"lttng-{channel}"
            folder.mkdir()
            size = 0
            for file in self.trace.rglob("*"):
                if file.is_file() and (file.name == "metadata" or file.name.startswith(channel + "_")) and "index" not in file.parts:
                    shutil.copy(file, folder)
                    size += file.stat().st_size if file.name != "metadata" else 0
            count = counted(folder)
            told[loop] = (count, size / max(count, 1))
        return told


def barectf_made():
    """Returns the folder with the tracer that barectf generates, and with its metadata."""
    place = BUILT / "barectf"
    stamp = place / "installed"
    if not stamp.exists() or stamp.read_text() != " ".join(BARECTF):
        shutil.rmtree(place, ignore_errors=True)
        venv.create(place, with_pip=True)
        run(place / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", *BARECTF, timeout=300)
        stamp.write_text(" ".join(BARECTF))
    made = BUILT / "barectf-made"
    made.mkdir(parents=True, exist_ok=True)
    run(place / "bin/barectf", "generate", "--metadata-dir", made, "--headers-dir", made, "--code-dir", made, PEERS / "barectf.yaml")
    return made


class Barectf(Peer):
    title, budget = "barectf", 1.5

    def make(self):
        made = barectf_made()
        tracer = compiled(made / "barectf.c", "barectf", "-fPIE", "-I", made)
        part = compiled(PEERS / "barectf.c", "peer-barectf", "-fPIE", "-I", made)
        folder = self.work / "barectf"
        (folder / "trace").mkdir(parents=True)
        shutil.copy(made / "metadata", folder / "trace")
        self.folder = folder
        return Subject(self.title, executable("peer-barectf", part, tracer), folder=folder)

    def recorded(self):
        # In the measured batches old packets are overwritten. Therefore the program writes further
        # events to a file at its end, and prints their number as `written`.
        count, wanted = counted(self.folder / "trace"), self.subject.said["written"]
        if count != wanted:
            raise Open(f"{count} of {wanted} events are in its trace")
        return {loop: (None, self.subject.bytes.get(loop)) for loop in ("event", "span")}


class Uftrace(Peer):
    title, event, span = "uftrace", None, "call"

    def make(self):
        if shutil.which("uftrace") is None:
            raise Open("uftrace is not installed")
        called = compiled(PEERS / "function.c", "function-pg", "-fPIE", "-pg")
        program = executable("peer-uftrace", compiled(PEERS / "functions.c", "functions-plain", "-fPIE"), called)
        self.data = self.work / "uftrace.data"
        before = ["uftrace", "record", "--no-event", "-b", "4M", "-d", self.data]
        return Subject(self.title, program, before=before)

    def recorded(self):
        size = sum(file.stat().st_size for file in self.data.glob("*.dat") if file.stem.isdigit())
        text = run("uftrace", "report", "-d", self.data, "-f", "call")
        calls = sum(int(line.split()[0]) for line in text.splitlines() if line.split()[-1:] == ["bench_function"])
        return {"call": (2 * calls, size / max(2 * calls, 1))}


class TraceMarker(Peer):
    title = "ftrace trace_marker"

    def make(self):
        if os.geteuid() != 0:
            raise Open("needs root")
        self.instance = TRACING / f"longpole-bench-{os.getpid()}"
        try:
            self.instance.mkdir()
        except OSError as error:
            raise Open(f"no tracing instance: {error}") from error
        self.stack.callback(self.instance.rmdir)
        (self.instance / "trace_clock").write_text("x86-tsc" if os.uname().machine == "x86_64" else "mono_raw")
        (self.instance / "buffer_size_kb").write_text("65536")
        folder = self.work / "marker"
        folder.mkdir()
        (folder / "marker").symlink_to(self.instance / "trace_marker")
        (folder / "tracing_on").symlink_to(self.instance / "tracing_on")
        part = compiled(PEERS / "trace_marker.c", "peer-marker", "-fPIE")
        return Subject(self.title, executable("peer-marker", part), folder=folder)

    def recorded(self):
        entries = size = 0
        for stats in self.instance.glob("per_cpu/cpu*/stats"):
            told = dict(line.split(": ") for line in stats.read_text().splitlines())
            entries, size = entries + int(told["entries"]), size + int(told["bytes"])
        texts = 0
        with open(self.instance / "trace", encoding="utf-8", errors="replace") as trace:
            texts = sum("sixteen letters" in line for line in trace)
        # Its statistics do not distinguish the two kinds of entries.
        return {"event": (texts, size / max(entries, 1)), "span": (entries - texts, size / max(entries, 1))}


class Layer(Peer):
    feature, file = "", ""

    def make(self):
        flags = ["-DRUST_TRACING", *(["-DRUST_SELF"] if self.feature == "layer-ours" else [])]
        part = compiled(PEERS / "rust.c", f"peer-{self.feature}", "-fPIE", *flags)
        return Subject(self.title, executable(f"peer-{self.feature}", part, crate(self.feature), libraries=["-lm"]))


class LayerOurs(Layer):
    title, feature = "tracing, our layer", "layer-ours"

    def recorded(self):
        return {loop: (None, self.subject.bytes.get(loop)) for loop in ("event", "span")}


class LayerChrome(Layer):
    title, feature = "tracing, chrome layer", "layer-chrome"

    def recorded(self):
        told = {"event": [0, 0], "span": [0, 0]}
        with open(self.subject.folder / "trace.json", encoding="utf-8") as trace:
            for record in re.split(r"(?<=}),", trace.read()):
                kind = re.search(r'"ph":"(\w)"', record)
                if kind is not None and kind[1] in "iBE":
                    row = told["event" if kind[1] == "i" else "span"]
                    row[0] += 1
                    row[1] += len(record) + 1
        return {loop: (count, size / max(count, 1)) for loop, (count, size) in told.items()}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data, begin, end):
    """Yields the fields of a protobuf message: number and (begin, end) of the value."""
    at = begin
    while at < end:
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            start = at
            _, at = varint(data, at)
            yield tag >> 3, (start, at)
        elif kind == 2:
            size, at = varint(data, at)
            yield tag >> 3, (at, at + size)
            at += size
        else:
            size = 8 if kind == 1 else 4
            yield tag >> 3, (at, at + size)
            at += size


def packets(data):
    """Counts the track events of a trace in Perfetto's format (instants, begins and ends of
    slices). Returns their number and bytes.
    """
    told = {"event": [0, 0], "event without fields": [0, 0], "span": [0, 0]}
    for number, (begin, end) in fields(data, 0, len(data)):
        if number != 1:
            continue
        for inner, (first, last) in fields(data, begin, end):
            if inner != 11:  # track_event
                continue
            kind, annotated = 0, False
            for field, (at, _) in fields(data, first, last):
                kind = data[at] if field == 9 else kind  # type: slice begin, slice end, instant
                annotated = annotated or field == 4  # debug_annotations
            if kind in (1, 2, 3):
                row = told["span" if kind != 3 else "event" if annotated else "event without fields"]
                row[0] += 1
                row[1] += end - begin + 2
    return {loop: (count, size / max(count, 1)) for loop, (count, size) in told.items()}


class LayerPerfetto(Layer):
    title, feature = "tracing, perfetto layer", "layer-perfetto"

    def recorded(self):
        return packets((self.subject.folder / "trace.pftrace").read_bytes())


def source_of(package):
    """Returns the folder with the sources of a crate on which src/ depends."""
    told = json.loads(run("cargo", "metadata", "--format-version", "1", "--locked", "--all-features", "--manifest-path", PEERS / "Cargo.toml"))
    return next(pathlib.Path(found["manifest_path"]).parent for found in told["packages"] if found["name"] == package)


class Perfetto(Peer):
    title, budget = "Perfetto C SDK", 15

    def make(self):
        made = crate("perfetto")
        part = compiled(PEERS / "perfetto.c", "peer-perfetto", "-fPIE", "-DNDEBUG", "-isystem", source_of("perfetto-sdk-sys") / "libperfetto_c")
        return Subject(self.title, executable("peer-perfetto", part, made, libraries=["-lm"]))

    def recorded(self):
        return packets((self.subject.folder / "trace.pftrace").read_bytes())


class Tracy(Peer):
    title, event, budget = "Tracy, emptied", "event, literal", 2
    environment = {}
    # The flags must be those of the crate, otherwise the inline part of a probe does not match the
    # library.
    flags = ["-DTRACY_ENABLE", "-DTRACY_ONLY_LOCALHOST", *(f"-DTRACY_NO_{what}" for what in (
        "SYSTEM_TRACING", "CONTEXT_SWITCH", "WAIT_STACKS", "SAMPLING", "CODE_TRANSFER", "BROADCAST", "CALLSTACK_INLINES", "VERIFY",
        "CRASH_HANDLER"))]

    def make(self):
        made = crate("tracy")
        part = compiled(PEERS / "tracy.cc", "peer-tracy", "-fPIE", *self.flags, "-isystem", source_of("tracy-client-sys") / "tracy", language="c++")
        return Subject(self.title, executable("peer-tracy", part, made), environment=self.environment)

    def recorded(self):
        said = self.subject.said
        return {loop: (said[loop], said["item"]) for loop in ("event", "event, literal", "event, plot", "span")}


class TracyAlone(Tracy):
    """No client is connected, so its queue grows."""

    title, environment = "Tracy, growing", {"BENCH_GROWS": "1"}


ALL = [LttngUst, Barectf, Tracy, TracyAlone, Perfetto, Uftrace, TraceMarker, LayerOurs, LayerChrome, LayerPerfetto]
