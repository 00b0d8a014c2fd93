//! The choice of processes and threads by policies, and the reasons for empty recordings.

use crate::support;
use crate::support::{numbered, Place, Running};
use std::fs;
use std::time::Duration;

#[test]
fn policies_select_by_label_and_thread() {
    let place = Place::new();
    let config = place.directory.path().join("policies.toml");
    fs::write(&config, "exclude = [\"noise*\"]\n[[policy]]\nlabel_prefix = \"init -> \"\nthread = \"worker 1\"\n").unwrap();
    let recorder = place.recorder("0", Some(&config));
    for (label, file) in [("init -> router", "a"), ("noise", "b"), ("other", "c")] {
        let status = place.numbered(3, 1000, 50, 2000, file).env("LONGPOLE_LABEL", label).status().unwrap();
        assert!(status.success());
    }
    let ended = recorder.finish();
    let counts = numbered(&ended.path);
    assert_eq!(counts.len(), 1, "{counts:?}");
    assert_eq!(counts.keys().next().map(|key| key.1), Some(1));
    assert_eq!(counts.values().map(|count| count.recorded + count.lost).sum::<u64>(), 1000);
}

#[test]
fn a_changed_configuration_is_applied_and_an_invalid_one_is_not() {
    let place = Place::new();
    let config = place.directory.path().join("policies.toml");
    fs::write(&config, "enable = false\nperiod = \"5ms\"\n").unwrap();
    let mut recorder = place.recorder("0", Some(&config));
    let program = Running::start(&mut place.numbered(1, 0, 10, 500, "p"));
    support::until(|| place.emitted("p").first().is_some_and(|count| *count > 100));
    assert!(numbered(&recorder.path).is_empty());
    fs::write(&config, "enable = true\nperiod = \"5ms\"\n\n").unwrap();
    support::until(|| !numbered(&recorder.path).is_empty());
    fs::write(&config, "enable = flase\n").unwrap();
    let refused = || fs::read_to_string(recorder.path.join("longpole.json")).unwrap_or_default().contains("policies.toml:1:");
    support::until(refused);
    let before: u64 = numbered(&recorder.path).values().map(|count| count.recorded).sum();
    support::until(|| numbered(&recorder.path).values().map(|count| count.recorded).sum::<u64>() > before);
    assert!(recorder.is_alive());
    program.kill();
    recorder.finish();
}

#[test]
fn an_empty_recording_gives_the_reason() {
    let place = Place::new();
    let ended = place.recorder("0", None).finish();
    assert!(ended.empty.contains("no process with probes was seen"), "{}", ended.empty);

    let config = place.directory.path().join("policies.toml");
    fs::write(&config, "exclude = [\"*\"]\n").unwrap();
    let recorder = place.recorder("0", Some(&config));
    assert!(place.numbered(1, 100, 0, 0, "p").status().unwrap().success());
    std::thread::sleep(Duration::from_millis(20));
    let ended = recorder.finish();
    assert!(ended.empty.contains("left out") || ended.empty.contains("no policy wanted"), "{}", ended.empty);
    assert!(support::lanes(&ended.path).is_empty());

    fs::write(&config, "enable = false\n").unwrap();
    let recorder = place.recorder("0", Some(&config));
    assert!(place.numbered(1, 100, 0, 0, "p").status().unwrap().success());
    let ended = recorder.finish();
    assert!(ended.empty.contains("enable = false") || ended.empty.contains("no process"), "{}", ended.empty);
}
