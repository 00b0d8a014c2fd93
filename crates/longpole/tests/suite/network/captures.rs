//! `info`, `print`, `packets` and `check` of captures that other tools wrote: they show everything
//! in a capture, up to the position where it becomes unreadable.

use crate::support::schema;
use longpole_testing::captures;
use longpole_testing::captures::{block, everything, option, section, words};
use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

fn written(place: &TempDir, bytes: &[u8]) -> PathBuf {
    let path = place.path().join("x.pcapng");
    std::fs::write(&path, bytes).unwrap();
    path
}

fn ask(arguments: &[&str], capture: &Path) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_longpole")).env_remove("LONGPOLE_ROOT").args(arguments).arg(capture).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn info_shows_interfaces_comments_names_secrets_and_unknown_blocks_of_a_capture() {
    let place = TempDir::new().unwrap();
    let capture = written(&place, &[everything(false), everything(true)].concat());
    let (code, told, said) = ask(&["info", "--json"], &capture);
    assert_eq!(code, Some(0), "{said}");
    let answer: Value = serde_json::from_str(&told).unwrap();
    schema::check(&schema::schema("info"), &answer);
    let capture_told = &answer["captures"][0];
    assert_eq!(capture_told["sections"], 2);
    assert_eq!(capture_told["comments"], json!(["names", "names"]));
    assert_eq!(capture_told["packet_comments"], 2);
    assert_eq!(capture_told["names"][0], json!({"address": "127.0.0.1", "names": ["home"]}));
    assert_eq!(capture_told["secrets"], json!({"TLS key log": 2}));
    assert_eq!(capture_told["custom"], json!({"9": 4}));
    assert_eq!(capture_told["unknown"], json!({"77": 2}));
    let interface = &capture_told["interfaces"][1];
    assert_eq!((&interface["section"], &interface["name"], &interface["packets"]), (&json!(1), &json!("eth0"), &json!(3)));
    assert_eq!((&interface["resolution"], &interface["offset_s"], &interface["snaplen"]), (&json!("10^-9 s"), &json!(5), &json!(40)));
    assert_eq!((&interface["statistics"]["dropped"], &interface["statistics"]["os_dropped"]), (&json!(3), &json!(4)));
    // Packets that the interface (3) or the system (4) dropped count as lost, in each of the two
    // sections.
    assert_eq!(answer["lost"], 14);
    assert_eq!(answer["names"], json!({"packet": 6, "journal": 2}));

    let (_, told, _) = ask(&["info"], &capture);
    for part in
        ["pcapng, 2 sections", "eth0", "10^-9 s", "comment: names", "name: 127.0.0.1 is home", "secrets: 2 of TLS key log", "type 0x4d: 2"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn print_shows_packet_options_and_journal_entries() {
    let place = TempDir::new().unwrap();
    let number = |value: u64| value.to_le_bytes();
    let options = [
        option(false, 1, b"one"),
        option(false, 1, "zw\u{f6}lf".as_bytes()),
        option(false, 2, &[9, 0, 1, 0]),
        option(false, 5, &number(77)),
        option(false, 6, &[3, 0, 0, 0]),
    ]
    .concat();
    let more = block(false, 6, &[&words(false, &[0, 1, 2, 0, 60])[..], &options].concat());
    let capture = written(&place, &[everything(false), more].concat());
    let (code, told, said) = ask(&["print", "--json"], &capture);
    assert_eq!(code, Some(0), "{said}");
    let lines: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.iter().for_each(|line| schema::check(&schema::schema("print"), line));
    let fields: Vec<&Value> = lines.iter().map(|line| &line["fields"]).collect();
    assert!(
        fields.contains(&&json!({"interface": "eth0", "direction": 1, "length": 60, "captured": 3, "comment": "hello", "flags": 4})),
        "{told}"
    );
    let full = json!({"interface": "eth0", "direction": 1, "length": 60, "captured": 0, "comment": ["one", "zw\u{f6}lf"], "flags": 65544, "packet_id": 77, "queue": 3});
    assert!(fields.contains(&&full), "{told}");
    let entry = lines.iter().find(|line| line["name"] == "journal").unwrap();
    assert_eq!((&entry["t_ns"], &entry["fields"]), (&json!(1_700_000_000_000_005_000u64), &json!({"MESSAGE": "a\nb"})));
    assert!(lines.iter().any(|line| line["lost"] == 7), "{told}");
}

#[test]
fn a_damaged_capture_is_read_up_to_the_damage_and_its_position_is_reported() {
    let place = TempDir::new().unwrap();
    let whole = everything(false);
    let packet = |options: &[u8]| block(false, 6, &[&words(false, &[0, 1, 2, 0, 60])[..], options].concat());
    // The capture has an option that does not fit into its block, and then a block whose two
    // lengths differ.
    let bad_option = packet(&[1, 0, 99, 0]);
    let mut torn = packet(&[]);
    let last = torn.len() - 4;
    torn[last] ^= 1;
    let at = whole.len();
    let capture = written(&place, &[&whole[..], &bad_option, &packet(&[]), &torn, &packet(&[])].concat());
    let (code, told, _) = ask(&["check"], &capture);
    assert_eq!(code, Some(1));
    assert!(told.contains(&format!("at byte {}: option 1 of 99 bytes", at + 28)) && told.contains("this block is left out"), "{told}");
    let behind = at + bad_option.len() + packet(&[]).len();
    assert!(
        told.contains(&format!("at byte {behind}: the block's length is")) && told.contains("the blocks after it cannot be found"),
        "{told}"
    );
    assert!(told.contains("damaged: 4 events, 7 lost"), "{told}");
    let (_, told, _) = ask(&["print"], &capture);
    assert_eq!(told.lines().filter(|line| line.contains(" packet: ")).count(), 4, "{told}");
    // A file that ends inside a block is read up to that block.
    let capture = written(&place, &[&whole[..], &packet(&[])[..20]].concat());
    let (code, told, _) = ask(&["check"], &capture);
    assert!(code == Some(1) && told.contains(&format!("at byte {at}: the file ends inside a block: 20 of 32 bytes are there")), "{told}");
}

#[test]
fn a_pcap_in_the_modified_format_is_refused_with_the_name_of_the_format() {
    let place = TempDir::new().unwrap();
    for big in [false, true] {
        let (code, _, said) = ask(&["info"], &written(&place, &words(big, &[0xa1b2_cd34, 0x0004_0002, 0, 0, 100, 1])));
        assert!(code == Some(1) && said.contains("modified form") && said.contains("editcap"), "{said}");
    }
    let (code, _, said) = ask(&["info"], &written(&place, &section(false)[..20]));
    assert!(code == Some(0) || said.contains("ends"), "{said}");
}

#[test]
fn check_refuses_a_machine_log_with_an_unknown_field() {
    let place = TempDir::new().unwrap();
    let log = place.path().join("log");
    std::fs::write(&log, "{\"t\":1,\"machine\":\"A\",\"state\":\"run\"}\n{\"t\":2,\"machine\":\"A\",\"stat\":\"x\"}\n").unwrap();
    let (code, told, _) = ask(&["check"], &log);
    assert!(code == Some(1) && told.contains("line 2") && told.contains("stat"), "{told}");
    std::fs::write(&log, "{\"t\":1,\"machine\":\"A\",\"state\":\"run\"}\n").unwrap();
    let (code, told, _) = ask(&["check"], &log);
    assert!(code == Some(0) && told.contains("sound: 1 event"), "{told}");
}

#[test]
fn a_block_without_a_time_gets_that_of_the_packet_before_it_or_of_the_first_packet() {
    let place = TempDir::new().unwrap();
    let simple = block(false, 3, &[words(false, &[3]), vec![1, 2, 3, 0]].concat());
    let packet = |t: u32| block(false, 6, &words(false, &[0, 0, t, 0, 60]));
    // Statistics without a time, which report 5 dropped packets.
    let statistics = block(false, 5, &[words(false, &[0, 0, 0]), option(false, 5, &5u64.to_le_bytes())].concat());
    let file = [section(false), captures::interface(false, 0), simple.clone(), packet(7), simple, statistics, packet(9)].concat();
    let (code, told, said) = ask(&["print", "--json"], &written(&place, &file));
    assert_eq!(code, Some(0), "{said}");
    let times: Vec<i64> = told.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["t_ns"].as_i64().unwrap()).collect();
    assert_eq!(times, [7000, 7000, 7000, 7000, 9000], "{told}");
}
