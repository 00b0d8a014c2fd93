//! Two recorders at a time. Either each has its own programs, or the second one is refused and its
//! message names the first one.

use crate::support::commanded::{counted, description, path, CommandedProgram};
use crate::support::place;
use crate::support::place::{ok, wait_for, Place};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Gives a command a second runtime directory and the same root, as if it belonged to a second
/// user.
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
    // Both sessions begin as close together as possible.
    let mut starts = [place.longpole(&["start"]), second(place.longpole(&["start"]), &place)];
    let begun: Vec<_> = starts.iter_mut().map(|start| start.stdout(std::process::Stdio::piped()).spawn().unwrap()).collect();
    let paths: Vec<_> = begun.into_iter().map(|child| path(&ok(child.wait_with_output().unwrap()))).collect();
    assert_ne!(paths[0], paths[1]);
    let mut one = CommandedProgram::start(&place, &program);
    let mut other = CommandedProgram::of(&mut second(place.command(&program), &place));
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
fn a_second_recorder_of_the_same_programs_is_refused_with_the_pid_of_the_first() {
    let place = Place::new();
    let recording = path(&ok(place.longpole(&["start"]).output().unwrap()));
    let status: serde_json::Value = serde_json::from_slice(&ok(place.longpole(&["status", "--json"]).output().unwrap()).stdout).unwrap();
    let pid = status["recording"]["pid"].to_string();
    for arguments in [&["start"][..], &["record", "--for", "1s"], &["record", "--all", "--", "true"]] {
        let refused = place.longpole(arguments).output().unwrap();
        assert!(!refused.status.success());
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(why.contains(&pid) && why.contains(recording.to_str().unwrap()), "{why}");
    }
    assert_eq!(place.recordings(), std::slice::from_ref(&recording), "a refused one leaves no directory");
    assert_eq!(path(&ok(place.longpole(&["stop"]).output().unwrap())), Path::new(&recording));
}

fn recordings(place: &Place) -> Vec<Value> {
    let status: Value = serde_json::from_slice(&ok(place.longpole(&["status", "--json"]).output().unwrap()).stdout).unwrap();
    assert_eq!(status["recording"], status["recordings"][0]);
    status["recordings"].as_array().unwrap().clone()
}

fn refused(place: &Place, arguments: &[&str]) -> String {
    let output = place.longpole(arguments).output().unwrap();
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn recorders_of_single_processes_share_a_runtime_directory() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let mut programs = [CommandedProgram::start(&place, &program), CommandedProgram::start(&place, &program)];
    let mut paths = Vec::new();
    for program in &programs {
        paths.push(path(&ok(place.longpole(&["start", "--pid", &program.pid()]).output().unwrap())));
    }
    let all = recordings(&place);
    assert_eq!(all.len(), 2);
    for (program, recording) in programs.iter().zip(&paths) {
        let told = all.iter().find(|told| told["of_pid"].as_u64() == program.pid().parse().ok()).expect("status tells whose it is");
        assert_eq!(told["path"], recording.to_str().unwrap());
        let why = refused(&place, &["start", "--pid", &program.pid()]);
        assert!(why.contains(&told["pid"].to_string()) && why.contains(recording.to_str().unwrap()), "{why}");
    }
    let tried = [programs[0].does("marks 1000"), programs[1].does("marks 77")];
    for verb in ["stop", "snapshot"] {
        let why = refused(&place, &[verb]);
        assert!(paths.iter().all(|path| why.contains(path.to_str().unwrap())), "{why}");
    }
    let snapshot = path(&ok(place.longpole(&["snapshot", "--pid", &programs[1].pid()]).output().unwrap()));
    assert_eq!(counted(&snapshot, "mark:numbered"), (77, 0));
    for (program, recording) in programs.iter().zip(&paths) {
        assert_eq!(path(&ok(place.longpole(&["stop", "--pid", &program.pid()]).output().unwrap())), *recording);
    }
    for ((program, recording), tried) in programs.into_iter().zip(&paths).zip(tried) {
        assert_eq!(counted(recording, "mark:numbered"), (tried, 0));
        program.end();
    }
    assert_eq!(recordings(&place), [] as [Value; 0]);
}

#[test]
fn a_recorder_of_all_leaves_a_process_to_its_own_recorder_and_records_it_afterwards() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let (mut one, mut other) = (CommandedProgram::start(&place, &program), CommandedProgram::start(&place, &program));
    let pid = one.pid();
    let of_one = path(&ok(place.longpole(&["start", "--pid", &pid]).output().unwrap()));
    let of_all = path(&ok(place.longpole(&["start"]).output().unwrap()));
    let (first, context) = (one.does("marks 500"), other.does("marks 80"));
    assert_eq!(path(&ok(place.longpole(&["stop", "--pid", &pid]).output().unwrap())), of_one);
    assert_eq!(counted(&of_one, "mark:numbered"), (first, 0));
    // From here on the recorder of all records the process. The only sign of that is that the
    // process is enabled again.
    let enabled = |pid: &str| {
        let list: Value = serde_json::from_slice(&ok(place.longpole(&["list", "--json"]).output().unwrap()).stdout).unwrap();
        list["subjects"].as_array().unwrap().iter().any(|subject| subject["pid"].as_u64() == pid.parse().ok() && subject["enabled"] == true)
    };
    wait_for(|| enabled(&pid));
    let second = one.does("marks 40") - first;
    one.end();
    other.end();
    assert_eq!(path(&ok(place.longpole(&["stop"]).output().unwrap())), of_all);
    assert_eq!(counted(&of_all, "mark:numbered"), (context + second, 0));
    let diagnostics = description(&of_all)["diagnostics"].to_string();
    assert!(
        diagnostics.contains(&format!("process {pid} (commanded) is recorded by process"))
            && diagnostics.contains(of_one.to_str().unwrap()),
        "{diagnostics}"
    );
}

#[test]
fn a_process_that_the_recorder_of_a_command_leaves_out_can_have_its_own_recorder() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let mut outside = CommandedProgram::start(&place, &program);
    let mut commanded = CommandedProgram::of(place.longpole(&["record", "--", &program]).stderr(std::process::Stdio::null()));
    // A process that gets the order to record from a recorder of its own, while the command's
    // recorder gives the same order to all new processes.
    let mut newcomer = CommandedProgram::start(&place, &program);
    let inside = commanded.does("marks 30");
    let mut paths = Vec::new();
    for program in [&outside, &newcomer] {
        paths.push(path(&ok(place.longpole(&["start", "--pid", &program.pid()]).output().unwrap())));
    }
    let tried = [outside.does("marks 500"), newcomer.does("marks 70")];
    for (program, recording) in [&outside, &newcomer].into_iter().zip(&paths) {
        assert_eq!(path(&ok(place.longpole(&["stop", "--pid", &program.pid()]).output().unwrap())), *recording);
    }
    for (recording, tried) in paths.iter().zip(tried) {
        assert_eq!(counted(recording, "mark:numbered"), (tried, 0));
    }
    commanded.end();
    let of_command = place.recordings().into_iter().find(|recording| !paths.contains(recording)).unwrap();
    assert_eq!(counted(&of_command, "mark:numbered"), (inside, 0));
    outside.end();
    newcomer.end();
}

/// A recorder of a command that takes orders on its stdin.
fn commanded(place: &Place, program: &str) -> CommandedProgram {
    CommandedProgram::of(place.longpole(&["record", "--", program]).stderr(std::process::Stdio::null()))
}

/// The recording of the recorder with this pid, from `longpole status`.
fn of_recorder(place: &Place, pid: &str) -> Value {
    let of = || recordings(place).into_iter().find(|told| told["pid"].as_u64() == pid.parse().ok());
    wait_for(|| of().is_some());
    of().unwrap()
}

#[test]
fn two_commands_are_recorded_at_the_same_time_each_by_its_own_recorder() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let mut commands = [commanded(&place, &program), commanded(&place, &program), commanded(&place, &program)];
    let first: Vec<u64> =
        commands.iter_mut().zip(["marks 1000", "marks 77", "marks 5"]).map(|(command, line)| command.does(line)).collect();
    let paths: Vec<_> = commands.iter().map(|command| of_recorder(&place, &command.pid())["path"].as_str().unwrap().to_owned()).collect();
    let told = of_recorder(&place, &commands[2].pid());
    assert_eq!((&told["command"], &told["of_pid"]), (&serde_json::json!([program]), &Value::Null));
    // The first recorder ends first. A process that begins afterwards is not recorded, and the
    // processes of the other recorders still are.
    let [one, mut other, mut third] = commands;
    one.end();
    let stranger = CommandedProgram::start(&place, &program);
    let tried = [first[0], other.does("marks 40"), third.does("marks 6")];
    stranger.end();
    third.end();
    other.end();
    for (recording, tried) in paths.iter().zip(tried) {
        assert_eq!(counted(Path::new(recording), "mark:numbered"), (tried, 0), "{recording}");
        assert_eq!(description(Path::new(recording))["diagnostics"], serde_json::json!([]), "{recording}");
    }
    assert_eq!(place.recordings().len(), 3);
    assert_eq!(sessions(&place), ["session"]);
}

/// Names of the recorders' session files in the runtime directory.
fn sessions(place: &Place) -> Vec<String> {
    let names = std::fs::read_dir(place.path("runtime")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("session")).collect()
}

#[test]
fn hundreds_of_processes_of_two_commands_are_recorded_by_the_right_recorder_from_the_start() {
    let place = Place::new();
    let programs = [place.build_as("c", "reliable", &[]), place.build_as("cpp", "reliable", &[])];
    let begun: Vec<_> = programs
        .iter()
        .map(|program| {
            let mut command = place.longpole(&["record", "--", program, "forks", "spawn", "300", "20"]);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut tried = Vec::new();
    for child in begun {
        let output = ok(child.wait_with_output().unwrap());
        let said = String::from_utf8(output.stdout).unwrap();
        tried.push(said.lines().filter_map(|line| line.split_once(' ')?.1.parse::<u64>().ok()).sum::<u64>());
    }
    let mut found: Vec<u64> =
        place.recordings().iter().map(|recording| counted(recording, "mark:")).map(|(events, lost)| events + lost).collect();
    found.sort_unstable();
    tried.sort_unstable();
    assert_eq!(found, tried);
}

#[test]
fn a_recorder_of_all_leaves_the_processes_of_a_command_to_that_commands_recorder() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let of_all = path(&ok(place.longpole(&["start"]).output().unwrap()));
    let mut context = CommandedProgram::start(&place, &program);
    let mut inside = commanded(&place, &program);
    let (outer, inner) = (context.does("marks 80"), inside.does("marks 500"));
    let of_command = of_recorder(&place, &inside.pid())["path"].as_str().unwrap().to_owned();
    inside.end();
    context.end();
    assert_eq!(path(&ok(place.longpole(&["stop"]).output().unwrap())), of_all);
    assert_eq!(counted(Path::new(&of_command), "mark:numbered"), (inner, 0));
    assert_eq!(counted(&of_all, "mark:numbered"), (outer, 0));
    let diagnostics = description(&of_all)["diagnostics"].to_string();
    assert!(diagnostics.contains("what a command starts is recorded by process") && diagnostics.contains(&of_command), "{diagnostics}");
}

#[test]
fn a_recorded_command_that_records_another_leaves_that_to_the_inner_recorder() {
    let place = Place::new();
    let program = place.build("numbered", &[]);
    let longpole = env!("CARGO_BIN_EXE_longpole");
    let script = format!("{program} 1 100; {longpole} record --kernel none --stacks none -- {program} 2 1000; {program} 1 10");
    ok(place.longpole(&["record", "--", "sh", "-c", &script]).output().unwrap());
    let count = |recording: &std::path::PathBuf| {
        let (events, lost) = counted(recording, ":numbered");
        events + lost
    };
    let mut found: Vec<_> = place.recordings().iter().map(count).collect();
    found.sort_unstable();
    assert_eq!(found, [110, 2000]);
}

#[test]
fn a_recorder_of_a_command_leaves_the_events_of_ended_processes_to_the_recorder_of_all() {
    let place = Place::new();
    let program = place.build("numbered", &[]);
    let of_all = path(&ok(place.longpole(&["start"]).output().unwrap()));
    let status: Value = serde_json::from_slice(&ok(place.longpole(&["status", "--json"]).output().unwrap()).stdout).unwrap();
    let recorder = rustix::process::Pid::from_raw(status["recording"]["pid"].as_i64().unwrap() as i32).unwrap();
    // The recorder of all stands still, as if it waited for a CPU, while a program starts and ends
    // and a recorder of a command begins.
    rustix::process::kill_process(recorder, rustix::process::Signal::STOP).unwrap();
    let ended = place.command(&program).args(["1", "100"]).output();
    let of_command = place.longpole(&["record", "--", &program, "2", "1000"]).output();
    rustix::process::kill_process(recorder, rustix::process::Signal::CONT).unwrap();
    ok(ended.unwrap());
    ok(of_command.unwrap());
    assert_eq!(path(&ok(place.longpole(&["stop"]).output().unwrap())), of_all);
    let of_command = place.recordings().into_iter().find(|recording| *recording != of_all).unwrap();
    // Events may be lost on a busy host, but each is in one of the recordings.
    let tried = |recording: &Path| {
        let (events, lost) = counted(recording, ":numbered");
        events + lost
    };
    assert_eq!((tried(&of_all), tried(&of_command)), (100, 2000));
}

#[test]
fn session_files_of_a_killed_recorder_of_a_second_command_are_removed() {
    let place = Place::new();
    let program = place.build("commanded", &[]);
    let first = commanded(&place, &program);
    of_recorder(&place, &first.pid());
    let mut second = place::Running::start(place.longpole(&["record", "--", "sleep", "20"]).stderr(std::process::Stdio::null()));
    let pid = second.id().to_string();
    of_recorder(&place, &pid);
    assert_eq!(sessions(&place).len(), 2);
    second.kill().unwrap();
    second.wait().unwrap();
    first.end();
    let next = commanded(&place, &program);
    of_recorder(&place, &next.pid());
    next.end();
    assert_eq!(sessions(&place), ["session"]);
}
