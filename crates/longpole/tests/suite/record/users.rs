//! Root records the programs of all users, and no other user records foreign programs. The tests
//! run in a mount and pid namespace of their own, so that no other recorder interferes.

use crate::support::host::is_root;
use crate::support::place::{ok, Place};
use crate::support::program::copy_program;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

fn live() -> bool {
    let root = is_root();
    let possible = root && Command::new("unshare").args(["-m", "-p", "-f", "true"]).status().is_ok_and(|status| status.success());
    let possible = possible && Command::new("setpriv").args(["--reuid", "4321", "true"]).status().is_ok_and(|status| status.success());
    if !possible {
        println!("skipped: several users (needs root, unshare and setpriv)");
    }
    possible
}

/// Runs a shell script. `$longpole` and `$numbered` are programs that every user may run, and `$as
/// N` runs a command as user N.
fn alone(place: &Place, script: &str) -> Output {
    let numbered = place.build("numbered", &[]);
    let longpole = place.path("longpole");
    copy_program(env!("CARGO_BIN_EXE_longpole"), &longpole);
    std::fs::set_permissions(place.path(""), std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = format!(
        "set -e; mount -t tmpfs -o mode=1777 none /dev/shm; longpole={}; numbered={numbered}\n\
         as='setpriv --clear-groups --regid 4321 --reuid'\n\
         record() {{ $longpole record --kernel none --stacks none \"$@\"; }}\n\
         cd {}; chmod 755 .\n{script}",
        longpole.display(),
        place.path("traces").display()
    );
    let mut command = place.command("unshare");
    command.args(["-m", "-p", "-f", "--kill-child", "--mount-proc", "sh", "-c", &script]).env_remove("LONGPOLE_RUNTIME_DIR");
    command.output().unwrap()
}

/// Checks that the events and lost events of the newest recording are as many as the programs
/// emitted. Returns their number.
fn assert_exact(place: &Place, said: &str) -> u64 {
    let info = place.answer("info", &place.newest());
    let told = info["events"].as_u64().unwrap() + info["lost"].as_u64().unwrap();
    let emitted: u64 = said.lines().filter_map(|line| line.strip_prefix("emitted ")?.split(' ').nth(1)?.parse::<u64>().ok()).sum();
    assert_eq!(told, emitted, "{said}");
    emitted
}

#[test]
fn root_records_the_programs_of_all_users() {
    if !live() {
        return;
    }
    let place = Place::new();
    let script = "
        $as 4321 $numbered 2 10000000 1000 10 linger > ../a & a=$!
        $as 4322 $numbered 1 10000000 1000 10 linger > ../b & b=$!
        $numbered 1 10000000 1000 10 linger > ../c & c=$!
        sleep 0.3
        record --for 1s
        $longpole list >&2
        kill $a $b $c; wait $a $b $c || true
        cat ../a ../b ../c";
    let run = ok(alone(&place, script));
    assert!(assert_exact(&place, &String::from_utf8_lossy(&run.stdout)) > 1000);
    let listed = String::from_utf8_lossy(&run.stderr);
    assert!(["numbered (user 4321)", "numbered (user 4322)", "numbered  "].iter().all(|label| listed.contains(label)), "{listed}");
    let info = place.answer("info", &place.newest());
    assert!(info["streams"].as_array().unwrap().len() >= 4, "{info}");
}

#[test]
fn a_process_that_a_command_starts_as_another_user_is_recorded_soon_after_its_first_probe() {
    if !live() {
        return;
    }
    let place = Place::new();
    // The first time the other user's runtime directory does not exist before. The second time it
    // exists without a process.
    for before in ["true", "$as 4321 $numbered 1 1 > /dev/null"] {
        let script = format!("{before}; record -- setpriv --reuid 4321 --clear-groups $numbered 2 4000 100 1");
        let run = ok(alone(&place, &script));
        let emitted = assert_exact(&place, &String::from_utf8_lossy(&run.stdout));
        assert!(emitted > 4000, "{emitted} of 8000 events");
    }
}

#[test]
fn programs_that_another_recorder_records_are_reported_with_that_recorder() {
    if !live() {
        return;
    }
    let place = Place::new();
    let script = "
        $as 4321 $numbered 1 10000000 1000 10 linger > /dev/null & a=$!
        sleep 0.3
        mkdir mine; chown 4321 mine
        $as 4321 $longpole record -o mine --kernel none --for 2s 2> /dev/null & own=$!
        sleep 0.5
        record --for 500ms || true
        wait $own
        record --for 2s & root=$!
        sleep 1
        $as 4321 $longpole record -o mine --kernel none --for 1s || true
        wait $root
        kill $a; wait $a || true";
    let run = alone(&place, script);
    let told = String::from_utf8_lossy(&run.stderr);
    assert!(told.contains("programs of user 4321 (as process") && told.contains("are not recorded until that recording ends"), "{told}");
    assert!(told.contains("longpole: a recording is running already: process"), "{told}");
    assert!(told.contains("of events in 1 stream\n"), "{told}");
}
