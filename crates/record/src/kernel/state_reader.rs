//! Writes the state of the system at the begin of a recording. The kernel's events assume it as
//! known.
//!
//! Processes with their threads, open files, interrupts, network interfaces, queueing disciplines,
//! sockets, block devices and the functions of timers are written as one JSON object per line. All
//! of it is read from /proc and /sys after the tracer was started, so changes during the reading
//! are in the tracer's events. What vanishes while it is read is left out. Each line contains the
//! time at which it was true.

pub(super) mod network;

use serde_json::{json, Value};
use std::collections::{BTreeMap, HashMap};
use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::OnceLock;

/// Functions of the kernel's timers that have a name in the model (`rules/linux.toml`). A timer's
/// event contains only the address of its function.
const TIMER_FUNCTIONS: [&str; 18] = [
    "tcp_delack_timer",
    "tcp_compressed_ack_kick",
    "tcp_write_timer",
    "tcp_keepalive_timer",
    "tcp_pace_kick",
    "reqsk_timer_handler",
    "sched_cfs_period_timer",
    "sched_cfs_slack_timer",
    "throtl_pending_timer_fn",
    "qdisc_watchdog",
    "delayed_work_timer_fn",
    "process_timeout",
    "hrtimer_wakeup",
    "timerfd_tmrproc",
    "it_real_fn",
    "posix_timer_fn",
    "alarmtimer_fired",
    "tick_nohz_handler",
];

/// Addresses of these functions. They stay the same while the kernel runs.
static TIMERS: OnceLock<Vec<(u64, &'static str)>> = OnceLock::new();

/// Largest number of open files of one process. A process with more is a server, whose sockets are
/// not interesting here.
const MAX_FILES_OF_ONE: usize = 256;
/// Largest number of open files of all processes together.
const MAX_FILES: usize = 20_000;
/// Longest path in bytes; longer ones are cut.
const LONGEST_PATH: usize = 4096;
/// Flag of kernel threads in proc(5)'s `stat`.
const PF_KTHREAD: u64 = 0x0020_0000;

/// Writer of the state dump.
struct StateWriter<'a> {
    out: BufWriter<File>,
    now: &'a dyn Fn() -> u64,
}

impl StateWriter<'_> {
    fn line(&mut self, mut value: Value) -> io::Result<()> {
        value["t"] = json!((self.now)());
        serde_json::to_writer(&mut self.out, &value)?;
        self.out.write_all(b"\n")
    }
}

/// Writes the whole state, one JSON object per line. With `foreign_pids`, processes are left out,
/// because /proc then numbers threads differently from the kernel's events.
pub fn write(file: File, foreign_pids: bool, now: &dyn Fn() -> u64) -> io::Result<()> {
    let mut dump = StateWriter { out: BufWriter::new(file), now };
    let sockets = if foreign_pids { HashMap::new() } else { processes(&mut dump)? };
    timer_functions(&mut dump)?;
    interrupts(&mut dump)?;
    interfaces(&mut dump)?;
    network::write(&mut dump, &sockets)?;
    block_devices(&mut dump)?;
    dump.out.flush()
}

/// Returns the names in a folder that are numbers, in ascending order.
pub(super) fn numbers(path: &str) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let mut found: Vec<i32> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    found.sort_unstable();
    found
}

/// Writes all processes. Returns the processes that have each socket, by the socket's inode.
fn processes(dump: &mut StateWriter<'_>) -> io::Result<HashMap<u64, Vec<i32>>> {
    let (mut files, mut left_out) = (0, 0);
    let mut sockets: HashMap<u64, Vec<i32>> = HashMap::new();
    for pid in numbers("/proc") {
        for tid in numbers(&format!("/proc/{pid}/task")) {
            if let Some(thread) = thread(pid, tid) {
                dump.line(thread)?;
            }
        }
        let descriptors = numbers(&format!("/proc/{pid}/fd"));
        for (index, fd) in descriptors.iter().enumerate() {
            if index >= MAX_FILES_OF_ONE || files >= MAX_FILES {
                left_out += descriptors.len() - index;
                break;
            }
            if let Ok(target) = fs::read_link(format!("/proc/{pid}/fd/{fd}")) {
                files += 1;
                let path = target.to_string_lossy();
                if let Some(inode) =
                    path.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')).and_then(|inode| inode.parse().ok())
                {
                    let owners = sockets.entry(inode).or_default();
                    if owners.last() != Some(&pid) {
                        owners.push(pid);
                    }
                }
                let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
                dump.line(json!({ "kind": "file_descriptor", "pid": pid, "fd": fd, "path": cut(&path), "flags": flags(&info) }))?;
            }
        }
    }
    if left_out > 0 {
        dump.line(json!({ "kind": "left_out", "what": "file_descriptor", "count": left_out }))?;
    }
    Ok(sockets)
}

/// Returns the flags of an open file from proc(5)'s `fdinfo`, which has them in octal digits.
fn flags(info: &str) -> Option<i64> {
    let digits = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
    i64::from_str_radix(digits.trim(), 8).ok()
}

/// Parses proc(5)'s `syscall`: the number of the call in which the thread waits, and its first
/// argument. `None` if the thread runs, or waits outside of a call.
fn call(text: &str) -> Option<(u32, i64)> {
    let (number, rest) = text.split_once(' ')?;
    let first = rest.split_whitespace().next()?.strip_prefix("0x")?;
    Some((number.parse().ok()?, u64::from_str_radix(first, 16).ok()? as i64))
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(LONGEST_PATH);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn thread(pid: i32, tid: i32) -> Option<Value> {
    let folder = format!("/proc/{pid}/task/{tid}");
    let stat = fs::read(format!("{folder}/stat")).ok()?;
    let mut thread = parse_stat(&String::from_utf8_lossy(&stat))?;
    thread["kind"] = json!("process");
    thread["tid"] = json!(tid);
    thread["pid"] = json!(pid);
    let status = fs::read(format!("{folder}/status")).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    thread["cpus_allowed"] = json!(allowed.map(str::trim));
    for (key, line) in [("vtids", "NSpid:"), ("vpids", "NStgid:")] {
        let numbers = status.lines().find_map(|text| text.strip_prefix(line));
        let numbers: Option<Vec<i32>> = numbers.map(|text| text.split_whitespace().filter_map(|number| number.parse().ok()).collect());
        // For a thread of our own namespace there is one number only, which is already known.
        if numbers.as_ref().is_some_and(|numbers| numbers.len() > 1) {
            thread[key] = json!(numbers);
        }
    }
    // For a kernel thread, this would be the accidental content of a register.
    if thread["kernel_thread"] == false {
        let waits = fs::read_to_string(format!("{folder}/syscall")).unwrap_or_default();
        if let Some((number, first)) = call(&waits) {
            (thread["call"], thread["call_about"]) = (json!(number), json!(first));
        }
    }
    if pid == tid {
        let program = fs::read_link(format!("/proc/{pid}/exe")).ok();
        thread["exe"] = json!(program.map(|path| cut(&path.to_string_lossy()).to_owned()));
    }
    Some(thread)
}

/// Parses the fields of proc(5)'s `stat` that matter here.
fn parse_stat(text: &str) -> Option<Value> {
    // The name may contain any character, including brackets and spaces. The other fields follow
    // the last closing bracket.
    let (before, rest) = text.rsplit_once(')')?;
    let comm = before.split_once('(')?.1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // Fields are numbered as in proc(5); the state is number 3.
    let field = |number: usize| fields.get(number - 3).copied();
    let integer = |number: usize| field(number).and_then(|text| text.parse::<i64>().ok());
    Some(json!({
        "comm": comm,
        "state": field(3)?,
        "ppid": integer(4)?,
        "kernel_thread": integer(9)? as u64 & PF_KTHREAD != 0,
        "prio": integer(18).map(|shown| shown + 100),
        "nice": integer(19),
        "start_time": integer(22),
        "cpu": integer(39),
        "policy": integer(41),
    }))
}

/// Writes the addresses of known timer functions; none if the kernel hides its addresses.
fn timer_functions(dump: &mut StateWriter<'_>) -> io::Result<()> {
    if TIMERS.get().is_none() {
        let mut timers = Vec::new();
        let _ = each_symbol(|_, symbol| {
            timers.extend(timer(symbol));
            Ok(())
        });
        let _ = TIMERS.set(timers);
    }
    for (address, name) in TIMERS.get().into_iter().flatten() {
        dump.line(json!({ "kind": "function", "address": address, "name": name }))?;
    }
    Ok(())
}

/// Returns the address and name of a function if it is in [`TIMER_FUNCTIONS`].
fn timer(symbol: &Symbol<'_>) -> Option<(u64, &'static str)> {
    let name = TIMER_FUNCTIONS.into_iter().find(|name| name.as_bytes() == symbol.name)?;
    let address = u64::from_str_radix(std::str::from_utf8(symbol.address).ok()?, 16).ok()?;
    (address != 0).then_some((address, name))
}

fn interrupts(dump: &mut StateWriter<'_>) -> io::Result<()> {
    for irq in numbers("/sys/kernel/irq") {
        let text = |name: &str| fs::read_to_string(format!("/sys/kernel/irq/{irq}/{name}")).map(|text| text.trim().to_owned());
        let actions = text("actions").unwrap_or_default();
        if actions.is_empty() {
            continue;
        }
        let affinity = fs::read_to_string(format!("/proc/irq/{irq}/smp_affinity_list")).ok();
        dump.line(json!({
            "kind": "interrupt",
            "irq": irq,
            "name": actions,
            "chip": text("chip_name").ok(),
            "affinity": affinity.as_deref().map(str::trim),
        }))?;
    }
    Ok(())
}

fn interfaces(dump: &mut StateWriter<'_>) -> io::Result<()> {
    let addresses = ipv4_addresses();
    for name in names("/sys/class/net") {
        let index = fs::read_to_string(format!("/sys/class/net/{name}/ifindex")).ok();
        let Some(index) = index.and_then(|text| text.trim().parse::<u32>().ok()) else { continue };
        let address = addresses.get(&name).map(ToString::to_string);
        dump.line(json!({ "kind": "network_interface", "name": name, "ifindex": index, "address_ipv4": address }))?;
    }
    Ok(())
}

/// Returns the names in a folder that are valid UTF-8, sorted.
pub(super) fn names(path: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let mut found: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    found.sort_unstable();
    found
}

/// Returns the first IPv4 address of each interface.
fn ipv4_addresses() -> BTreeMap<String, Ipv4Addr> {
    let mut found = BTreeMap::new();
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: on success the function stores a list, which is freed below once.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return found;
    }
    let mut current = list;
    while !current.is_null() {
        // SAFETY: `current` is a non-null element of the list, which is not freed yet.
        let entry = unsafe { &*current };
        current = entry.ifa_next;
        if entry.ifa_addr.is_null() || entry.ifa_name.is_null() {
            continue;
        }
        // SAFETY: a non-null address has at least its family.
        if i32::from(unsafe { (*entry.ifa_addr).sa_family }) != libc::AF_INET {
            continue;
        }
        // SAFETY: an address of this family is a `sockaddr_in`; the read allows for missing
        // alignment.
        let address = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
        // SAFETY: the name is NUL-terminated; it is copied here.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        found.entry(name).or_insert_with(|| Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)));
    }
    // SAFETY: this is the list that `getifaddrs` stored; no reference to it is used afterwards.
    unsafe { libc::freeifaddrs(list) };
    found
}

fn block_devices(dump: &mut StateWriter<'_>) -> io::Result<()> {
    for name in names("/sys/class/block") {
        let text = fs::read_to_string(format!("/sys/class/block/{name}/dev")).unwrap_or_default();
        if let Some(dev) = device_number(text.trim()) {
            dump.line(json!({ "kind": "block_device", "name": name, "dev": dev }))?;
        }
    }
    Ok(())
}

/// Converts `major:minor` to the kernel's internal device number, as in its events: the minor
/// number has 20 bits.
fn device_number(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
}

/// Saves the kernel's functions with their addresses, for events that contain addresses: the lines
/// of `/proc/kallsyms` for functions, unchanged, as `symbols/kallsyms`.
pub fn symbols(recording: &Path) -> io::Result<()> {
    write_symbols(recording).inspect_err(|_| {
        // With a part of the symbols, addresses would get wrong names.
        let _ = fs::remove_file(recording.join("symbols/kallsyms"));
    })
}

fn write_symbols(recording: &Path) -> io::Result<()> {
    let folder = recording.join("symbols");
    let mut out: Option<BufWriter<File>> = None;
    let mut timers = Vec::new();
    each_symbol(|line, symbol| {
        timers.extend(timer(symbol));
        let out = match &mut out {
            Some(out) => out,
            None => {
                fs::create_dir_all(&folder)?;
                out.insert(BufWriter::with_capacity(256 << 10, File::create(folder.join("kallsyms"))?))
            }
        };
        out.write_all(line)
    })?;
    let _ = TIMERS.set(timers);
    out.map_or(Ok(()), |mut out| out.flush())
}

/// A function of the kernel.
struct Symbol<'a> {
    /// Hexadecimal digits.
    address: &'a [u8],
    name: &'a [u8],
}

/// Calls `visit` with the line of each function of the kernel. If this user is not allowed to see
/// addresses, all of them are zero and no function is visited.
fn each_symbol(mut visit: impl FnMut(&[u8], &Symbol<'_>) -> io::Result<()>) -> io::Result<()> {
    let mut lines = BufReader::with_capacity(256 << 10, File::open("/proc/kallsyms")?);
    let (mut line, mut shown) = (Vec::new(), false);
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let mut words = line.splitn(3, |byte| *byte == b' ');
        let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else { continue };
        if !matches!(kind, b"t" | b"T" | b"w" | b"W") {
            continue;
        }
        if !shown && address.iter().all(|digit| *digit == b'0') {
            return Ok(());
        }
        shown = true;
        // For a function of a module, the module's name follows after white space.
        let name = name.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
        visit(&line, &Symbol { address, name })?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_of_timers_are_those_to_which_the_rules_give_a_meaning() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/rules/linux.toml");
        let rules: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
        let mut of_rules: Vec<&str> = rules["timer"].as_array().unwrap().iter().map(|timer| timer["function"].as_str().unwrap()).collect();
        let mut ours = TIMER_FUNCTIONS.to_vec();
        of_rules.sort_unstable();
        ours.sort_unstable();
        assert_eq!(ours, of_rules);
    }

    #[test]
    fn a_thread_may_have_any_name() {
        let text =
            "7 (a) R (b) S 3 7 7 0 -1 2129984 0 0 0 0 1 2 0 0 20 0 1 0 55 0 0 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0";
        let thread = parse_stat(text).unwrap();
        assert_eq!(thread["comm"], "a) R (b");
        assert_eq!((&thread["state"], &thread["ppid"], &thread["cpu"]), (&json!("S"), &json!(3), &json!(1)));
        assert_eq!((&thread["prio"], &thread["kernel_thread"], &thread["start_time"]), (&json!(120), &json!(true), &json!(55)));
        for short in ["", "7", "7 (a", "7 (a)", "7 (a) R 1"] {
            assert_eq!(parse_stat(short), None, "{short:?}");
        }
    }

    #[test]
    fn the_call_in_which_a_thread_waits_is_parsed() {
        assert_eq!(call("0 0x3 0x7ffb5c879000 0x20000 0x22 0xffffffff 0x0 0x7ffd 0x7ffb\n"), Some((0, 3)));
        for none in ["running\n", "-1 0x7ffd 0x7ffb\n", "", "0", "0 3"] {
            assert_eq!(call(none), None, "{none:?}");
        }
        assert_eq!((flags("pos:\t0\nflags:\t02100002\n"), flags("")), (Some(0o2_100_002), None));
    }

    #[test]
    fn a_device_number_has_the_kernels_internal_form() {
        assert_eq!(device_number("254:1"), Some(254 << 20 | 1));
        assert_eq!(device_number("8:1048576"), None);
        assert_eq!(device_number("x"), None);
    }

    #[test]
    fn the_dump_contains_this_process_its_files_and_the_loopback_interface() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.jsonl");
        write(File::create(&path).unwrap(), false, &|| 9).unwrap();
        let lines: Vec<Value> = fs::read_to_string(&path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let own = std::process::id();
        let found =
            |kind: &str, key: &str, value: Value| lines.iter().any(|line| line["kind"] == kind && line[key] == value && line["t"] == 9);
        assert!(found("process", "tid", json!(own)));
        assert!(found("file_descriptor", "pid", json!(own)));
        assert!(found("network_interface", "name", json!("lo")));
        write(File::create(&path).unwrap(), true, &|| 9).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("network_interface") && !text.contains("\"process\"") && !text.contains("file_descriptor"));
    }
}
