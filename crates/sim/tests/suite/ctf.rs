//! The traces of simulated probes, read by our reader and by another one (babeltrace2).

use longpole_ctf::{BytesSource, Item, Metadata, StreamDecoder};
use longpole_sim::ctf::Ctf;
use longpole_sim::engine::{run, Outcome};
use longpole_sim::scenarios;
use longpole_sim::system::System;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

fn written(name: &str, directory: &Path) -> (System, Outcome) {
    let sketch = scenarios::build(scenarios::find(name).unwrap(), 2, Some(200));
    let mut ctf = Ctf::create(directory).unwrap();
    let outcome = run(&sketch.system, &mut ctf).unwrap();
    ctf.finish().unwrap();
    (sketch.system, outcome)
}

/// Number of events and sum of their `count` fields, by event name; and the number of all events.
fn read(directory: &Path) -> (HashMap<String, (u64, u64)>, u64) {
    let metadata = Arc::new(Metadata::parse(&std::fs::read(directory.join("metadata")).unwrap()).unwrap());
    let (mut names, mut all) = (HashMap::<String, (u64, u64)>::new(), 0);
    for entry in std::fs::read_dir(directory).unwrap().flatten().filter(|entry| entry.file_name() != "metadata") {
        let mut stream = StreamDecoder::new(metadata.clone(), BytesSource(std::fs::read(entry.path()).unwrap()));
        while let Some(item) = stream.next().unwrap() {
            if let Item::Event(event) = item {
                let sums = names.entry(event.name().to_owned()).or_default();
                sums.0 += 1;
                sums.1 += event.get("count").and_then(|value| value.as_u64()).unwrap_or(0);
                all += 1;
            }
        }
    }
    (names, all)
}

#[test]
fn a_trace_has_every_put_and_get_and_babeltrace2_reads_as_many_events() {
    for name in ["tandem_1", "fork_join", "rpc_chain", "lock_convoy", "polling", "batching"] {
        let folder = tempfile::tempdir().unwrap();
        let (system, outcome) = written(name, folder.path());
        let (names, all) = read(folder.path());
        for (queue, flow) in system.queues.iter().zip(&outcome.queues) {
            let of = |kind: &str| names.get(&format!("{kind}:{}", queue.name.split(':').next_back().unwrap())).copied().unwrap_or_default();
            if queue.is_call() {
                assert_eq!((of("rpc_call").0, of("rpc_dispatch").0), (flow.put, flow.got), "{name} {}", queue.name);
            } else if queue.merge {
                assert_eq!((of("signal_submit").1, of("signal_receive").1), (flow.put, flow.got), "{name} {}", queue.name);
            } else {
                let kind = |kind| names.get(&format!("{kind}:{}", queue.name)).map_or(0, |sums| sums.1);
                assert_eq!((kind("queue_put"), kind("queue_get")), (flow.put, flow.got), "{name} {}", queue.name);
            }
        }
        match Command::new("babeltrace2").arg(folder.path()).output() {
            Err(_) => println!("skipped: comparison with babeltrace2 (it is not installed)"),
            Ok(output) => {
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                assert_eq!(output.stdout.iter().filter(|&&byte| byte == b'\n').count() as u64, all, "{name}");
            }
        }
    }
}

#[test]
fn a_system_that_probes_cannot_record_is_rejected() {
    for (name, why) in [("cpu_hog", "CPU"), ("control_sleep", "timers"), ("credit", "hosts")] {
        let sketch = scenarios::build(scenarios::find(name).unwrap(), 1, None);
        assert!(Ctf::cannot_tell(&sketch.system).unwrap().contains(why), "{name}");
    }
}
