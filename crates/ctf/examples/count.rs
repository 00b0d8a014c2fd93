//! Reads a trace directory and prints how many events each stream has, and how fast they were
//! decoded.
//!
//!     count [--fields] [--columns] [--headers] [--print] [--pread] DIR…
//!
//! `--fields` looks at every field of every event, `--columns` at the same by columns (the sums are
//! equal), `--headers` only at classes and times, `--print` prints them, `--pread` reads files
//! through a window instead of whole. A directory is a trace if it holds a file `metadata`;
//! directories below it are searched.

use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use longpole_ctf::{Batch, BytesSource, Column, FileSource, Headers, Metadata, OwnedValue, Source, Step, StreamDecoder, Value};

#[derive(Default)]
struct Sums {
    events: u64,
    discarded_events: u64,
    discarded_packets: u64,
    /// Sum of all integers and lengths, so that the compiler removes no access to a field.
    sum: u64,
}

#[derive(Clone, Copy, Default)]
struct Options {
    fields: bool,
    columns: bool,
    headers: bool,
    print: bool,
    pread: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = Options::default();
    let mut traces = Vec::new();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--fields" => options.fields = true,
            "--columns" => options.columns = true,
            "--headers" => options.headers = true,
            "--print" => options.print = true,
            "--pread" => options.pread = true,
            path => find_traces(Path::new(path), &mut traces)?,
        }
    }
    let begin = Instant::now();
    let mut sums = Sums::default();
    let mut failed = false;
    for trace in &traces {
        let bytes = std::fs::read(trace.join("metadata"))?;
        let metadata = match Metadata::parse(&bytes) {
            Ok(metadata) => Arc::new(metadata),
            Err(e) => {
                eprintln!("{}: {e}", trace.display());
                failed = true;
                continue;
            }
        };
        for path in streams(trace)? {
            let result = if options.pread {
                count(StreamDecoder::new(metadata.clone(), FileSource::new(File::open(&path)?)?), options, &mut sums)
            } else {
                count(StreamDecoder::new(metadata.clone(), BytesSource(std::fs::read(&path)?)), options, &mut sums)
            };
            if let Err(e) = result {
                eprintln!("{}: {e}", path.display());
                failed = true;
            }
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "events {} discarded_events {} discarded_packets {} seconds {seconds:.3} events_per_second {:.0} sum {}",
        sums.events,
        sums.discarded_events,
        sums.discarded_packets,
        sums.events as f64 / seconds,
        sums.sum
    );
    std::process::exit(i32::from(failed));
}

fn count<S: Source>(mut stream: StreamDecoder<S>, options: Options, sums: &mut Sums) -> Result<(), Box<dyn Error>> {
    if options.columns {
        return count_columns(stream, sums);
    }
    if options.headers {
        return count_headers(stream, sums);
    }
    while let Some(step) = stream.advance()? {
        match step {
            Step::Event => {
                sums.events += 1;
                if options.fields {
                    let event = stream.event();
                    sums.sum = sums.sum.wrapping_add(event.ns() as u64);
                    event.each(|_, value| {
                        sums.sum = sums.sum.wrapping_add(match value {
                            Value::U64(v) => v,
                            Value::I64(v) => v as u64,
                            other => look(&other),
                        });
                    });
                }
                if options.print {
                    let event = stream.event();
                    print!("{} {}:", event.ns(), event.name());
                    event.each(|field, value| print!(" {} = {:?}", field.name, value.to_owned()));
                    println!();
                }
            }
            Step::DiscardedEvents(loss) => sums.discarded_events += loss.count.unwrap_or(0),
            Step::DiscardedPackets(loss) => sums.discarded_packets += loss.count.unwrap_or(0),
            Step::PacketBegin | Step::PacketEnd => {}
        }
    }
    Ok(())
}

fn count_columns<S: Source>(mut stream: StreamDecoder<S>, sums: &mut Sums) -> Result<(), Box<dyn Error>> {
    let mut batch = Batch::new();
    while let Some(step) = stream.advance_batch(&mut batch)? {
        match step {
            Step::Event => {
                sums.events += batch.len() as u64;
                for table in batch.tables() {
                    let times = table.ns().iter().fold(0u64, |sum, ns| sum.wrapping_add(*ns as u64));
                    let values = table.columns().iter().map(sum_of).fold(times, u64::wrapping_add);
                    sums.sum = sums.sum.wrapping_add(values);
                }
            }
            Step::DiscardedEvents(loss) => sums.discarded_events += loss.count.unwrap_or(0),
            Step::DiscardedPackets(loss) => sums.discarded_packets += loss.count.unwrap_or(0),
            Step::PacketBegin | Step::PacketEnd => {}
        }
    }
    Ok(())
}

fn count_headers<S: Source>(mut stream: StreamDecoder<S>, sums: &mut Sums) -> Result<(), Box<dyn Error>> {
    let mut headers = Headers::new();
    while let Some(step) = stream.advance_headers(&mut headers)? {
        match step {
            Step::Event => {
                sums.events += headers.len() as u64;
                sums.sum = headers.cycles().iter().fold(sums.sum, |sum, cycles| sum.wrapping_add(*cycles));
                sums.sum = headers.classes().iter().fold(sums.sum, |sum, class| sum.wrapping_add(u64::from(*class)));
            }
            Step::DiscardedEvents(loss) => sums.discarded_events += loss.count.unwrap_or(0),
            Step::DiscardedPackets(loss) => sums.discarded_packets += loss.count.unwrap_or(0),
            Step::PacketBegin | Step::PacketEnd => {}
        }
    }
    Ok(())
}

/// The same sum as that of [`look`] over all values.
fn sum_of(column: &Column) -> u64 {
    match column {
        Column::U64(values) => values.iter().fold(0, |sum, v| sum.wrapping_add(*v)),
        Column::I64(values) => values.iter().fold(0, |sum, v| sum.wrapping_add(*v as u64)),
        Column::F64(values) => values.iter().fold(0, |sum, v| sum.wrapping_add(v.to_bits())),
        column => (0..column.len()).filter_map(|index| column.get(index)).fold(0, |sum, value| sum.wrapping_add(owned(&value))),
    }
}

fn owned(value: &OwnedValue) -> u64 {
    match value {
        OwnedValue::U64(v) => *v,
        OwnedValue::I64(v) => *v as u64,
        OwnedValue::F64(v) => v.to_bits(),
        OwnedValue::Bool(v) => u64::from(*v),
        OwnedValue::Nothing => 0,
        OwnedValue::Str(v) | OwnedValue::Bytes(v) => v.len() as u64,
        OwnedValue::List(parts) => parts.iter().fold(0, |sum, v| sum.wrapping_add(owned(v))),
        OwnedValue::Fields(parts) => parts.iter().fold(0, |sum, (_, v)| sum.wrapping_add(owned(v))),
    }
}

fn look(value: &Value<'_>) -> u64 {
    match value {
        Value::U64(v) => *v,
        Value::I64(v) => *v as u64,
        Value::F64(v) => v.to_bits(),
        Value::Bool(v) => u64::from(*v),
        Value::Nothing => 0,
        Value::Wide(v) => v.decode().len() as u64,
        Value::Str(v) | Value::Bytes(v) => v.len() as u64,
        Value::Array(a) => a.iter().fold(0, |sum, v| sum.wrapping_add(look(&v))),
        Value::Compound(c) => c.iter().fold(0, |sum, (_, v)| sum.wrapping_add(look(&v))),
    }
}

fn find_traces(path: &Path, traces: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if path.join("metadata").is_file() {
        traces.push(path.to_owned());
    }
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            find_traces(&entry.path(), traces)?;
        }
    }
    Ok(())
}

fn streams(trace: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(trace)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_file() && name != "metadata" && !name.to_string_lossy().starts_with('.') {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}
