//! Texts that a user typed, or that a program wrote for us.

use super::Target;
use crate::seeds;
use longpole_analysis::findings;
use longpole_analysis::latency::event_pairs::Point;
use longpole_analysis::machine_log::Reader;
use longpole_analysis::what_if::Scenario;
use longpole_model::rules::Rules;
use longpole_predicate::{Datum, Predicate};
use longpole_record::file_name;
use longpole_record::interfaces::Pattern;
use longpole_record::kernel::{Context, EventRequest, Group};
use longpole_record::parse_duration;
use longpole_record::parse_size;
use longpole_record::ring_size;
use longpole_record::Condition;
use longpole_record::Config;
use longpole_record::Mode;
use longpole_trace::Moment;
use std::path::Path;

fn lines(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

pub const CONFIG: Target = Target {
    name: "config",
    what: "configuration and policies",
    seeds: |_| Ok(lines(&[CONFIGURATION, "enable = false\n", "[[policy]]\nglob = \"*\"\nmode = \"block\"\nblock_limit = \"1ms\"\n"])),
    words: &[
        "[[policy]]",
        "glob",
        "label",
        "label_prefix",
        "label_suffix",
        "thread",
        "exclude",
        "events",
        "backends",
        "buffer",
        "mode",
        "packets",
        "interfaces",
        "snaplen",
        "period",
        "max_size",
        "max_age",
        "block_limit",
        "= \"",
        "\"\"\"",
        "1GiB",
        "10s",
        "promiscuous = true",
    ],
    run: |input, _| {
        let text = String::from_utf8_lossy(input);
        match Config::parse(&text, Path::new("policies.toml")) {
            Err(error) => drop(error.to_string()),
            Ok(config) => {
                for label in ["", "squeeze", "shops -> corner", "noise\u{fffd}", "*?*?"] {
                    let _ = config.for_process(label);
                    for thread in ["", "reader", "*"] {
                        let _ = config.for_thread(label, thread).map(|policy| policy.map(|policy| config.full_ring_action(Some(policy))));
                    }
                }
                drop(config.summary());
            }
        }
    },
};

const CONFIGURATION: &str = r#"enable = true
period = "50ms"
root = "traces"
mode = "overwrite"
block_limit = "100ms"
max_size = "10GiB"
max_age = "2h"
kernel_buffer = "20MiB"
exclude = ["noise*", "?"]
packets = { interfaces = ["eth*", "pid:1/lo"], snaplen = 100, buffer = "4MiB", promiscuous = false }

[[policy]]
label = "squeeze"
thread = "reader"
events = ["queue", "span"]
buffer = "1MiB"

[[policy]]
label_prefix = "shops -> "
label_suffix = "r"
events = ["queue", "event", "log"]
backends = ["ctf", "pcapng"]
packets = { interfaces = ["*"], snaplen = 65536 }
"#;

pub const CONDITIONS: Target = Target {
    name: "conditions",
    what: "what a snapshot waits for, sizes, times, and requests for kernel events and interfaces",
    seeds: |_| {
        Ok(lines(&[
            "span(\"parse\") > 5ms",
            "span('two words') > 1.5s || lost",
            "full(\"inbox\") > 10ms",
            "counter(\"load\") > 12.5",
            "rate(\"a b\") < 100",
            "lost",
            "block:block_rq_issue:bytes > 65536",
            "sched:*",
            "eth*",
            "pid:1234/eth0",
            "64KiB",
            "2min",
            "sched",
            "comm",
            "overwrite",
            "2026-11-20T23:04:05.5Z",
            "+1.5s",
            "23:04:05.123456789",
            "1763679845.123",
        ]))
    },
    words: &[
        "span", "queue", "counter", "rate", "lost", "full", ">", "<", "\"", "ms", "us", "min", "GiB", "kB", "1e9", "pid:", "T", "Z", "+",
    ],
    run: |input, _| {
        let text = String::from_utf8_lossy(input);
        if let Ok(condition) = text.parse::<Condition>() {
            // The text form of a condition must parse to the same condition.
            let text = condition.to_string();
            assert_eq!(text.parse::<Condition>().as_ref().map(ToString::to_string), Ok(text.clone()), "{text}");
        }
        let _ =
            (text.parse::<EventRequest>(), text.parse::<Pattern>(), text.parse::<Group>(), text.parse::<Context>(), text.parse::<Mode>());
        let _ = (parse_size(&text).map(ring_size), parse_duration(&text));
        let _ = Moment::parse(&text).map(|moment| moment.resolve(1_795_215_845_123_456_789));
        let name = file_name(&text);
        assert!(!name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']) && name.len() <= 100, "{name:?}");
    },
};

pub const EXPRESSIONS: Target = Target {
    name: "expressions",
    what: "conditions on events, points of pairs, changes of what-if",
    seeds: |_| {
        Ok(lines(&[
            "size > 3 && (name == \"eth*\" || !busy)",
            "prev_state & 0x3 != 0",
            "a == 'b c' and not d",
            "x >= -1.5e3",
            "span_begin:parse:size > 3",
            "server::parse x0.5",
            "queue inbox capacity 2048",
            "cpus +1",
            "batch \"a b\"::c 150",
            "\"a::b\" x0.5 and queue q capacity unlimited",
        ]))
    },
    words: &[
        "&&",
        "||",
        "!",
        "==",
        "!=",
        "<=",
        ">=",
        "(",
        ")",
        "::",
        " x0.5",
        "queue ",
        "capacity ",
        "cpus +",
        "batch ",
        " and ",
        "\"",
        "0x",
        "1e308",
    ],
    run: |input, _| {
        let text = String::from_utf8_lossy(input);
        match Predicate::parse_about_events(&text) {
            Ok(predicate) => {
                for datum in [Datum::Unknown, Datum::Integer(-1), Datum::Text(b"eth0"), Datum::Real(f64::NAN), Datum::Labelled(3, b"full")]
                {
                    let _ = predicate.holds(|_| datum);
                }
            }
            Err(error) => drop(error.to_string()),
        }
        let _ = Point::parse(&text).map_err(|error| error.to_string());
        let _ = Scenario::parse(&text);
    },
};

pub const RULES: Target = Target {
    name: "rules",
    what: "rules of the model and of findings",
    seeds: |_| {
        Ok(lines(&[
            include_str!("../../../model/rules/probes.toml"),
            include_str!("../../../model/rules/genode.toml"),
            include_str!("../../../model/rules/sel4.toml"),
            include_str!("../../../analysis/rules/packet_losses.toml"),
            "[[rule]]\nevent = \"span_begin:*\"\ndo = \"begin\"\nname = \"{1}\"\nwhen = \"value > 3\"\n",
        ]))
    },
    words: &[
        "[[rule]]",
        "event",
        "do",
        "when",
        "name",
        "machine",
        "as",
        "id",
        "count",
        "value",
        "object",
        "kind",
        "{1}",
        "{",
        "}",
        "*",
        "[[finding]]",
    ],
    run: |input, _| {
        let text = String::from_utf8_lossy(input);
        let mut rules = Rules::default();
        let _ = rules.add("own.toml", &text).map_err(|error| error.to_string());
        let _ = rules.own().count();
        let _ = findings::Rules::parse("own.toml", &text).map_err(|error| error.to_string());
    },
};

pub const MACHINE_LOG: Target = Target {
    name: "machine_log",
    what: "machine logs",
    seeds: |_| seeds::machine_logs(),
    words: &[
        "{\"t\":1,\"machine\":\"A\",\"state\":\"run\"}\n",
        "\"queue\":",
        "\"put\":",
        "\"get\":",
        "\"peek\":",
        "\"reserve\":",
        "\"n\":\"all\"",
        "\"blocked\":",
        "\"woken_by\":null",
        "\"at\":",
        "\"on_top_of\":",
        "\"pop\":true",
        "\"stop\":true",
        "\"forked_by\":",
        "\"capacity\":",
        "\"order\":\"lifo\"",
        "\"initial\":",
        "\"merge\":true",
        "\"flow\":",
        "\"link\":",
        "\"end\":",
        "\"x_\":[[{}]]",
        "\\u0000",
        "\\ud800",
        "18446744073709551615",
    ],
    run: |input, _| {
        let _ = longpole_machine_log::is_machine_log(input);
        let mut interactions = Reader::new(input);
        let mut count = 0usize;
        while let Ok(Some(_)) = interactions.next_interaction() {
            count += 1;
        }
        assert!(count <= 4 * input.len() + 4, "{count} interactions of {} bytes", input.len());
        lines_read_back_as_they_were(input);
    },
};

fn lines_read_back_as_they_were(input: &[u8]) {
    let (mut lines, mut writer) = (longpole_machine_log::Reader::new(input), longpole_machine_log::Writer::new(Vec::new()));
    while let Ok(Some((_, line))) = lines.next_line() {
        writer.write(&line).expect("what was read can be written");
    }
    let written = writer.into_inner();
    let mut lines = longpole_machine_log::Reader::new(input);
    let mut again = longpole_machine_log::Reader::new(&written[..]);
    loop {
        let line = again.next_line().expect("what was written can be read");
        let Some((_, line)) = line else { return };
        let first = lines.next_line();
        assert_eq!(first.ok().flatten().map(|(_, line)| line), Some(line));
    }
}
