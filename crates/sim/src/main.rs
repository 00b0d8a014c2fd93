//! `longpole-sim`: writes the machine log of a scenario, or its truth.

use anyhow::{anyhow, bail, Context};
use clap::{Parser, Subcommand};
use longpole_sim::ctf::Ctf;
use longpole_sim::engine::{run, Failed};
use longpole_sim::log::Log;
use longpole_sim::scenarios::{self, Scenario};
use longpole_sim::sink::Nobody;
use longpole_sim::sketch::Sketch;
use longpole_sim::{change, truth};
use std::io::{self, Write};
use std::path::PathBuf;

/// Simulate a system whose bottleneck is known
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List the scenarios
    List,
    /// Write the machine log of a scenario to stdout
    Log(Which),
    /// Write what probes in its programs would have recorded, as a CTF trace like `user/` of a
    /// recording
    Ctf {
        #[command(flatten)]
        which: Which,
        /// The directory to create
        #[arg(short)]
        output: PathBuf,
    },
    /// Write as JSON the duration of the scenario, unchanged and with each change, what a profiler
    /// sees, and the names of its parts
    Truth {
        #[command(flatten)]
        which: Which,
        /// Changes as in `what-if`; $role represents the name of a part
        changes: Vec<String>,
        /// Also halve the time of each state and link, one at a time
        #[arg(long)]
        sweep: bool,
    },
}

#[derive(clap::Args)]
struct Which {
    scenario: String,
    /// Seed of the parameters, names and times
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Amount of work; 0: without end
    #[arg(long)]
    items: Option<u64>,
    /// A change of the system, as in `what-if`
    #[arg(long)]
    change: Option<String>,
}

impl Which {
    fn build(&self) -> anyhow::Result<(&'static Scenario, Sketch)> {
        let Some(scenario) = scenarios::find(&self.scenario) else {
            bail!("there is no scenario {}; `longpole-sim list` names them", self.scenario);
        };
        let items = self.items.map(|items| if items == 0 { u64::MAX >> 8 } else { items });
        let mut sketch = scenarios::build(scenario, self.seed, items);
        if let Some(change) = &self.change {
            let change = truth::spelled(change, &sketch.roles).map_err(|what| anyhow!(what))?;
            let changes = change::parse(&change).map_err(|what| anyhow!(what))?;
            change::apply(&mut sketch.system, &changes).map_err(|what| anyhow!(what))?;
        }
        Ok((scenario, sketch))
    }
}

fn main() -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match Args::parse().verb {
        Verb::List => {
            for scenario in scenarios::ALL {
                writeln!(out, "{:20} {}", scenario.name, scenario.about)?;
            }
        }
        Verb::Log(which) => {
            let (_, sketch) = which.build()?;
            let mut log = Log::new(out);
            match run(&sketch.system, &mut log) {
                Ok(_) | Err(Failed::Stopped) => {}
                Err(error) => return Err(error).context(which.scenario),
            }
            // The reader may have closed the pipe because it has seen enough.
            match log.finish() {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                finished => drop(finished?),
            }
        }
        Verb::Ctf { which, output } => {
            let (_, sketch) = which.build()?;
            if let Some(why) = Ctf::cannot_tell(&sketch.system) {
                bail!("{}: {why}", which.scenario);
            }
            let mut ctf = Ctf::create(&output).with_context(|| format!("{} cannot be made", output.display()))?;
            run(&sketch.system, &mut ctf).context(which.scenario)?;
            ctf.finish().with_context(|| format!("{} cannot be written", output.display()))?;
        }
        Verb::Truth { which, changes, sweep } => {
            let (_, sketch) = which.build()?;
            let base = run(&sketch.system, &mut Nobody).context(which.scenario)?;
            let outcome = truth::compute(&sketch, &base, &changes, sweep).map_err(|what| anyhow!(what))?;
            serde_json::to_writer_pretty(&mut out, &outcome)?;
            writeln!(out)?;
        }
    }
    Ok(())
}
