//! What is known of the pages: `source.json`, the formats, the header of a page, and the recording's clock.

use super::{ConvertError, Converted, MOST_BYTES};
use crate::output::folder::Folder;
use crate::output::metadata::Uuid;
use longpole_ftrace::format::HeaderEvent;
use longpole_ftrace::{ByteOrder, EventFormat, PageLayout};
use serde_json::Value;
use std::collections::HashMap;
use std::fs::File;
use std::io;

/// A description of the pages beyond this is none: it costs many times its size to read.
const MOST_DESCRIPTION: u64 = 4 << 20;
/// A format beyond this is none.
const MOST_FORMAT: u64 = 1 << 20;
/// More formats than a kernel has; ids have 16 bits.
const MOST_FORMATS: usize = 30_000;

/// More than a recorder takes.
const MOST_STEPS: usize = 64;

/// The most that a kernel can be built for.
const MOST_CPUS: usize = 8192;

/// Everything that is said beside the pages.
#[derive(Debug)]
pub struct Description {
    pub host: String,
    pub kernel: String,
    pub arch: String,
    /// As `clock_source` of the user trace.
    pub clock_source: String,
    /// The block of the metadata.
    pub clock: String,
    /// Of this trace. The user trace has another one, since readers join traces of one uuid.
    pub uuid: [u8; 16],
    /// Where the streams begin if there is no event.
    pub begin: u64,
    /// The tracer was started then: no event of the pages is earlier.
    pub earliest: u64,
    /// What the recorder was asked to tell of every event's thread.
    pub context: Value,
    /// By event: which of it were recorded.
    filters: Value,
    page_size: Option<u64>,
    /// When the recorder had stopped the tracer, if it lived to say it.
    pub end: Option<u64>,
    /// Ticks of a second.
    pub second: u64,
    /// By CPU, sorted.
    pub lanes: Vec<Pages>,
    /// What was given up while it was recorded, in the order of time.
    pub switched_off: Vec<Off>,
    /// What the kernel counted, by CPU; a CPU that is missing here was not counted.
    pub counted: HashMap<u32, Counted>,
}

/// Events that were recorded no longer from a time on, since more came than could be stored.
#[derive(Clone, Debug)]
pub struct Off {
    pub time: u64,
    pub what: String,
    /// `subsystem:name`.
    pub events: Vec<String>,
    /// Of system calls: those that were recorded further.
    pub calls: Vec<String>,
}

/// The pages of a CPU.
#[derive(Debug)]
pub struct Pages {
    pub cpu: u32,
    /// None: the recorder left some, but no file is there.
    pub file: Option<File>,
    pub bytes: u64,
}

/// What the kernel counted of a CPU: events that no page holds, and those in pages that it handed out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    pub lost: u64,
    pub read: u64,
    /// Of more pages than there are: those before a snapshot's window were left out.
    pub cut: bool,
}

impl Description {
    pub fn read(recording: &Folder, raw: &Folder, done: &mut Converted) -> Result<Description, ConvertError> {
        let whole = json(recording, "longpole.json", MOST_BYTES, done);
        let source = json(raw, "source.json", MOST_DESCRIPTION, done);
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        let uuid = whole["uuid"].as_str().and_then(Uuid::parse);
        let metadata = recording.folder("user").and_then(|user| user.text("metadata", MOST_BYTES)).unwrap_or_default();
        let clock = match block(&metadata) {
            Some(block) => block.to_owned(),
            None => clock(&whole, &source, uuid).ok_or_else(|| ConvertError::Description {
                path: recording.join("longpole.json"),
                what: "neither it nor user/metadata says how the clock runs".to_owned(),
            })?,
        };
        let mono = source["clock"].as_str() == Some("mono_raw");
        // On a full disk the newest description of the pages may be missing where the recording's found a place.
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
            earliest: source["begin"].as_u64().unwrap_or(begin),
            end: source["end"].as_u64(),
            context: source["context"].clone(),
            filters: source["filters"].clone(),
            page_size: source["page_size"].as_u64(),
            switched_off: source["switched_off"].as_array().into_iter().flatten().take(MOST_STEPS).filter_map(off).collect(),
            lanes: lanes(raw, &counted, done)?,
            counted,
        })
    }

    pub fn uuid_text(&self) -> String {
        Uuid(self.uuid).to_string()
    }

    /// None: all of them were recorded.
    pub fn filter(&self, system: &str, name: &str) -> Option<&str> {
        self.filters[format!("{system}:{name}").as_str()].as_str()
    }

    /// The formats that can be read, in the order of their names.
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
                let text = match system.text(&event, MOST_FORMAT) {
                    Ok(text) => text,
                    Err(error) => {
                        done.note(format!("{} cannot be read: {error}", path.display()));
                        continue;
                    }
                };
                match EventFormat::parse(&name, &text) {
                    Ok(format) if !known.insert(format.id) => {
                        done.note(format!("{}: two formats have the id {}", path.display(), format.id))
                    }
                    Ok(format) if formats.len() < MOST_FORMATS => formats.push(format),
                    Ok(_) => {}
                    Err(error) => done.note(format!("{}: {error}; its events are kept as bytes", path.display())),
                }
            }
        }
        formats
    }

    pub fn page_layout(&self, raw: &Folder, order: ByteOrder, any: Option<&EventFormat>) -> Result<PageLayout, ConvertError> {
        let text = |name: &str| {
            let path = raw.join(name);
            let text = raw.text(name, MOST_FORMAT).map_err(ConvertError::io("read", &path))?;
            Ok::<_, ConvertError>((path, text))
        };
        let (path, header) = text("header_event")?;
        HeaderEvent::parse(&header).map_err(|error| ConvertError::Format { path, error })?;
        let (path, header) = text("header_page")?;
        let layout = PageLayout::parse(&header, order).map_err(|error| ConvertError::Format { path, error })?;
        // The header is the kernel's own text. Pages of another size would be read askew, each of them.
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

/// A recorder that was killed may have left none, or an early one.
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

/// The CPUs that have pages, or should have some.
fn lanes(raw: &Folder, counted: &HashMap<u32, Counted>, done: &mut Converted) -> Result<Vec<Pages>, ConvertError> {
    let mut cpus: Vec<u32> = counted.iter().filter(|(_, counted)| counted.read > 0).map(|(cpu, _)| *cpu).collect();
    for name in raw.names().map_err(ConvertError::io("read", raw.path()))? {
        let cpu = name.to_str().and_then(|name| name.strip_prefix("cpu")?.parse::<u32>().ok());
        cpus.extend(cpu.filter(|cpu| name == format!("cpu{cpu}").as_str()));
    }
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.len() > MOST_CPUS {
        let what = format!("pages of {} CPUs; no kernel has more than {MOST_CPUS}", cpus.len());
        return Err(ConvertError::Description { path: raw.path().to_owned(), what });
    }
    let mut lanes = Vec::new();
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
        lanes.push(Pages { cpu, file, bytes });
    }
    Ok(lanes)
}

/// Nothing, a link, a folder or a pipe stands where a file should. Anything else may be better the next time.
fn is_not_there(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) || error.raw_os_error() == Some(libc::ELOOP)
}

fn off(told: &Value) -> Option<Off> {
    let texts = |key: &str| told[key].as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect();
    Some(Off { time: told["begin"].as_u64()?, what: told["what"].as_str()?.to_owned(), events: texts("events"), calls: texts("calls") })
}

fn counted(cpu: &Value) -> Option<(u32, Counted)> {
    let number = |key: &str| cpu[key].as_u64().unwrap_or(0);
    // What stayed in the buffer is in no page either.
    let lost = ["overrun", "commit_overrun", "dropped", "entries"].into_iter().map(number).fold(0, u64::saturating_add);
    Some((u32::try_from(cpu["cpu"].as_u64()?).ok()?, Counted { lost, read: number("read"), cut: cpu["cut"] == true }))
}

/// Of a clock's block.
fn frequency(block: &str) -> Option<u64> {
    let rest = &block[block.find("freq = ")? + 7..];
    rest[..rest.find(';')?].trim().parse().ok().filter(|hz| *hz > 0)
}

/// The clock block of a trace that we wrote, word for word: both traces then have one clock to the last digit.
fn block(metadata: &str) -> Option<&str> {
    let at = metadata.find("\nclock {\n")? + 1;
    let end = at + metadata[at..].find("\n};\n")? + 3;
    let block = &metadata[at..end];
    block.contains("name = \"longpole\";").then_some(block)
}

/// The same from `longpole.json`, whose offset is rounded to nanoseconds.
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

/// A uuid that belongs to the recording and is not the user trace's.
fn sibling(uuid: Option<Uuid>) -> [u8; 16] {
    let mut bytes = uuid.map_or([0; 16], |uuid| uuid.0);
    for (byte, mask) in bytes.iter_mut().zip(b"kernel") {
        *byte ^= mask;
    }
    bytes
}
