//! Prepares the tracer's instance: enables the requested events, and saves the formats that explain
//! the pages. Recording does not begin yet.

use super::buffers::{present, size_buffers};
use super::pages::CpuReader;
use super::{room, KernelSource};
use crate::kernel::exclude_self::CALLS;
use crate::kernel::faults;
use crate::kernel::groups::EventRequest;
use crate::kernel::importance;
use crate::kernel::masks;
use crate::kernel::plan::{KernelError, Plan, Wanted};
use crate::kernel::reap;
use crate::kernel::single_calls;
use crate::output::folder::Folder;
use crate::output::recording::Reserve;
use longpole_ftrace::{EventName, Instance, TraceFs};
use rustix::event::{eventfd, EventfdFlags};
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::Arc;

/// Fill at which the kernel wakes the thread that moves pages, in percent of the buffer.
const WAKE_AT: &str = "25";
/// Name of the file with the formats of all single system calls, which are hundreds.
const FORMATS: &str = "formats";
/// The event for page faults of programs.
const USER_FAULT: &str = "exceptions:page_fault_user";
/// Free bytes on the disk from which the kernel's symbols (some 5 MiB) are saved at the start.
const SYMBOLS_FIRST_ROOM: u64 = 128 << 20;

/// The events that the instance records.
#[derive(Default)]
struct Enabled {
    names: Vec<String>,
    /// Events that may be given up if there are more than can be stored.
    may_go: Vec<String>,
    /// Filters of the user, by event.
    filters: Map<String, Value>,
    /// Events that the kernel refused, by reason.
    refused: BTreeMap<String, Vec<String>>,
}

impl KernelSource {
    /// Makes the instance and saves the formats that explain its pages. Recording does not begin
    /// yet.
    pub fn prepare(plan: Plan, recording: &Path) -> Result<KernelSource, KernelError> {
        let Plan { tracefs, request, wanted, single_calls, missing, clock } = plan;
        let raw = recording.join(crate::kernel::RAW);
        fs::create_dir_all(&raw).map_err(KernelError::io("make", &raw))?;
        let raw = reap::own_raw(recording).map_err(KernelError::io("open", &raw))?;
        let lock = reap::lock(recording);
        let instance = Instance::create(&tracefs, crate::kernel::PREFIX)?;
        // From here on, a process that finds the instance also finds its recording.
        reap::announce(&instance.name(), recording);
        let mut diagnostics = Vec::new();
        instance.set_clock(&[clock.0])?;
        // Keep the newest events: in this mode only, the pages contain where events are missing.
        instance.set_option("overwrite", true)?;
        let records_calls = single_calls || wanted.iter().any(|wanted| wanted.event.to_string() == CALLS[1]);
        let mut mask_calls = None;
        if records_calls && !crate::kernel::has_foreign_pids() {
            match masks::prepare(&tracefs) {
                Ok(calls) => mask_calls = Some(calls),
                Err(error) => diagnostics.push(format!("{}: {error}", masks::MISSING)),
            }
        }
        leave_out_names(&tracefs, [Some(&instance), mask_calls.as_ref()]);
        let _ = instance.set("buffer_percent", WAKE_AT);
        let cpus = present(instance.cpus()?);
        let (size, note) = size_buffers(&instance, &request, cpus.len() as u64)?;
        diagnostics.extend(note);
        // Measured before the tracer makes page faults slower.
        let faults = wanted.iter().any(|wanted| wanted.event.to_string() == USER_FAULT);
        let page_fault_ns = faults.then(faults::least_ns).flatten();
        let events = raw.make("events").map_err(KernelError::io("make", raw.join("events")))?;
        let enabled = enable(&wanted, &instance, &tracefs, &events)?;
        if !missing.is_empty() {
            diagnostics.push(format!("this kernel has no event {}", missing.join(", ")));
        }
        for (why, names) in enabled.refused {
            diagnostics.push(format!("the kernel does not let these events be recorded: {} ({why})", names.join(", ")));
        }
        save_headers(&instance, &tracefs, &raw, &events)?;
        let (mut readers, mut buffers) = (Vec::new(), BTreeMap::new());
        for &cpu in &cpus {
            let name = format!("cpu{cpu}");
            let path = raw.join(&name);
            let file = raw.create(&name).map_err(KernelError::io("make", &path))?;
            let taken = Arc::<AtomicU64>::default();
            buffers.insert(cpu, (size, Arc::clone(&taken)));
            let most = usize::try_from(size).unwrap_or(usize::MAX);
            readers.push(CpuReader { reader: instance.reader(cpu)?, file, path, most, taken });
        }
        let page_size = instance.layout()?.page_size();
        let groups: Vec<&'static str> = request.groups.iter().map(|group| group.name()).collect();
        let context: Vec<&str> = request.context.iter().map(|context| context.name()).collect();
        let description = json!({
            "version": 1,
            "arch": std::env::consts::ARCH,
            "clock": clock.0,
            "page_size": page_size,
            "groups": groups,
            "left_out": if request.light { crate::kernel::light::left_out(&request.groups, single_calls) } else { Value::Null },
            "page_fault_ns": page_fault_ns,
            "events": enabled.names,
            "filters": enabled.filters,
            "switched_off": [],
            "context": context,
            "missing": missing,
            "instance": instance.name(),
            "foreign_pids": crate::kernel::has_foreign_pids(),
            "begin": null,
            "before": null,
            "state_dump": null,
            "end": null,
            "cpus": null,
        });
        let wake =
            eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(|error| KernelError::io("make", "eventfd")(error.into()))?;
        let reserve = Reserve::make(raw.path());
        let may_go = enabled.may_go.iter().map(String::as_str);
        let source = KernelSource {
            instance: Some(instance),
            raw,
            cpus,
            overwrites: request.overwrite,
            reported_cpus: BTreeMap::new(),
            readers,
            thread: None,
            wake: Arc::new(wake),
            shared: Arc::default(),
            description,
            reserve,
            clock: None,
            counters: None,
            single_calls,
            mask_calls,
            masks: None,
            names: None,
            steps: if request.keep_all || request.overwrite { Vec::new() } else { importance::steps(may_go) },
            overload_thread: None,
            buffers,
            lock,
            diagnostics,
        };
        source.describe()?;
        // The symbols come last on a disk that is nearly full, if at all: otherwise they would take
        // the space of the events.
        if room(source.raw.path()).is_none_or(|room| room >= SYMBOLS_FIRST_ROOM) {
            source.symbols(recording);
        }
        Ok(source)
    }
}

/// Lets the kernel not remember the names of threads for its own text of events, which takes 0.1 us
/// at each switch and each wake-up. Names are recorded with the events. Must be called before
/// events are enabled. The kernel's switch for this acts on all events that are enabled on the
/// host, so nothing is changed while other tracers record.
fn leave_out_names<'a>(tracefs: &TraceFs, instances: impl IntoIterator<Item = Option<&'a Instance>>) {
    if tracefs.records_events().unwrap_or(true) {
        return;
    }
    for instance in instances.into_iter().flatten() {
        // A kernel that refuses records as well, only more slowly.
        let _ = instance.set_option("record-cmd", false);
    }
}

/// Enables the wanted events, and saves the format of each in `events`.
fn enable(wanted: &[Wanted], instance: &Instance, tracefs: &TraceFs, events: &Folder) -> Result<Enabled, KernelError> {
    let mut enabled = Enabled::default();
    let mut of_calls = String::new();
    for wanted in wanted {
        let name = wanted.event.to_string();
        let done = instance.enable(&wanted.event, wanted.filter.as_deref());
        match (done, &wanted.asked) {
            (Ok(()), _) => {}
            (Err(source), Some(request)) if !request.is_pattern() => {
                return Err(KernelError::Event { request: request.to_string(), source });
            }
            // A pattern means all matching events that can be recorded with this filter, so one
            // refusal is no error.
            (Err(error), _) => {
                let text = error.to_string();
                enabled.refused.entry(text.lines().last().unwrap_or("").to_owned()).or_default().push(name);
                continue;
            }
        }
        let text = tracefs.format_text(&wanted.event)?;
        let (system, event) = (&wanted.event.system, &wanted.event.name);
        if system == single_calls::SYSTEM {
            of_calls.push_str(&text);
        } else {
            let place = if events.holds(system) { events.folder(system) } else { events.make(system) };
            let written = place.and_then(|place| place.create(event)?.write_all(text.as_bytes()));
            written.map_err(KernelError::io("write", events.join(system).join(event)))?;
        }
        if let Some(filter) = &wanted.filter {
            enabled.filters.insert(name.clone(), json!(filter));
        }
        // An event that the user requested by its full name is never given up.
        if wanted.asked.as_ref().is_none_or(EventRequest::is_pattern) {
            enabled.may_go.push(name.clone());
        }
        enabled.names.push(name);
    }
    if !of_calls.is_empty() {
        let written = events.make(single_calls::SYSTEM).and_then(|place| place.create(FORMATS)?.write_all(of_calls.as_bytes()));
        written.map_err(KernelError::io("write", events.join(single_calls::SYSTEM).join(FORMATS)))?;
    }
    Ok(enabled)
}

/// Saves the formats that all pages have in common, and that of the marks.
fn save_headers(instance: &Instance, tracefs: &TraceFs, raw: &Folder, events: &Folder) -> Result<(), KernelError> {
    for name in ["header_page", "header_event"] {
        let path = format!("events/{name}");
        // Older kernels have this file only for all instances together.
        let text = instance.get(&path).or_else(|_| tracefs.read(&path))?;
        raw.create(name).and_then(|mut file| file.write_all(text.as_bytes())).map_err(KernelError::io("write", raw.join(name)))?;
    }
    let (system, event) = masks::MARKER;
    if let Ok(text) = tracefs.format_text(&EventName::new(system, event)) {
        if !events.holds(system) {
            let written = events.make(system).and_then(|place| place.create(event)?.write_all(text.as_bytes()));
            written.map_err(KernelError::io("write", events.join(system).join(event)))?;
        }
    }
    Ok(())
}
