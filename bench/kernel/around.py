#!/usr/bin/env python3
"""Runs a command under another tool that records the whole host: `around.py bpftrace|lttng FOLDER
COMMAND…`.

bpftrace computes what its users usually need first: the time of each program in each system call
and off its CPU. LTTng's kernel tracer, if its modules can be loaded, records the scheduler's events
and all system calls.
"""
import os
import pathlib
import signal
import subprocess
import sys

OFF_CPU_AND_CALLS = """
tracepoint:raw_syscalls:sys_enter { @begin[tid] = nsecs; }
tracepoint:raw_syscalls:sys_exit /@begin[tid]/ {
    @calls[comm, args->id] = sum(nsecs - @begin[tid]); delete(@begin[tid]);
}
tracepoint:sched:sched_switch {
    if (args->prev_pid) { @off[args->prev_pid] = nsecs; }
    if (@off[args->next_pid]) {
        @off_cpu[args->next_comm] = sum(nsecs - @off[args->next_pid]); delete(@off[args->next_pid]);
    }
}
tracepoint:sched:sched_wakeup { @wakeups[args->comm] = count(); }
BEGIN { printf("attached\\n"); }
"""


def bpftrace(folder, command):
    options = {**os.environ, "BPFTRACE_MAP_KEYS_MAX": "65536", "BPFTRACE_MAX_MAP_KEYS": "65536"}
    tracer = subprocess.Popen(["bpftrace", "-B", "line", "-e", OFF_CPU_AND_CALLS], env=options, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = []
    for line in tracer.stdout:
        said.append(line.strip())
        if line.startswith("attached"):
            break
    else:
        sys.exit(f"bpftrace: {said[-1] if said else 'no output'}")
    # bpftrace prints its results at its end only, so the pipe cannot fill up while the command
    # runs.
    status = subprocess.run(command).returncode
    tracer.send_signal(signal.SIGINT)
    tracer.communicate(timeout=60)
    return status


def lttng(folder, command):
    def ask(*arguments):
        result = subprocess.run(["lttng", "--no-sessiond", *arguments], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if result.returncode:
            sys.exit(f"lttng {arguments[0]}: {(result.stdout.strip() or 'no output').splitlines()[0]}")

    name = f"longpole-bench-{os.getpid()}"
    os.environ["LTTNG_HOME"] = folder
    pid = pathlib.Path(folder, "sessiond.pid")
    # In the foreground, and without kernel modules, the daemon closes the client's connection.
    subprocess.run(["lttng-sessiond", "--daemonize", f"--pidfile={pid}"], check=True, capture_output=True)
    try:
        ask("create", name, "-o", f"{folder}/lttng")
        ask("enable-channel", "-k", "bench", "--subbuf-size", "2M", "--num-subbuf", "8")
        ask("enable-event", "-k", "-c", "bench", "sched_*")
        ask("enable-event", "-k", "-c", "bench", "--syscall", "--all")
        ask("start")
        return subprocess.run(command).returncode
    finally:
        subprocess.run(["lttng", "--no-sessiond", "destroy", name], capture_output=True)
        os.kill(int(pid.read_text()), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit({"bpftrace": bpftrace, "lttng": lttng}[sys.argv[1]](sys.argv[2], sys.argv[3:]))
