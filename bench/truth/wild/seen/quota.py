"""The CPU quota of a control group, for a service with enough work for a whole CPU."""
from pathlib import Path

from system import System, WRK, wrk

SERVER = """
package main

import ("fmt"; "hash/crc32"; "net/http"; "os"; "runtime")

func main() {
	runtime.GOMAXPROCS(1)
	data := make([]byte, 64 << 10)
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		sum := uint32(0)
		for i := 0; i < 30; i++ {
			sum = crc32.Update(sum, crc32.MakeTable(crc32.Koopman), data)
		}
		fmt.Fprintln(w, sum)
	})
	http.ListenAndServe("127.0.0.1:" + os.Args[1], nil)
}
"""


def group(place, name, percent):
    """Makes a control group with this share of one CPU. Returns the file for the ids of its
    processes.
    """
    root = Path("/sys/fs/cgroup")
    old = root / "cpu"
    home = (old if old.is_dir() else root) / f"longpole-wild-{place.folder.name}"
    home.mkdir()
    place.stack.callback(home.rmdir)
    if old.is_dir():
        (home / "cpu.cfs_period_us").write_text("100000")
        (home / "cpu.cfs_quota_us").write_text(str(percent * 1000))
    else:
        (root / "cgroup.subtree_control").write_text("+cpu")
        (home / "cpu.max").write_text(f"{percent * 1000} 100000")
    return home / "cgroup.procs"


def load(place):
    port, program = place.port(), place.go("checksums", SERVER)
    # For each second of work the quota makes it wait three seconds.
    inside = group(place, "checksums", round(100 / (1 + 3 * place.fault)))
    place.start("sh", "-c", f"echo $$ > {inside}; exec {program} {port}", port=port)
    return wrk(f"http://127.0.0.1:{port}/", 4, place.seconds)


SYSTEMS = [
    System(
        name="go_cpu_quota",
        kind="cpu-quota",
        truth="the control group of checksums has a quota of a quarter of a CPU, and holds it back though CPUs are idle",
        load=load,
        rate=WRK,
        component=(r"checksums",),
        mechanism=(r"quota", r"throttl", r"held back", r"control group"),
        change="checksums::throttled x0",
        halves=True,
        needs=("go", "wrk"),
    ),
]
