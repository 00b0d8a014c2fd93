//! `longpole --help`: the verbs in groups, as git lists its commands.
//!
//! A new user sees first what to start with. The names and their order are here; the sentence of
//! each verb is that of its definition, so that the two cannot differ. A unit test compares
//! [`GROUPS`] with the verbs that exist.

use crate::render::terminal::screen;
use clap::Command;
use std::fmt::Write;

/// Heading and verbs of each group, in the order in which they are listed.
const GROUPS: [(&str, &[&str]); 4] = [
    ("start here", &["record", "report", "path", "what-if", "diff", "view", "top"]),
    ("measure", &["latency", "queues", "cpu", "irq", "sched", "syscalls", "packets", "graph", "util", "overhead"]),
    ("read and convert traces", &["info", "print", "convert", "merge", "model", "serve", "mount"]),
    (
        "set up, and control recordings in the background",
        &["check", "list", "start", "status", "snapshot", "stop", "rules", "demo", "completions", "man"],
    ),
];

/// Returns the command with the help that lists its verbs in groups.
pub fn grouped(command: Command) -> Command {
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{}\nOptions:\n{{options}}\n\n\
         `longpole VERB --help` shows the options of a verb, with examples.",
        verbs(&command)
    );
    command.help_template(template)
}

fn verbs(command: &Command) -> String {
    let width = command.get_subcommands().map(|verb| verb.get_name().len()).max().unwrap_or(0);
    let columns = screen::columns().unwrap_or(usize::MAX);
    let mut text = String::new();
    for (heading, names) in GROUPS {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "\n{heading}");
        for verb in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            for (at, line) in screen::wrapped(&about, columns.saturating_sub(width + 4)).into_iter().enumerate() {
                let name = if at == 0 { verb.get_name() } else { "" };
                let _ = writeln!(text, "  {name:width$}  {line}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn each_verb_is_in_exactly_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let command = crate::Command::command();
        let mut all: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        grouped.sort_unstable();
        all.sort_unstable();
        assert_eq!(grouped, all);
    }
}
