//! Two recorders at a time: each has its own programs, or the second is told who the first one is.

#[path = "support/commanded.rs"]
mod commanded;
#[path = "support/place.rs"]
mod place;

use commanded::{counted, path, Commanded};
use place::{ok, Place};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A command of a second user, so to speak: with a runtime directory of its own, and the same root.
fn second(mut command: Command, place: &Place) -> Command {
    let runtime = place.path("second");
    if !runtime.exists() {
        std::fs::create_dir(&runtime).unwrap();
        std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    command.env("LONGPOLE_RUNTIME_DIR", runtime);
    command
}

#[test]
fn two_recorders_of_disjoint_programs_work_at_the_same_time_and_their_recordings_have_two_names() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    // Begun at the same time, as far as that goes.
    let mut starts = [place.longpole(&["start"]), second(place.longpole(&["start"]), &place)];
    let begun: Vec<_> = starts.iter_mut().map(|start| start.stdout(std::process::Stdio::piped()).spawn().unwrap()).collect();
    let paths: Vec<_> = begun.into_iter().map(|child| path(&ok(child.wait_with_output().unwrap()))).collect();
    assert_ne!(paths[0], paths[1]);
    let mut one = Commanded::start(&place, &program);
    let mut other = Commanded::of(&mut second(place.command(&program), &place));
    let tried = [one.does("marks 1000"), other.does("marks 77")];
    one.end();
    other.end();
    let ended = [place.longpole(&["stop"]), second(place.longpole(&["stop"]), &place)].map(|mut stop| path(&ok(stop.output().unwrap())));
    assert_eq!(ended.to_vec(), paths);
    for (recording, tried) in paths.iter().zip(tried) {
        assert_eq!(counted(recording, "mark:numbered"), (tried, 0));
    }
}

#[test]
fn a_second_recorder_of_the_same_programs_is_refused_and_told_who_the_first_one_is() {
    let place = Place::new();
    let recording = path(&ok(place.longpole(&["start"]).output().unwrap()));
    let status: serde_json::Value = serde_json::from_slice(&ok(place.longpole(&["status", "--json"]).output().unwrap()).stdout).unwrap();
    let pid = status["recording"]["pid"].to_string();
    for arguments in [&["start"][..], &["record", "--for", "1s"], &["record", "--", "true"]] {
        let refused = place.longpole(arguments).output().unwrap();
        assert!(!refused.status.success());
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(why.contains(&pid) && why.contains(recording.to_str().unwrap()), "{why}");
    }
    assert_eq!(place.recordings(), [recording.clone()], "a refused one leaves no directory");
    assert_eq!(path(&ok(place.longpole(&["stop"]).output().unwrap())), Path::new(&recording));
}
