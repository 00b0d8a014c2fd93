//! What sampled stacks lack: outermost functions, and names.
//!
//! All code of a module without names is one function, so that a stack shows only that it went
//! through the module. What would give the code its names depends on where the code comes from.
//!
//! Example: a stripped program waits in a function of its own. Its stack is `one poll`, where `one`
//! is the program's file. The debug information of `one` would show the function.

use longpole_model::rules::{self, RuleError};
use longpole_symbols::{Frame, FrameId, Origin, Stacks};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Largest number of modules of processes that are distinguished.
const MAX_MODULES: usize = 1 << 16;
/// Largest number of modules, and of processes, in an answer.
const MAX_LISTED: usize = 20;

/// What would give code its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// The process generates the code, or interprets it: its runtime has to list the functions.
    Runtime,
    /// The module is a file without symbols: its debug information has them.
    DebugInformation,
    /// The kernel's functions, which the recorder was not permitted to read.
    KernelSymbols,
}

/// Code without names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unnamed {
    /// `None` for the kernel's code, which is counted for all processes together.
    pub process: Option<String>,
    pub module: String,
    pub remedy: Remedy,
    /// Share of the stacks that go through this code.
    pub share: f64,
}

/// The stacks of a process that end before the first function of their thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TruncatedStacks {
    pub process: String,
    /// Share of the copied stacks of all processes.
    pub share: f64,
}

/// What the sampled stacks lack. Shares are of all stacks; those of a path are weighed by their
/// time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StackGaps {
    /// Number of samples whose stacks end before the first function of their thread. `None` if no
    /// stack was copied: the kernel follows frame pointers, which may lead nowhere.
    pub truncated: Option<u64>,
    /// Their share of the copied stacks.
    pub truncated_share: Option<f64>,
    /// Processes of these stacks, the largest share first; at most 20.
    pub truncated_in: Vec<TruncatedStacks>,
    /// Code without names, the largest share first; at most 20.
    pub unnamed: Vec<Unnamed>,
}

/// Class of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Nothing is missing, or nothing would give it a name.
    Other,
    Unnamed(Remedy),
    /// A function of the kernel.
    NamedKernel,
    /// A function of an interpreted program.
    Interpreted,
    /// The function of a runtime that interprets programs.
    Interpreter,
}

/// Collects what stacks lack.
#[derive(Debug, Default)]
pub struct StackGapsCollector {
    interpreters: HashSet<String>,
    classes: Vec<Option<Class>>,
    all: f64,
    /// Weight of the stacks of which it is known whether they are truncated, and of those that are.
    known: f64,
    truncated: f64,
    truncated_samples: u64,
    truncated_in: HashMap<Rc<str>, f64>,
    /// Set if a function of the kernel has its name. Code of the kernel without a name is then code
    /// that the kernel generated, which nothing names.
    names_kernel: bool,
    /// Sums of the stacks by process, function of a module, and remedy.
    sums: HashMap<(Option<Rc<str>>, FrameId, Remedy), f64>,
    seen: Vec<(FrameId, Remedy)>,
}

/// A stack, and the number of samples that it stands for.
#[derive(Clone, Copy, Debug)]
pub struct SampledStack<'a> {
    pub process: &'a Rc<str>,
    /// Functions, the innermost first.
    pub frames: &'a [FrameId],
    /// True if the outermost functions are missing; `None` if that is unknown.
    pub truncated: Option<bool>,
    pub samples: u64,
    pub weight: f64,
}

impl StackGapsCollector {
    /// # Errors
    ///
    /// A built-in rule file is wrong.
    pub fn built_in() -> Result<StackGapsCollector, RuleError> {
        let Runtimes { interpreters } = rules::parse("runtimes.toml", include_str!("../../rules/runtimes.toml"))?;
        Ok(StackGapsCollector { interpreters, ..StackGapsCollector::default() })
    }

    pub fn add(&mut self, stacks: &Stacks, stack: SampledStack<'_>) {
        self.all += stack.weight;
        if let Some(truncated) = stack.truncated {
            self.known += stack.weight;
            if truncated {
                self.truncated += stack.weight;
                self.truncated_samples += stack.samples;
                if self.truncated_in.len() < MAX_MODULES || self.truncated_in.contains_key(stack.process) {
                    *self.truncated_in.entry(Rc::clone(stack.process)).or_default() += stack.weight;
                }
            }
        }
        self.seen.clear();
        let (mut interpreter, mut is_interpreted) = (None, false);
        for &frame in stack.frames {
            match self.class(stacks, frame) {
                Class::Other => {}
                Class::Unnamed(remedy) if self.seen.contains(&(frame, remedy)) => {}
                Class::Unnamed(remedy) => self.seen.push((frame, remedy)),
                Class::NamedKernel => self.names_kernel = true,
                Class::Interpreted => is_interpreted = true,
                Class::Interpreter => interpreter = Some(frame),
            }
        }
        let interpreter = interpreter.filter(|_| !is_interpreted);
        self.seen.extend(interpreter.map(|frame| (frame, Remedy::Runtime)));
        for &(frame, remedy) in &self.seen {
            let process = (remedy != Remedy::KernelSymbols).then(|| Rc::clone(stack.process));
            let key = (process, frame, remedy);
            if self.sums.len() < MAX_MODULES || self.sums.contains_key(&key) {
                *self.sums.entry(key).or_default() += stack.weight;
            }
        }
    }

    fn class(&mut self, stacks: &Stacks, id: FrameId) -> Class {
        let at = id.0 as usize;
        if self.classes.len() <= at {
            self.classes.resize(at + 1, None);
        }
        *self.classes[at].get_or_insert_with(|| class(stacks.frame(id), &self.interpreters))
    }

    pub fn answer(&self, stacks: &Stacks) -> StackGaps {
        let share = |weight: f64| if self.all > 0.0 { (weight / self.all).min(1.0) } else { 0.0 };
        let unnamed = |((process, frame, remedy), &weight): (&(Option<Rc<str>>, FrameId, Remedy), &f64)| Unnamed {
            process: process.as_deref().map(str::to_owned),
            module: stacks.frame(*frame).module.clone(),
            remedy: *remedy,
            share: share(weight),
        };
        let has_remedy = |remedy: Remedy| remedy != Remedy::KernelSymbols || !self.names_kernel;
        let mut unnamed: Vec<Unnamed> = self.sums.iter().filter(|((.., remedy), _)| has_remedy(*remedy)).map(unnamed).collect();
        let words = |it: &Unnamed| (it.process.clone(), it.module.clone(), it.remedy);
        unnamed.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| words(a).cmp(&words(b))));
        unnamed.truncate(MAX_LISTED);
        let truncated = (self.known > 0.0).then_some(self.truncated_samples);
        let of_known = |weight: f64| (weight / self.known).min(1.0);
        let truncated_in = |(process, &weight): (&Rc<str>, &f64)| TruncatedStacks { process: process.to_string(), share: of_known(weight) };
        let mut truncated_in: Vec<TruncatedStacks> = self.truncated_in.iter().map(truncated_in).collect();
        truncated_in.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.process.cmp(&b.process)));
        truncated_in.truncate(MAX_LISTED);
        StackGaps { truncated, truncated_share: truncated.map(|_| of_known(self.truncated)), truncated_in, unnamed }
    }
}

fn class(frame: &Frame, interpreters: &HashSet<String>) -> Class {
    // A compiler may divide a function into parts, `name.cold`.
    let name = || frame.function.split('.').next().unwrap_or_default();
    match (frame.named, frame.origin) {
        (true, _) if frame.interpreted => Class::Interpreted,
        (true, _) if interpreters.contains(name()) => Class::Interpreter,
        (true, Origin::Kernel) => Class::NamedKernel,
        (true, _) | (false, Origin::Unknown) => Class::Other,
        (false, Origin::Made) => Class::Unnamed(Remedy::Runtime),
        (false, Origin::File) => Class::Unnamed(Remedy::DebugInformation),
        (false, Origin::Kernel) => Class::Unnamed(Remedy::KernelSymbols),
    }
}

/// The file of rules.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Runtimes {
    interpreters: HashSet<String>,
}
