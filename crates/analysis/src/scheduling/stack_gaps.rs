//! What sampled stacks lack: outermost functions, and names.
//!
//! All code of a module without names is one function, so that a stack shows only that it went
//! through the module. What would give the code its names depends on where the code comes from.
//!
//! Example: a stripped program waits in a function of its own. Its stack is `one poll`, where `one`
//! is the program's file. The debug information of `one` would show the function.

use longpole_symbols::{Frame, FrameId, Origin, Runtime, Stacks};
use serde::Serialize;
use std::collections::HashMap;
use std::rc::Rc;

/// Largest number of modules of processes that are distinguished.
const MAX_MODULES: usize = 1 << 16;
/// Largest number of modules, and of processes, in an answer.
const MAX_LISTED: usize = 20;

/// What would give code its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// A runtime generates the code, or interprets it, and has to list the functions.
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
    /// File of the code, or name of the runtime; `[jit]` if that is not known.
    pub module: String,
    pub remedy: Remedy,
    /// Which runtime, if it has to list the functions.
    pub runtime: Option<Runtime>,
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
    /// stack was copied: the kernel follows frame pointers, and does not report where these are
    /// wrong.
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
}

/// Code without names, of which the sum is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Lacking {
    Module(FrameId, Remedy),
    Runtime(Runtime),
}

impl Lacking {
    fn remedy(self) -> Remedy {
        match self {
            Lacking::Module(_, remedy) => remedy,
            Lacking::Runtime(_) => Remedy::Runtime,
        }
    }
}

/// Collects what stacks lack.
#[derive(Debug, Default)]
pub struct StackGapsCollector {
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
    /// Sums of the stacks by process and what lacks names.
    sums: HashMap<(Option<Rc<str>>, Lacking), f64>,
    seen: Vec<Lacking>,
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
        self.seen.extend(stacks.runtime_without_names(stack.frames).map(Lacking::Runtime));
        for &frame in stack.frames {
            match self.class(stacks, frame) {
                Class::Other => {}
                Class::Unnamed(remedy) => {
                    let lacking = Lacking::Module(frame, remedy);
                    if !self.seen.contains(&lacking) {
                        self.seen.push(lacking);
                    }
                }
                Class::NamedKernel => self.names_kernel = true,
            }
        }
        for &lacking in &self.seen {
            let process = (lacking.remedy() != Remedy::KernelSymbols).then(|| Rc::clone(stack.process));
            let key = (process, lacking);
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
        *self.classes[at].get_or_insert_with(|| class(stacks.frame(id)))
    }

    pub fn answer(&self, stacks: &Stacks) -> StackGaps {
        let share = |weight: f64| if self.all > 0.0 { (weight / self.all).min(1.0) } else { 0.0 };
        let unnamed = |((process, lacking), &weight): (&(Option<Rc<str>>, Lacking), &f64)| {
            let (module, runtime) = match lacking {
                Lacking::Module(frame, _) => (stacks.frame(*frame).module.clone(), None),
                Lacking::Runtime(Runtime::Other) => ("[jit]".to_owned(), Some(Runtime::Other)),
                Lacking::Runtime(runtime) => (runtime.name().to_owned(), Some(*runtime)),
            };
            Unnamed { process: process.as_deref().map(str::to_owned), module, remedy: lacking.remedy(), runtime, share: share(weight) }
        };
        let has_remedy = |remedy: Remedy| remedy != Remedy::KernelSymbols || !self.names_kernel;
        let mut unnamed: Vec<Unnamed> = self.sums.iter().filter(|((_, lacking), _)| has_remedy(lacking.remedy())).map(unnamed).collect();
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

fn class(frame: &Frame) -> Class {
    match (frame.named, frame.origin) {
        (true, Origin::Kernel) => Class::NamedKernel,
        // The runtime of generated code depends on the whole stack.
        (true, _) | (false, Origin::Unknown | Origin::Made) => Class::Other,
        (false, Origin::File) => Class::Unnamed(Remedy::DebugInformation),
        (false, Origin::Kernel) => Class::Unnamed(Remedy::KernelSymbols),
    }
}
