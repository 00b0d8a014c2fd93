//! Speed of the critical path without the reading of its input.
//! `critical_path_speed LOG [--segments]` reads a machine log into memory, and then measures the
//! pass alone, three times.

use longpole_analysis::critical_path::{CriticalPath, Options};
use longpole_analysis::machine_log::Reader;
use std::error::Error;
use std::fs::File;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = arguments.first().ok_or("usage: critical_path_speed LOG [--segments]")?;
    let segments = arguments.iter().any(|argument| argument == "--segments");
    let begin = Instant::now();
    let mut reader = Reader::new(File::open(path)?);
    let mut all = Vec::new();
    while let Some(interaction) = reader.next_interaction()? {
        all.push(interaction);
    }
    let rate = |seconds: f64| all.len() as f64 / seconds / 1e6;
    println!("reading: {:.2} M interactions/s", rate(begin.elapsed().as_secs_f64()));
    for _ in 0..3 {
        let begin = Instant::now();
        let mut critical_path = CriticalPath::new(Options { segments, ..Options::default() });
        for interaction in &all {
            critical_path.interaction(reader.vocabulary(), interaction);
        }
        let sizes = critical_path.sizes();
        let seconds = begin.elapsed().as_secs_f64();
        println!("pass: {:.2} M interactions/s; {} nodes for {} tips, {} segments", rate(seconds), sizes.nodes, sizes.tips, sizes.segments);
        critical_path.answer(reader.vocabulary())?;
    }
    Ok(())
}
