//! The stacks of single waits: of the thread that waited, and of the thread that woke it.
//!
//! All samples of a trace must be read to name the functions of one of them. So they are read once
//! for all waits, and the stacks are kept as numbers of their frames.

use crate::critical_path::samples::{waiting_frame, WakeUps};
use crate::scheduling::flame_graph::Code;
use crate::scheduling::sampled_waits::{find, SampledWait};
use crate::scheduling::stacks::shown;
use crate::scheduling::time_kind::TimeKind;
use longpole_symbols::{Cause, Frame, FrameId, Stack, Stacks};
use longpole_trace::event::Event;
use longpole_trace::{Catalogue, Item, StreamKind};
use serde::Serialize;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Largest number of frames of a stack that are shown, and of frames of all different stacks that
/// are kept.
const MAX_FRAMES: usize = 160;
const MAX_KEPT_FRAMES: usize = 1 << 24;

/// A place in a function on a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShownFrame {
    pub function: String,
    /// File with the code, without folders.
    pub module: String,
    /// Source file and line; `None` without debug information.
    pub file: Option<String>,
    pub line: Option<u32>,
    pub code: Code,
}

/// The stack of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShownStack {
    pub tid: i32,
    pub process: String,
    /// Innermost function first.
    pub frames: Vec<ShownFrame>,
    /// Index of the innermost frame of the program's own code, else of any program.
    pub own: Option<usize>,
    /// True if the outermost functions are missing.
    pub truncated: bool,
}

/// A sampled wait with its stacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitStack {
    /// What the thread waited for at first.
    pub kind: TimeKind,
    pub waiter: ShownStack,
    /// `None` if no thread woke it, or if its wake-up was not sampled.
    pub waker: Option<ShownStack>,
    /// Time of the wake-up on the trace's clock in ns.
    #[serde(skip)]
    pub woken_ns: Option<i64>,
}

/// A stack in [`WaitStacks::kept`], of a thread.
#[derive(Clone, Copy, Debug)]
struct KeptStack {
    tid: i32,
    stack: u32,
}

/// Process, frames, position of the own frame, and whether outermost functions are missing.
type Content = (Arc<str>, Box<[u32]>, Option<u32>, bool);

/// The stacks of the waits of a trace.
#[derive(Debug, Default)]
pub struct WaitStacks {
    frames: Vec<ShownFrame>,
    kept: Vec<Content>,
    /// Stack of the thread that waited, and time and stack of the thread that woke it. The key is
    /// the time and the thread of the wait's sample.
    waits: HashMap<(i64, i32), (KeptStack, Option<(i64, KeptStack)>)>,
}

/// Collects the stacks of waits while the samples are read.
pub struct WaitStacksReader<'a> {
    waits: &'a [SampledWait],
    stacks: Stacks,
    wakes: WakeUps<KeptStack>,
    frame_numbers: HashMap<FrameId, u32>,
    numbers: HashMap<Content, u32>,
    kept_frames: usize,
    found: WaitStacks,
}

impl<'a> WaitStacksReader<'a> {
    /// `recording` has the names of functions. `waits` are those that the kernel's events show, in
    /// the order of their samples.
    pub fn new(recording: Option<&Path>, waits: &'a [SampledWait]) -> WaitStacksReader<'a> {
        WaitStacksReader {
            waits,
            stacks: Stacks::open(recording),
            wakes: WakeUps::default(),
            frame_numbers: HashMap::new(),
            numbers: HashMap::new(),
            kept_frames: 0,
            found: WaitStacks::default(),
        }
    }

    /// Processes the next item of the trace. All items of samples must be passed.
    pub fn item(&mut self, catalogue: &Catalogue, item: &Item<'_>) {
        let Item::Event(event) = item else { return };
        if catalogue.streams.get(event.stream.0 as usize).is_some_and(|stream| stream.kind == StreamKind::Samples) {
            self.event(catalogue, event);
        }
    }

    fn event(&mut self, catalogue: &Catalogue, event: &Event<'_>) {
        let waits = self.waits;
        let WaitStacksReader { stacks, wakes, .. } = self;
        let Some(Stack { t_ns, tid, cause, process, truncated, places, frames, .. }) = stacks.follow(catalogue, event) else { return };
        let wait = match cause {
            Cause::Running => return,
            Cause::Woke { .. } => None,
            Cause::Waited => match find(waits, t_ns, tid) {
                Some(wait) => Some((wait, wakes.take(wait))),
                None => return,
            },
        };
        let truncated = truncated || places.len() > MAX_FRAMES;
        let (places, frames) = (places[..places.len().min(MAX_FRAMES)].to_vec(), frames.to_vec());
        let own = waiting_frame(&self.stacks, &frames).and_then(|own| u32::try_from(own).ok());
        let Some(stack) = self.keep(shown(&process), &places, own, truncated) else { return };
        let stack = KeptStack { tid, stack };
        match (cause, wait) {
            (Cause::Woke { tid }, _) => self.wakes.add(tid, t_ns, stack),
            (_, Some((wait, waker))) => drop(self.found.waits.insert((wait.t_ns, wait.tid), (stack, waker))),
            _ => {}
        }
    }

    /// Returns the number of a stack; `None` if there is no room for it.
    fn keep(&mut self, process: &str, places: &[FrameId], own: Option<u32>, truncated: bool) -> Option<u32> {
        let WaitStacksReader { stacks, frame_numbers, found, .. } = self;
        let number = |place: &FrameId| {
            *frame_numbers.entry(*place).or_insert_with(|| {
                found.frames.push(shown_frame(stacks.frame(*place)));
                found.frames.len() as u32 - 1
            })
        };
        let content: Content = (Arc::from(process), places.iter().map(number).collect(), own, truncated);
        if let Some(&known) = self.numbers.get(&content) {
            return Some(known);
        }
        if self.kept_frames + places.len() >= MAX_KEPT_FRAMES {
            return None;
        }
        self.kept_frames += places.len() + 1;
        let number = u32::try_from(self.found.kept.len()).ok()?;
        self.found.kept.push(content.clone());
        self.numbers.insert(content, number);
        Some(number)
    }

    pub fn finish(self) -> WaitStacks {
        self.found
    }
}

impl WaitStacks {
    /// Returns the stacks of a wait; `None` if its stack is not in the trace.
    pub fn of(&self, wait: &SampledWait) -> Option<WaitStack> {
        let (waiter, waker) = *self.waits.get(&(wait.t_ns, wait.tid))?;
        let waker = waker.and_then(|(t_ns, waker)| Some((t_ns, self.shown(waker)?)));
        let woken_ns = waker.as_ref().map(|(t_ns, _)| *t_ns);
        Some(WaitStack { kind: wait.first_kind(), waiter: self.shown(waiter)?, waker: waker.map(|(_, stack)| stack), woken_ns })
    }

    fn shown(&self, KeptStack { tid, stack }: KeptStack) -> Option<ShownStack> {
        let (process, frames, own, truncated) = self.kept.get(stack as usize)?;
        let frames: Vec<ShownFrame> = frames.iter().filter_map(|&frame| self.frames.get(frame as usize).cloned()).collect();
        let own = own.map(|own| own as usize).filter(|&own| own < frames.len());
        Some(ShownStack { tid, process: process.to_string(), frames, own, truncated: *truncated })
    }
}

fn shown_frame(frame: &Frame) -> ShownFrame {
    ShownFrame {
        function: frame.function.clone(),
        module: frame.module.clone(),
        file: frame.file.as_deref().map(str::to_owned),
        line: frame.line,
        code: Code::of(frame.origin),
    }
}
