//! The smallest recorder: records every process with probes into the directory that is its
//! argument, until it gets a signal.
//!
//!     cargo run -p longpole-record --example recorder -- traces \
//!         [RING SIZE [CONFIGURATION|- [KERNEL GROUPS|- [INTERFACES|-
//!         [STACKS [STACKS OF WAITS]]]]]]
//!
//! Prints the path of the recording as soon as it runs. At the end it prints the numbers of
//! recorded and lost events, the reason if nothing was recorded, and the diagnostics.

use longpole_record::kernel::{Group, Request};
use longpole_record::stacks::Rates;
use longpole_record::Options;
use longpole_record::Recorder;
use longpole_record::Scope;
use longpole_record::Stop;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let root = arguments.next().ok_or("which directory?")?;
    let buffer = arguments.next().and_then(|text| longpole_record::parse_size(&text)).filter(|size| *size > 0);
    let config = arguments.next().filter(|text| text != "-").map(Into::into);
    let groups: Option<Vec<Group>> =
        arguments.next().filter(|text| text != "-").map(|text| text.split(',').map(str::parse).collect()).transpose()?;
    let packets = arguments.next().filter(|text| text != "-").map(|text| text.split(',').map(str::parse).collect()).transpose()?;
    let running = arguments.next().map(|text| text.parse()).transpose()?;
    let waiting = arguments.next().map(|text| text.parse()).transpose()?;
    let stop = Stop::install()?;
    let options = Options {
        root: Some(root.into()),
        config,
        scope: Scope::Everything,
        selection: None,
        buffer,
        mode: None,
        max_size: None,
        default_max_size: None,
        max_age: None,
        command: Vec::new(),
        probe_cost_ns: None,
        kernel: groups.map(|groups| Request { groups, ..Request::default() }),
        stacks: running.map(|running| Rates { running, waiting }),
        packets,
        snaplen: None,
        steady: None,
    };
    let mut recorder = Recorder::start(options, Some(&stop))?;
    println!("{}", recorder.path().display());
    while stop.signal().is_none() {
        let longest = recorder.turn()?;
        recorder.wait(longest);
    }
    let outcome = recorder.finish();
    println!("{} {} {}", outcome.recorded, outcome.lost, outcome.empty.as_deref().unwrap_or("-"));
    for diagnostic in &outcome.diagnostics {
        println!("{diagnostic}");
    }
    Ok(())
}
