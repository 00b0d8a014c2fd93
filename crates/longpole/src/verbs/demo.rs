//! `longpole demo`: builds an example system, records it, explains it, changes what the report
//! names, and records it again.
//!
//! Nothing in this file depends on the example. A manifest next to the example's sources contains
//! the commands to build and run it, its knobs, and the answer of `report` to which each knob
//! belongs. The steps are those that a user would take, with the same verbs.

use anyhow::{anyhow, bail, ensure, Context};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const EXAMPLES: &str = "Examples:
  longpole demo                          record, explain, fix what the report names, record again
  longpole demo --fix NAME,NAME          turn these knobs instead
  longpole demo --seconds 10 -o /tmp/t   longer, and keep the recordings there";

/// Ring size. The system is fast and the host may be busy; this is enough for every event.
const BUFFER: &str = "4MiB";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Knobs (settings in the example's `demo.toml`) to change, instead of the one that the report
    /// points to
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    fix: Vec<String>,
    /// Duration of each recording in seconds
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Directory for the recordings
    #[arg(short, long, value_name = "DIR", default_value = "traces/demo")]
    output: PathBuf,
    /// The example's directory [default: found above the program or in its sources]
    #[arg(long, value_name = "DIR")]
    example: Option<PathBuf>,
}

/// Contents of the example's `demo.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    name: String,
    text: String,
    build: Vec<String>,
    run: Vec<String>,
    /// Words of the output line that contains the rate; `*` is any word, `{rate}` the number.
    rate: String,
    rate_unit: String,
    knob: Vec<Knob>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Knob {
    name: String,
    bad: String,
    good: String,
    verdict: Option<VerdictPlace>,
    finding: Option<ExpectedFinding>,
    advice: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VerdictPlace {
    machine: String,
    state: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedFinding {
    kind: String,
    subject: String,
}

/// One recorded run.
struct Run {
    path: PathBuf,
    rate: f64,
    report: Value,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let folder = match &args.example {
        Some(folder) => folder.clone(),
        None => find_example()?,
    };
    let file = folder.join("demo.toml");
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let manifest: Manifest = toml::from_str(&text).with_context(|| format!("{} is no demo manifest", file.display()))?;
    for wanted in &args.fix {
        if !manifest.knob.iter().any(|knob| knob.name == *wanted) {
            let names: Vec<&str> = manifest.knob.iter().map(|knob| knob.name.as_str()).collect();
            eprintln!("longpole: there is no knob \"{wanted}\"; there are {}", names.join(", "));
            return Ok(ExitCode::from(2));
        }
    }
    let stage = Stage { manifest: &manifest, folder, args: &args, out: tempfile::tempdir().context("cannot make a temporary folder")? };

    print_line(&format!("# {}\n\n{}\n\n## Building it", manifest.name, manifest.text))?;
    stage.build()?;
    print_line("\n## Recording it as it is")?;
    let before = stage.record(&BTreeSet::new())?;
    print_line(&format!("\n## longpole report {}", before.path.display()))?;
    report_text(&before.path)?;

    let chosen: BTreeSet<&str> = match args.fix.is_empty() {
        true => BTreeSet::from([stage.choose(&before.report)?.name.as_str()]),
        false => args.fix.iter().map(String::as_str).collect(),
    };
    print_line("\n## The knob to turn")?;
    for knob in manifest.knob.iter().filter(|knob| chosen.contains(knob.name.as_str())) {
        print_line(&format!("{}: {} → {}\n{}", knob.name, knob.bad, knob.good, knob.advice))?;
    }
    print_line("\n## Recording it again")?;
    let after = stage.record(&chosen)?;
    let verdict = after.report["verdict"]["text"].as_str().unwrap_or_default();
    print_line(&format!("\nNow: {verdict}\n"))?;
    print_line(&format!(
        "Gain: {:.0} → {:.0} {}, × {:.2}",
        before.rate,
        after.rate,
        manifest.rate_unit,
        after.rate / before.rate.max(f64::MIN_POSITIVE)
    ))?;
    print_line(&format!("\nBoth recordings are kept:\n  {}\n  {}", before.path.display(), after.path.display()))?;
    print_line("Open them with babeltrace2 (user/), Wireshark (packets/), or: longpole report PATH")?;
    if longpole_serve::is_included() {
        print_line(&format!("See the first one in the browser: longpole view {}", before.path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

struct Stage<'a> {
    manifest: &'a Manifest,
    folder: PathBuf,
    args: &'a Args,
    out: tempfile::TempDir,
}

impl Stage<'_> {
    fn command(&self, words: &[String]) -> anyhow::Result<Command> {
        let include = match std::env::var_os("LONGPOLE_INCLUDE") {
            Some(include) if !include.is_empty() => PathBuf::from(include),
            _ => self.folder.join("../../include"),
        };
        let places = [
            ("{dir}", self.folder.display().to_string()),
            ("{include}", include.display().to_string()),
            ("{out}", self.out.path().display().to_string()),
            ("{seconds}", self.args.seconds.to_string()),
        ];
        let fill = |word: &String| places.iter().fold(word.clone(), |word, (place, value)| word.replace(place, value));
        let mut words = words.iter().map(fill);
        let program = words.next().ok_or_else(|| anyhow!("the manifest has an empty command"))?;
        let mut command = Command::new(program);
        command.args(words);
        Ok(command)
    }

    fn build(&self) -> anyhow::Result<()> {
        let mut command = self.command(&self.manifest.build)?;
        print_line(&show(&command))?;
        let status = command.stdin(Stdio::null()).status().with_context(|| format!("cannot run {}", show(&command)))?;
        ensure!(status.success(), "the example cannot be built: {status}");
        Ok(())
    }

    /// Records the system, with the good arguments for the fixed knobs and the bad ones for all
    /// others.
    fn record(&self, fixed: &BTreeSet<&str>) -> anyhow::Result<Run> {
        let mut words = self.manifest.run.clone();
        for knob in &self.manifest.knob {
            words.push(if fixed.contains(knob.name.as_str()) { knob.good.clone() } else { knob.bad.clone() });
        }
        let system = self.command(&words)?;
        let mut command = Command::new(own_program()?);
        command
            .args(["record", "--kernel", "none", "--buffer", BUFFER, "-o"])
            .arg(&self.args.output)
            .arg("--")
            .arg(system.get_program())
            .args(system.get_args());
        print_line(&format!("longpole record --kernel none --buffer {BUFFER} -o {} -- {}", self.args.output.display(), show(&system)))?;

        let there = recordings(&self.args.output);
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("cannot run longpole record")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        print_line(text.trim_end())?;
        ensure!(output.status.success(), "longpole record failed: {}", output.status);
        let path = recordings(&self.args.output).into_iter().rfind(|path| !there.contains(path));
        let path = path.ok_or_else(|| anyhow!("longpole record left no recording in {}", self.args.output.display()))?;
        let rate = text.lines().find_map(|line| rate_in(&self.manifest.rate, line));
        let rate = rate.ok_or_else(|| anyhow!("the example printed no line like \"{}\"", self.manifest.rate))?;

        let output = Command::new(own_program()?).arg("report").arg("--json").arg(&path).stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "longpole report failed: {}", output.status);
        let report = serde_json::from_slice(&output.stdout).context("longpole report printed no JSON")?;
        Ok(Run { path, rate, report })
    }

    /// Returns the knob that belongs to the verdict; otherwise the one that belongs to the first
    /// finding with a knob.
    fn choose(&self, report: &Value) -> anyhow::Result<&Knob> {
        let verdict = &report["verdict"];
        let by_verdict = self.manifest.knob.iter().find(|knob| knob.verdict.as_ref().is_some_and(|place| is_place(verdict, place)));
        if let Some(knob) = by_verdict {
            return Ok(knob);
        }
        let findings = report["findings"].as_array().map(Vec::as_slice).unwrap_or_default();
        let by_finding = findings.iter().find_map(|found| {
            self.manifest.knob.iter().find(|knob| {
                knob.finding.as_ref().is_some_and(|finding| found["kind"] == *finding.kind && found["subject"] == *finding.subject)
            })
        });
        match by_finding {
            Some(knob) => Ok(knob),
            None => bail!("neither the verdict nor a finding names one of the knobs; see the report above, and try --fix"),
        }
    }
}

/// Finds `examples/*/demo.toml` in a directory above the program (a checkout), or in the sources
/// from which the program was built.
fn find_example() -> anyhow::Result<PathBuf> {
    let program = own_program()?;
    let above = program.ancestors().skip(1).map(Path::to_path_buf);
    let sources = std::iter::once(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    for folder in above.chain(sources) {
        let Ok(entries) = std::fs::read_dir(folder.join("examples")) else { continue };
        let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.join("demo.toml").is_file()).collect();
        found.sort();
        if let Some(path) = found.into_iter().next() {
            return Ok(path.canonicalize().unwrap_or(path));
        }
    }
    bail!("found no examples/*/demo.toml above {}; name the example's folder with --example", program.display())
}

fn own_program() -> io::Result<PathBuf> {
    std::env::current_exe()
}

fn recordings(root: &Path) -> BTreeSet<PathBuf> {
    let Ok(entries) = std::fs::read_dir(root) else { return BTreeSet::new() };
    entries.flatten().map(|entry| entry.path()).filter(|path| path.join("longpole.json").is_file()).collect()
}

fn report_text(path: &Path) -> anyhow::Result<()> {
    let status = Command::new(own_program()?).arg("report").arg(path).status()?;
    ensure!(status.success(), "longpole report failed: {status}");
    Ok(())
}

/// Returns true if the verdict (JSON) is a bottleneck of this subject in this state.
fn is_place(verdict: &Value, place: &VerdictPlace) -> bool {
    verdict["outcome"] == "bottleneck" && verdict["subject"]["name"] == *place.machine && verdict["state"]["name"] == *place.state
}

/// Returns the number at `{rate}` if the line matches the pattern.
fn rate_in(pattern: &str, line: &str) -> Option<f64> {
    let mut rate = None;
    let mut words = line.split_whitespace();
    for expected in pattern.split_whitespace() {
        let word = words.next()?;
        match expected {
            "*" => {}
            "{rate}" => rate = Some(word.parse().ok()?),
            _ if expected == word => {}
            _ => return None,
        }
    }
    if words.next().is_some() {
        return None;
    }
    rate
}

fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn print_line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::rate_in;

    #[test]
    fn the_rate_is_read_from_its_place_in_the_pattern() {
        let pattern = "made * loaves in * s, {rate} a minute";
        assert_eq!(rate_in(pattern, "made 17 loaves in 4 s, 230.5 a minute"), Some(230.5));
        assert_eq!(rate_in(pattern, "ate 17 loaves in 4 s, 230 a minute"), None);
        assert_eq!(rate_in(pattern, "made 17 loaves in 4 s, 230 a minute more"), None);
        assert_eq!(rate_in(pattern, "made 17 loaves"), None);
    }
}
