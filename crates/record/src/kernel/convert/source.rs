//! What is known of the pages: `source.json`, the formats, the header of a page, and the recording's clock.

use super::{ConvertError, Converted};
use crate::metadata::Uuid;
use longpole_ftrace::format::HeaderEvent;
use longpole_ftrace::{ByteOrder, CpuStats, EventFormat, PageLayout};
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A description or format beyond this is none.
const MOST_BYTES: u64 = 64 << 20;
/// More formats than a kernel has; ids have 16 bits.
const MOST_FORMATS: usize = 30_000;

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
    /// What the recorder was asked to tell of every event's thread.
    pub context: Value,
    /// By event: which of it were recorded.
    filters: Value,
    page_size: Option<u64>,
    /// CPUs and their pages, sorted.
    pub lanes: Vec<(u32, PathBuf)>,
    /// What the kernel counted as lost, by CPU.
    pub lost: HashMap<u32, u64>,
    raw: PathBuf,
}

impl Description {
    pub fn read(recording: &Path, raw: &Path) -> Result<Description, ConvertError> {
        let whole = json(&recording.join("longpole.json"));
        let source = json(&raw.join("source.json"));
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        let uuid = whole["uuid"].as_str().and_then(Uuid::parse);
        let metadata = read(&recording.join("user/metadata")).unwrap_or_default();
        let clock = match block(&metadata) {
            Some(block) => block.to_owned(),
            None => clock(&whole, &source, uuid).ok_or_else(|| ConvertError::Description {
                path: recording.join("longpole.json"),
                what: "neither it nor user/metadata says how the clock runs".to_owned(),
            })?,
        };
        let mono = source["clock"].as_str() == Some("mono_raw");
        let mut lanes = Vec::new();
        for entry in fs::read_dir(raw).map_err(ConvertError::io("read", raw))? {
            let entry = entry.map_err(ConvertError::io("read", raw))?;
            let name = entry.file_name();
            let cpu = name.to_str().and_then(|name| name.strip_prefix("cpu")).and_then(|cpu| cpu.parse().ok());
            if let (Some(cpu), true) = (cpu, entry.file_type().is_ok_and(|kind| kind.is_file())) {
                lanes.push((cpu, entry.path()));
            }
        }
        lanes.sort();
        lanes.dedup_by_key(|lane| lane.0);
        let mut lost = HashMap::new();
        for cpu in source["cpus"].as_array().into_iter().flatten() {
            let number = |key: &str| cpu[key].as_u64().unwrap_or(0);
            let stats = CpuStats {
                overrun: number("overrun"),
                commit_overrun: number("commit_overrun"),
                dropped: number("dropped"),
                ..CpuStats::default()
            };
            // What stayed in the buffer is in no page either.
            let all = stats.overrun.saturating_add(stats.commit_overrun).saturating_add(stats.dropped).saturating_add(number("entries"));
            if let Some(cpu) = cpu["cpu"].as_u64().and_then(|cpu| u32::try_from(cpu).ok()) {
                lost.insert(cpu, all);
            }
        }
        let arch = source["arch"].as_str().unwrap_or(std::env::consts::ARCH).to_owned();
        Ok(Description {
            host: text(&whole["host"]),
            kernel: text(&whole["kernel"]),
            clock_source: if mono { "mono_raw".to_owned() } else { whole["clock"]["source"].as_str().unwrap_or("tsc").to_owned() },
            arch,
            clock,
            uuid: sibling(uuid),
            begin: source["state_dump"]["begin"].as_u64().unwrap_or(0),
            context: source["context"].clone(),
            filters: source["filters"].clone(),
            page_size: source["page_size"].as_u64(),
            lanes,
            lost,
            raw: raw.to_owned(),
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
    pub fn formats(&self, done: &mut Converted) -> Result<Vec<EventFormat>, ConvertError> {
        let mut formats: Vec<EventFormat> = Vec::new();
        let mut known = std::collections::HashSet::new();
        for system in sorted(&self.raw.join("events")) {
            let name = system.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            for path in sorted(&system) {
                let Some(text) = read(&path) else {
                    done.note(format!("{} cannot be read", path.display()));
                    continue;
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
        Ok(formats)
    }

    pub fn page_layout(&self, raw: &Path, order: ByteOrder, any: Option<&EventFormat>) -> Result<PageLayout, ConvertError> {
        let text = |name: &str| {
            let path = raw.join(name);
            let text = fs::read_to_string(&path).map_err(ConvertError::io("read", &path))?;
            Ok::<_, ConvertError>((path, text))
        };
        let (path, header) = text("header_event")?;
        HeaderEvent::parse(&header).map_err(|error| ConvertError::Format { path, error })?;
        let (path, header) = text("header_page")?;
        let mut layout = PageLayout::parse(&header, order).map_err(|error| ConvertError::Format { path, error })?;
        if let Some(size) = self.page_size.and_then(|size| usize::try_from(size).ok()) {
            if size > layout.data_offset() + 4 {
                layout = layout.with_page_size(size);
            }
        }
        Ok(match any {
            Some(format) => layout.with_ids_of(format),
            None => layout,
        })
    }
}

/// A file that is small enough; text that is no UTF-8 is read as far as it is.
fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A recorder that was killed may have left none, or an early one.
fn json(path: &Path) -> Value {
    read(path).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null)
}

fn sorted(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
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
