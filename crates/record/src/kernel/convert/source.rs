//! Reads the description of the pages: `source.json`, the events' formats, the header of a page,
//! and the recording's clock.

use super::cpu_pages::Bounds;
use super::{ConvertError, Converted, MAX_BYTES};
use crate::output::folder::Folder;
use crate::output::metadata::Uuid;
use longpole_ftrace::format::HeaderEvent;
use longpole_ftrace::{ByteOrder, EventFormat, PageLayout};
use serde_json::Value;
use std::collections::HashMap;
use std::fs::File;
use std::io;

/// Largest accepted size of `source.json` in bytes: the parsed JSON takes many times its size in
/// memory.
const MAX_DESCRIPTION: u64 = 4 << 20;
/// Largest accepted size of a format in bytes.
const MAX_FORMAT: u64 = 1 << 20;
/// Largest accepted number of formats, more than any kernel has. Ids have 16 bits.
const MAX_FORMATS: usize = 30_000;

/// Largest accepted number of steps by which events were given up, more than a recorder takes.
const MAX_STEPS: usize = 64;

/// The largest number of CPUs that a kernel can be built for.
const MAX_CPUS: usize = 8192;

/// Everything that is known about the pages from other files.
#[derive(Debug)]
pub struct Description {
    pub host: String,
    pub kernel: String,
    pub arch: String,
    /// Name of the clock, like `clock_source` in the user trace.
    pub clock_source: String,
    /// The `clock` block of the metadata.
    pub clock: String,
    /// UUID of this trace. It differs from the user trace's, because readers join traces that have
    /// the same UUID.
    pub uuid: [u8; 16],
    /// Time at which the streams begin if there is no event.
    pub begin: u64,
    /// True if the recorder has written the state dump.
    pub has_state_dump: bool,
    /// Time at which the tracer was started: no event in the pages is earlier.
    pub earliest: u64,
    /// Context fields that the user requested for every event, about the thread that caused it.
    pub context: Value,
    /// Filters by event name: only matching events were recorded.
    filters: Value,
    page_size: Option<u64>,
    /// Time at which the recorder stopped the tracer. `None` if the recorder was killed before.
    pub end: Option<u64>,
    /// Clock ticks of one second.
    pub second: u64,
    /// Pages by CPU, in ascending order.
    pub pages: Vec<Pages>,
    /// Events that were given up during the recording, in order of time.
    pub switched_off: Vec<StoredSwitchOff>,
    /// The kernel's counters by CPU. A CPU that is missing here was not counted.
    pub counted: HashMap<u32, Counted>,
}

/// Events that were not recorded any more from a time on, as the recorder's overload thread noted
/// it (`overload::SwitchedOff::to_json`).
#[derive(Clone, Debug)]
pub struct StoredSwitchOff {
    pub time: u64,
    pub what: String,
    /// Names of the events, as `subsystem:name`.
    pub events: Vec<String>,
    /// For system calls, the calls that were still recorded.
    pub calls: Vec<String>,
}

/// The pages of one CPU.
#[derive(Debug)]
pub struct Pages {
    pub cpu: u32,
    /// The file with the pages. `None` if the recorder read pages but no file is there.
    pub file: Option<File>,
    pub bytes: u64,
}

/// The kernel's counters of a CPU: events that are in no page, and events in pages that were read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    pub lost: u64,
    pub read: u64,
    /// True if the counters cover more pages than there are: those before a snapshot's window were
    /// left out.
    pub cut: bool,
}

/// Divides a text into the formats in it. Each begins with a line with the event's name.
fn each_format(text: &str) -> Vec<&str> {
    let mut begins: Vec<usize> = text.match_indices("name: ").map(|(at, _)| at).collect();
    begins.retain(|&at| at == 0 || text.as_bytes()[at - 1] == b'\n');
    if begins.first() != Some(&0) {
        begins.insert(0, 0);
    }
    let ends = begins.iter().skip(1).copied().chain([text.len()]);
    begins.iter().zip(ends).map(|(&begin, end)| &text[begin..end]).collect()
}

impl Description {
    /// Reads `longpole.json`, `source.json` and the user trace's clock. Files that are missing or
    /// broken are reported in `done`; only a missing clock is an error.
    pub fn read(recording: &Folder, raw: &Folder, done: &mut Converted) -> Result<Description, ConvertError> {
        let whole = json(recording, "longpole.json", MAX_BYTES, done);
        let source = json(raw, "source.json", MAX_DESCRIPTION, done);
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        let uuid = whole["uuid"].as_str().and_then(Uuid::parse);
        let metadata = recording.folder("user").and_then(|user| user.text("metadata", MAX_BYTES)).unwrap_or_default();
        let clock = match block(&metadata) {
            Some(block) => block.to_owned(),
            None => clock(&whole, &source, uuid).ok_or_else(|| ConvertError::Description {
                path: recording.join("longpole.json"),
                what: "neither it nor user/metadata describes the clock".to_owned(),
            })?,
        };
        let mono = source["clock"].as_str() == Some("mono_raw");
        // On a full disk, the newest `source.json` may be missing although `longpole.json` could be
        // written.
        let cpus = [&source["cpus"], &whole["kernel_events"]["cpus"]].into_iter().find_map(|cpus| cpus.as_array());
        let begin = source["state_dump"]["begin"].as_u64().unwrap_or(0);
        let counted: HashMap<u32, Counted> = cpus.into_iter().flatten().filter_map(counted).collect();
        Ok(Description {
            host: text(&whole["host"]),
            kernel: text(&whole["kernel"]),
            clock_source: if mono { "mono_raw".to_owned() } else { whole["clock"]["source"].as_str().unwrap_or("tsc").to_owned() },
            arch: source["arch"].as_str().unwrap_or(std::env::consts::ARCH).to_owned(),
            second: frequency(&clock).unwrap_or(1_000_000_000),
            clock,
            uuid: sibling(uuid),
            begin,
            has_state_dump: source["state_dump"].is_object(),
            earliest: source["begin"].as_u64().unwrap_or(begin),
            end: source["end"].as_u64(),
            context: source["context"].clone(),
            filters: source["filters"].clone(),
            page_size: source["page_size"].as_u64(),
            switched_off: stored_switch_offs(&source),
            pages: pages(raw, &counted, done)?,
            counted,
        })
    }

    /// Limits for the content of a CPU's pages.
    pub fn bounds(&self, cpu: u32) -> Bounds {
        Bounds {
            begin: self.earliest.saturating_sub(self.second),
            end: self.end.map_or(u64::MAX, |end| end.saturating_add(self.second)),
            slack: self.second / 1000,
            most_lost: self.counted.get(&cpu).map_or(u64::MAX, |counted| counted.lost.saturating_add(counted.read)),
        }
    }

    pub fn uuid_text(&self) -> String {
        Uuid(self.uuid).to_string()
    }

    /// Filter of an event. `None` if all of these events were recorded.
    pub fn filter(&self, system: &str, name: &str) -> Option<String> {
        self.filters[format!("{system}:{name}").as_str()].as_str().map(str::to_owned)
    }

    /// Returns the formats that can be read, in the order of their names.
    pub fn formats(raw: &Folder, done: &mut Converted) -> Vec<EventFormat> {
        let mut formats: Vec<EventFormat> = Vec::new();
        let mut known = std::collections::HashSet::new();
        let events = raw.folder("events").ok();
        let systems =
            events.iter().flat_map(|events| events.names().unwrap_or_default().into_iter().filter_map(|name| events.folder(name).ok()));
        for system in systems {
            let name = system.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            for event in system.names().unwrap_or_default() {
                let path = system.join(&event);
                let text = match system.text(&event, MAX_FORMAT) {
                    Ok(text) => text,
                    Err(error) => {
                        done.note(format!("{} cannot be read: {error}", path.display()));
                        continue;
                    }
                };
                for format in each_format(&text) {
                    match EventFormat::parse(&name, format) {
                        Ok(format) if !known.insert(format.id) => {
                            done.note(format!("{}: two formats have the id {}", path.display(), format.id))
                        }
                        Ok(format) if formats.len() < MAX_FORMATS => formats.push(format),
                        Ok(_) => {}
                        Err(error) => done.note(format!("{}: {error}; its events are kept as bytes", path.display())),
                    }
                }
            }
        }
        formats
    }

    /// Reads the layout of the pages from `header_page` and `header_event`. `any` is a format from
    /// which the position of event ids is taken.
    pub fn page_layout(&self, raw: &Folder, order: ByteOrder, any: Option<&EventFormat>) -> Result<PageLayout, ConvertError> {
        let text = |name: &str| {
            let path = raw.join(name);
            let text = raw.text(name, MAX_FORMAT).map_err(ConvertError::io("read", &path))?;
            Ok::<_, ConvertError>((path, text))
        };
        let (path, header) = text("header_event")?;
        HeaderEvent::parse(&header).map_err(|error| ConvertError::Format { path, error })?;
        let (path, header) = text("header_page")?;
        let layout = PageLayout::parse(&header, order).map_err(|error| ConvertError::Format { path, error })?;
        // `header_page` is the kernel's own text and is trusted more. Pages read with a wrong size
        // would be misaligned, all of them.
        if let Some(size) = self.page_size.filter(|size| *size != layout.page_size() as u64) {
            let what = format!("pages of {size} bytes contradict header_page, whose pages have {}; the pages stay", layout.page_size());
            return Err(ConvertError::Description { path: raw.join("source.json"), what });
        }
        Ok(match any {
            Some(format) => layout.with_ids_of(format),
            None => layout,
        })
    }
}

/// Reads a JSON file. Returns `Null` if it is missing or cannot be read: a recorder that was killed
/// may have left none, or an incomplete one.
fn json(folder: &Folder, name: &str, most: u64, done: &mut Converted) -> Value {
    let read = folder.text(name, most).map_err(|error| (error.kind(), error.to_string()));
    let parsed = read.and_then(|text| serde_json::from_str(&text).map_err(|error| (io::ErrorKind::InvalidData, error.to_string())));
    parsed.unwrap_or_else(|(kind, error)| {
        if kind != io::ErrorKind::NotFound {
            done.note(format!("{} is left out: {error}", folder.join(name).display()));
        }
        Value::Null
    })
}

/// Returns the CPUs that have pages, or should have some by the kernel's counters.
fn pages(raw: &Folder, counted: &HashMap<u32, Counted>, done: &mut Converted) -> Result<Vec<Pages>, ConvertError> {
    let mut cpus: Vec<u32> = counted.iter().filter(|(_, counted)| counted.read > 0).map(|(cpu, _)| *cpu).collect();
    for name in raw.names().map_err(ConvertError::io("read", raw.path()))? {
        let cpu = name.to_str().and_then(|name| name.strip_prefix("cpu")?.parse::<u32>().ok());
        cpus.extend(cpu.filter(|cpu| name == format!("cpu{cpu}").as_str()));
    }
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.len() > MAX_CPUS {
        let what = format!("pages of {} CPUs; no kernel has more than {MAX_CPUS}", cpus.len());
        return Err(ConvertError::Description { path: raw.path().to_owned(), what });
    }
    let mut pages = Vec::new();
    for cpu in cpus {
        let name = format!("cpu{cpu}");
        let path = raw.join(&name);
        let file = match raw.read(&name) {
            Ok(file) => Some(file),
            Err(error) if is_not_there(&error) => {
                done.note(format!("{}: {error}; the pages of this CPU are not in the trace", path.display()));
                None
            }
            Err(error) => return Err(ConvertError::io("open", path)(error)),
        };
        let bytes = file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |meta| meta.len());
        pages.push(Pages { cpu, file, bytes });
    }
    Ok(pages)
}

/// True if nothing, a link, a folder or a pipe is in the place of the file. Other errors may
/// disappear, so the conversion fails with them and can be repeated.
fn is_not_there(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) || error.raw_os_error() == Some(libc::ELOOP)
}

/// Returns the events that were given up until now.
pub fn switched_off(raw: &Folder) -> Vec<StoredSwitchOff> {
    stored_switch_offs(&json(raw, "source.json", MAX_DESCRIPTION, &mut Converted::default()))
}

fn stored_switch_offs(source: &Value) -> Vec<StoredSwitchOff> {
    source["switched_off"].as_array().into_iter().flatten().take(MAX_STEPS).filter_map(stored_switch_off).collect()
}

fn stored_switch_off(json: &Value) -> Option<StoredSwitchOff> {
    let texts = |key: &str| json[key].as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect();
    Some(StoredSwitchOff {
        time: json["begin"].as_u64()?,
        what: json["what"].as_str()?.to_owned(),
        events: texts("events"),
        calls: texts("calls"),
    })
}

fn counted(cpu: &Value) -> Option<(u32, Counted)> {
    let number = |key: &str| cpu[key].as_u64().unwrap_or(0);
    // Events that stayed in the buffer are in no page either.
    let lost = ["overrun", "commit_overrun", "dropped", "entries"].into_iter().map(number).fold(0, u64::saturating_add);
    Some((u32::try_from(cpu["cpu"].as_u64()?).ok()?, Counted { lost, read: number("read"), cut: cpu["cut"] == true }))
}

/// Returns the frequency from a `clock` block, in Hz.
fn frequency(block: &str) -> Option<u64> {
    let rest = &block[block.find("freq = ")? + 7..];
    rest[..rest.find(';')?].trim().parse().ok().filter(|hz| *hz > 0)
}

/// Returns the `clock` block of a trace that we wrote, unchanged. Copied into this trace, it gives
/// both traces exactly the same clock.
fn block(metadata: &str) -> Option<&str> {
    let at = metadata.find("\nclock {\n")? + 1;
    let end = at + metadata[at..].find("\n};\n")? + 3;
    let block = &metadata[at..end];
    block.contains("name = \"longpole\";").then_some(block)
}

/// Makes a `clock` block from `longpole.json`, whose offset is rounded to nanoseconds.
fn clock(whole: &Value, source: &Value, uuid: Option<Uuid>) -> Option<String> {
    let mono = source["clock"].as_str() == Some("mono_raw");
    let frequency = whole["clock"]["frequency_hz"].as_u64().filter(|hz| *hz > 0).or(mono.then_some(1_000_000_000))?;
    let offset_ns = whole["clock"]["offset_ns"].as_i64()?;
    let seconds = offset_ns.div_euclid(1_000_000_000);
    let rest = offset_ns.rem_euclid(1_000_000_000) as u128;
    let ticks = (rest * u128::from(frequency) + 500_000_000) / 1_000_000_000;
    let uuid = uuid.map(|uuid| format!("\tuuid = \"{uuid}\";\n")).unwrap_or_default();
    let name = if mono { "mono_raw" } else { "tsc" };
    Some(format!(
        "clock {{\n\tname = \"longpole\";\n{uuid}\tdescription = \"{name}\";\n\tfreq = {frequency};\n\toffset_s = {seconds};\n\toffset = {ticks};\n\tabsolute = true;\n}};"
    ))
}

/// Derives this trace's UUID from that of the user trace, so that they belong together but differ.
fn sibling(uuid: Option<Uuid>) -> [u8; 16] {
    let mut bytes = uuid.map_or([0; 16], |uuid| uuid.0);
    for (byte, mask) in bytes.iter_mut().zip(b"kernel") {
        *byte ^= mask;
    }
    bytes
}
