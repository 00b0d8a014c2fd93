//! `top` without a terminal: its JSON against the schema. tests/top.sh uses its screen.

use crate::support::place::{ok, Place, Running};
use crate::support::schema;
use serde_json::Value;

fn periods(place: &Place, arguments: &[&str]) -> Vec<Value> {
    let all = [&["top", "--json", "--period", "500ms", "--count", "2"], arguments].concat();
    let output = ok(place.longpole(&all).output().unwrap());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn each_period_is_a_line_that_the_schema_describes() {
    let place = Place::new();
    let program = place.build("live", &[]);
    let live = Running::start(place.command(&program).arg("0"));
    let schema = schema::schema("top");
    let of_probes = periods(&place, &["--kernel", "none"]);
    assert_eq!(of_probes.len(), 2);
    of_probes.iter().for_each(|period| schema::check(&schema, period));
    let last = &of_probes[1];
    assert_eq!(last["queues"][0]["name"], "parcels", "{last:#}");
    assert!(last["number"].as_u64() >= Some(2) && last["cpus"].is_null(), "{last:#}");
    if let Err(why) = longpole_record::kernel::available() {
        println!("skipped: the kernel's events in top ({why})");
        return;
    }
    let pid = live.id().to_string();
    let of_kernel = periods(&place, &["--kernel", "sched", "--pid", &pid]);
    of_kernel.iter().for_each(|period| schema::check(&schema, period));
    let threads = of_kernel[1]["threads"].as_array().unwrap();
    assert!(!threads.is_empty() && threads.iter().all(|thread| thread["pid"] == live.id()), "{threads:?}");
    assert!(threads.iter().any(|thread| thread["name"] == "busy_one"), "{threads:?}");
    let cpus = of_kernel[1]["cpus"].as_array().unwrap();
    assert!(cpus.iter().all(|cpu| cpu["busy"].as_f64() <= Some(1.0001)), "{cpus:?}");
}
