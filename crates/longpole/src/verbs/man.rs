//! `longpole man`: makes manual pages from the definitions of verbs and options.

use anyhow::Context;
use clap::CommandFactory;
use clap_mangen::Man;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Print the manual page of the command or of a verb.
#[derive(clap::Args)]
#[command(after_help = "\
A page is roff, as `man` reads it. `make install` installs all of them.

Examples:
  longpole man record | man -l -          the page of `longpole record`
  longpole man --into /usr/share/man/man1 all pages as files: longpole.1, longpole-record.1 …")]
pub struct Args {
    /// The verb; without it, the command itself
    verb: Option<String>,
    /// Write the pages of the command and of all verbs into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "verb")]
    into: Option<PathBuf>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut whole = crate::Command::command();
    whole.build();
    if let Some(directory) = &args.into {
        for command in [&whole].into_iter().chain(whole.get_subcommands()) {
            let name = format!("{}.1", title(command));
            let path = directory.join(&name);
            std::fs::write(&path, page(command, &whole)?).with_context(|| format!("cannot write {}", path.display()))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let command = match &args.verb {
        None => &whole,
        Some(verb) => whole
            .find_subcommand(verb)
            .ok_or_else(|| crate::WrongUsage(format!("there is no verb {verb:?}; `longpole --help` lists them")))?,
    };
    io::stdout().lock().write_all(&page(command, &whole)?)?;
    Ok(ExitCode::SUCCESS)
}

fn title(command: &clap::Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &clap::Command, whole: &clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let man = Man::new(command.clone()).manual("Longpole").source(format!("longpole {}", env!("CARGO_PKG_VERSION")));
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(help) = command.get_after_help() {
        page.extend_from_slice(more(&help.to_string()).as_bytes());
    }
    let others = match command.has_subcommands() {
        true => command.get_subcommands().map(title).collect::<Vec<_>>(),
        false => vec![title(whole)],
    };
    let links: Vec<String> = others.iter().map(|name| format!("\\fB{}\\fR(1)", escaped(name))).collect();
    page.extend_from_slice(format!(".SH \"SEE ALSO\"\n{}\n", links.join(",\n")).as_bytes());
    Ok(plain(&page).into_bytes())
}

/// Returns the page with non-ASCII letters as escapes with their number. For text in another
/// encoding, roff would need an option.
fn plain(page: &[u8]) -> String {
    let mut plain = String::with_capacity(page.len());
    for letter in String::from_utf8_lossy(page).chars() {
        match letter.is_ascii() {
            true => plain.push(letter),
            // Writing into a String cannot fail.
            false => drop(write!(plain, "\\[u{:04X}]", u32::from(letter))),
        }
    }
    plain
}

/// Returns the text below the options as sections: examples stay as they are, all other lines are
/// notes.
fn more(help: &str) -> String {
    let (mut notes, mut examples) = (Vec::new(), Vec::new());
    let mut in_examples = false;
    for line in help.lines() {
        match line {
            "Examples:" => in_examples = true,
            // The examples end before the first line that is not indented.
            line if in_examples && (line.starts_with(' ') || line.is_empty()) => examples.push(line),
            line => {
                in_examples = false;
                notes.push(line);
            }
        }
    }
    let mut text = String::new();
    for (name, lines) in [("NOTES", &notes), ("EXAMPLES", &examples)] {
        if lines.iter().all(|line| line.is_empty()) {
            continue;
        }
        // Writing into a String cannot fail.
        let _ = writeln!(text, ".SH {name}\n.nf");
        let first = lines.iter().position(|line| !line.is_empty()).unwrap_or(0);
        let last = lines.iter().rposition(|line| !line.is_empty()).unwrap_or(0);
        for line in &lines[first..=last] {
            let _ = writeln!(text, "{}", escaped(line));
        }
        let _ = writeln!(text, ".fi");
    }
    text
}

/// Escapes what roff would interpret.
fn escaped(line: &str) -> String {
    let text = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('`', "\\(ga");
    match text.starts_with('.') {
        true => format!("\\&{text}"),
        false => text,
    }
}
