//! `longpole check`: shows what can be recorded here, with the exact remedy for what cannot; or
//! checks that a trace is sound. It changes nothing.

mod validate;

use crate::input::in_progress;
use crate::input::memory_dump::Raw;
use crate::input::offset::Offset;
use crate::render::answer;
use crate::render::table::bytes;
use crate::say;
use longpole_record::counter_is_a_clock;
use longpole_record::kernel;
use longpole_record::root;
use longpole_record::runtime_dir::session::{Responsibility, RunningRecording};
use longpole_record::subjects::list as subjects;
use longpole_record::RuntimeDir;
use rustix::fs::{access, statvfs, Access};
use rustix::process::{getrlimit, Resource};
use serde_json::json;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "Examples:
  longpole check               what can be recorded here
  longpole check --json        the same for scripts: docs/json/check.schema.json
  longpole check TRACE         read all of a trace and list what is unusual in it

Exits with 1 if programs with probes cannot be recorded, or if the trace is damaged.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Traces to validate, instead of this host
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Add TIME (s, ms, us, ns) to all times of PATH, a trace or part of one: b.pcapng=-1.5ms
    #[arg(long = "offset", value_name = "PATH=TIME", value_parser = Offset::parse)]
    offsets: Vec<Offset>,
    #[command(flatten)]
    raw: Raw,
}

/// The state of one thing that a recording needs.
struct CheckResult {
    what: &'static str,
    state: State,
    detail: String,
    remedy: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Good,
    /// Works, but worse than it could.
    Limited,
    Bad,
}

/// Free shared memory in bytes that is enough for the ring of a busy thread and some others.
const MEMORY_WANTED: u64 = 64 << 20;
const FILES_WANTED: u64 = 4096;
const DISK_WANTED: u64 = 1 << 30;

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if !args.traces.is_empty() {
        return validate::run(args);
    }
    let findings = [runtime_directory(), memory(), clock(), disk(), files(), recorder(), programs(), kernel_events(), stacks(), packets()];
    let bad = findings.iter().any(|finding| finding.state == State::Bad);
    if args.json {
        let all: Vec<_> = findings
            .iter()
            .map(
                |finding| json!({ "what": finding.what, "state": word(finding.state), "detail": finding.detail, "remedy": finding.remedy }),
            )
            .collect();
        answer::write_json_line(&mut io::stdout().lock(), &json!({ "can_record": !bad, "findings": all }))?;
    } else {
        for finding in &findings {
            say(format_args!("{:<8} {:<18} {}", word(finding.state), finding.what, finding.detail))?;
            if let Some(remedy) = &finding.remedy {
                say(format_args!("{:<27} remedy: {remedy}", ""))?;
            }
        }
    }
    Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn word(state: State) -> &'static str {
    match state {
        State::Good => "ok",
        State::Limited => "limited",
        State::Bad => "failed",
    }
}

fn check_result(what: &'static str, state: State, detail: impl Into<String>, remedy: Option<String>) -> CheckResult {
    CheckResult { what, state, detail: detail.into(), remedy }
}

fn runtime_directory() -> CheckResult {
    const WHAT: &str = "runtime directory";
    let path = RuntimeDir::default_path();
    let shown = path.display();
    if let Err(error) = RuntimeDir::check_length(&path) {
        return check_result(WHAT, State::Bad, error.to_string(), Some("set LONGPOLE_RUNTIME_DIR to a shorter path".to_owned()));
    }
    if path.symlink_metadata().is_ok() {
        return match RuntimeDir::open(&path) {
            Ok(_) => check_result(WHAT, State::Good, shown.to_string(), None),
            Err(error) => {
                let remedy =
                    format!("chmod 700 {shown} if it is your own directory and only for Longpole; else set LONGPOLE_RUNTIME_DIR to such a directory");
                check_result(WHAT, State::Bad, error.to_string(), Some(remedy))
            }
        };
    }
    let parent = path.parent().unwrap_or(Path::new("/"));
    match access(parent, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => check_result(WHAT, State::Good, format!("{shown} (will be made by the first program or recorder)"), None),
        Err(error) => {
            let remedy =
                "mount -t tmpfs -o mode=1777 tmpfs /dev/shm, or set LONGPOLE_RUNTIME_DIR to a directory on a tmpfs that you may write to";
            check_result(WHAT, State::Bad, format!("{shown} cannot be made: {error}"), Some(remedy.to_owned()))
        }
    }
}

fn memory() -> CheckResult {
    const WHAT: &str = "shared memory";
    let path = RuntimeDir::default_path();
    let place = if path.exists() { path.as_path() } else { path.parent().unwrap_or(Path::new("/")) };
    let Ok(found) = statvfs(place) else {
        return check_result(
            WHAT,
            State::Bad,
            format!("{} is not there", place.display()),
            Some("mount -t tmpfs -o mode=1777 tmpfs /dev/shm".to_owned()),
        );
    };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let detail = format!("{} free in {}", bytes(free), place.display());
    match free {
        free if free < 1 << 20 => {
            check_result(WHAT, State::Bad, detail, Some("mount -o remount,size=1G /dev/shm (in a container: --shm-size=1g)".to_owned()))
        }
        free if free < MEMORY_WANTED => {
            let remedy = "mount -o remount,size=1G /dev/shm (in a container: --shm-size=1g); a thread takes 36 KiB, a busy one up to 4 MiB";
            check_result(WHAT, State::Limited, detail, Some(remedy.to_owned()))
        }
        _ => check_result(WHAT, State::Good, detail, None),
    }
}

fn clock() -> CheckResult {
    const WHAT: &str = "clock";
    if std::env::var_os("LONGPOLE_CLOCK").is_some_and(|value| value == "mono_raw") {
        return check_result(
            WHAT,
            State::Limited,
            "CLOCK_MONOTONIC_RAW, as LONGPOLE_CLOCK demands",
            Some("unset LONGPOLE_CLOCK".to_owned()),
        );
    }
    match counter_is_a_clock() {
        true => check_result(WHAT, State::Good, "the time-stamp counter runs at one rate at all times", None),
        false => {
            let detail = "the time-stamp counter cannot be used as a clock here (constant_tsc and nonstop_tsc are missing); CLOCK_MONOTONIC_RAW is used, which costs more per probe";
            check_result(
                WHAT,
                State::Limited,
                detail,
                Some("pass the host's invariant TSC through to this virtual machine (qemu: -cpu host,+invtsc)".to_owned()),
            )
        }
    }
}

fn kernel_events() -> CheckResult {
    const WHAT: &str = "kernel events";
    let found = match kernel::survey() {
        Ok(found) => found,
        Err(trouble) => return check_result(WHAT, State::Limited, trouble.what, Some(trouble.remedy)),
    };
    let names = |groups: &[kernel::Group]| groups.iter().map(|group| group.name()).collect::<Vec<_>>().join(" ");
    let path = found.path.map_or_else(|| "tracefs mounted for the recorder alone".to_owned(), |path| path.display().to_string());
    let mut detail = format!("{path}, clock {}, groups {}", found.clock, names(&found.groups));
    if !found.absent.is_empty() {
        detail.push_str(&format!("; this kernel has no events of {}", names(&found.absent)));
    }
    match kernel::reap::left().len() {
        0 => check_result(WHAT, State::Good, detail, None),
        count => {
            let remedy = "longpole record --for 1s (the next recording saves their content and removes them)";
            check_result(
                WHAT,
                State::Limited,
                format!("{detail}; killed recorders left instances that still trace: {count}"),
                Some(remedy.to_owned()),
            )
        }
    }
}

/// Bit number of the capability, see capabilities(7).
const CAP_NET_RAW: u32 = 13;

/// Returns true if this process has the capability.
fn capable(capability: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).is_some_and(|set| set >> capability & 1 == 1)
}

fn stacks() -> CheckResult {
    const WHAT: &str = "stacks";
    match longpole_record::stacks::survey() {
        Ok(found) => check_result(WHAT, State::Good, found, None),
        Err(trouble) => check_result(WHAT, State::Limited, trouble.what, Some(trouble.remedy)),
    }
}

fn packets() -> CheckResult {
    const WHAT: &str = "interfaces";
    match capable(CAP_NET_RAW) {
        true => check_result(WHAT, State::Good, "packets of network interfaces may be captured (AF_PACKET)", None),
        false => {
            let own = std::env::current_exe().map_or_else(|_| "longpole".to_owned(), |path| path.display().to_string());
            let remedy = format!("run as root, or as root: setcap cap_net_raw+ep {own}");
            check_result(
                WHAT,
                State::Limited,
                "packets of network interfaces may not be captured (AF_PACKET needs CAP_NET_RAW)",
                Some(remedy),
            )
        }
    }
}

fn disk() -> CheckResult {
    const WHAT: &str = "recordings";
    let root = root();
    let place = existing(&root);
    let shown = root.display();
    if let Err(error) = access(&place, Access::WRITE_OK | Access::EXEC_OK) {
        let remedy = "use -o DIR or set LONGPOLE_ROOT to a directory that you may write to".to_owned();
        return check_result(WHAT, State::Bad, format!("{shown}: {error}"), Some(remedy));
    }
    let free = statvfs(&place).map_or(0, |found| found.f_bavail.saturating_mul(found.f_frsize));
    let detail = format!("are written to {shown}, {} free", bytes(free));
    match free {
        free if free < DISK_WANTED => {
            check_result(WHAT, State::Limited, detail, Some("use -o DIR or set LONGPOLE_ROOT to a larger file system".to_owned()))
        }
        _ => check_result(WHAT, State::Good, detail, None),
    }
}

/// Returns the nearest ancestor that exists.
fn existing(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/")).to_owned()
}

fn files() -> CheckResult {
    const WHAT: &str = "open files";
    match getrlimit(Resource::Nofile).maximum {
        Some(most) if most < FILES_WANTED => {
            let detail = format!("at most {most}: enough for about {} threads", most / 3);
            check_result(WHAT, State::Limited, detail, Some(format!("ulimit -Hn {FILES_WANTED} (as root), or LimitNOFILE= of the service")))
        }
        Some(most) => check_result(WHAT, State::Good, format!("at most {most}"), None),
        None => check_result(WHAT, State::Good, "without limit", None),
    }
}

fn recorder() -> CheckResult {
    const WHAT: &str = "recorder";
    match in_progress::all() {
        Ok((all, _)) if all.is_empty() => check_result(WHAT, State::Good, "none is running", None),
        Ok((all, _)) => {
            let described = |running: &RunningRecording| {
                let (pid, path) = (running.pid, running.path.display());
                match running.responsibility {
                    Responsibility::Process(of) => {
                        format!("process {pid} is recording process {of} to {path}; a second recording of it is refused")
                    }
                    Responsibility::Command(_) => format!("process {pid} is recording {} to {path}", in_progress::of(running)),
                    Responsibility::All => {
                        format!("process {pid} is recording to {path}; another recording is refused, unless it is of one process or one command")
                    }
                }
            };
            let detail = all.iter().map(described).collect::<Vec<_>>().join("; ");
            check_result(WHAT, State::Limited, detail, Some("longpole stop".to_owned()))
        }
        Err(error) => check_result(WHAT, State::Limited, error.to_string(), None),
    }
}

fn programs() -> CheckResult {
    const WHAT: &str = "programs";
    let path = RuntimeDir::default_path();
    let found = match path.exists() {
        true => RuntimeDir::open(&path).and_then(|runtime| subjects::list(&runtime)),
        false => Ok((Vec::new(), Vec::new())),
    };
    match found {
        Ok((subjects, ignored)) => {
            let refused: u64 = subjects.iter().map(|subject| u64::from(subject.refused)).sum();
            let mut detail = format!("{} with probes run now", subjects.len());
            if !ignored.is_empty() {
                detail.push_str(&format!("; {} files in {} are not part of its layout and are ignored", ignored.len(), path.display()));
            }
            match refused {
                0 => check_result(WHAT, State::Good, detail, None),
                refused => {
                    let remedy = "mount -o remount,size=1G /dev/shm (in a container: --shm-size=1g)".to_owned();
                    check_result(
                        WHAT,
                        State::Limited,
                        format!("{detail}; {refused} of their events were lost for lack of a ring"),
                        Some(remedy),
                    )
                }
            }
        }
        Err(error) => check_result(WHAT, State::Limited, error.to_string(), None),
    }
}
