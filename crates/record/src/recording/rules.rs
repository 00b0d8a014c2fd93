//! Decides what is recorded: of which processes and threads, with what order and what ring.
//!
//! The options of the command line override the configuration file; the selection, if there is one,
//! leaves out more. The file and the selection may change during the recording ([`Rules::reload`],
//! [`Rules::selection_changed`]); then all decisions are made again.

use crate::clock::ClockSource;
use crate::control::options::{Options, Scope};
use crate::control::policy::{Config, FullRingAction, Policy, PolicyError};
use crate::control::selection::{SelectedPart, Selection};
use crate::runtime_dir::proc_status;
use crate::runtime_dir::process::Process;
use crate::runtime_dir::session::Order;
use crate::subjects::ring_source::{Decision, RingSource};
use crate::text::units::DEFAULT_SNAPLEN;
use longpole_abi::kind::ALL_CATEGORIES;
use longpole_abi::RING_MINIMUM;
use longpole_predicate::glob;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// What the user asked for, and the decisions that follow from it.
#[derive(Debug)]
pub(crate) struct Rules {
    pub options: Options,
    pub config: Config,
    /// Version of the configuration file that was read last.
    config_seen: Option<Version>,
    /// Version of the selection that was applied last.
    chosen: u64,
    /// Pid of the recorded command.
    pub ancestor: Option<i32>,
    /// Number of the recording: the microseconds since 1970 at its start.
    pub session: u64,
    /// Number of the clock.
    clock: u32,
}

/// Result of [`Rules::reload`].
#[derive(Debug)]
pub(crate) enum Reloaded {
    Unchanged,
    New,
    Refused(PolicyError),
}

impl Rules {
    /// `config`: the contents of the file that the options name, which had this version.
    pub fn new(options: Options, (config, config_seen): (Config, Option<Version>), session: u64, clock: ClockSource) -> Rules {
        Rules { options, config, config_seen, chosen: 0, ancestor: None, session, clock: clock.number() }
    }

    /// Reads the configuration again if its file has changed.
    pub fn reload(&mut self) -> Reloaded {
        let Some(path) = &self.options.config else { return Reloaded::Unchanged };
        let seen = version(path);
        if seen.is_none() || seen == self.config_seen {
            return Reloaded::Unchanged;
        }
        self.config_seen = seen;
        match Config::read(path) {
            Ok(config) => {
                self.config = config;
                Reloaded::New
            }
            Err(error) => Reloaded::Refused(error),
        }
    }

    /// Returns whether the selection has changed since the last call.
    pub fn selection_changed(&mut self) -> bool {
        let Some(version) = self.options.selection.as_ref().map(Selection::version) else { return false };
        std::mem::replace(&mut self.chosen, version) != version
    }

    /// Longest time between two looks at a ring.
    pub fn period(&self) -> Duration {
        self.config.period
    }

    /// Environment variable (name, value) by which the recorder recognizes the command and its
    /// descendants.
    pub fn environment(&self) -> (&'static str, String) {
        ("LONGPOLE_SESSION", self.session.to_string())
    }

    /// Returns whether a process is within the scope of the recording.
    pub fn wants(&self, process: &Process) -> bool {
        match self.options.scope {
            Scope::Everything => true,
            Scope::Process(wanted) => process.pid == wanted,
            Scope::Descendants => match self.ancestor {
                // The command has not been started yet.
                None => false,
                // A process that has ended may have stored its recording's number; for a process
                // that cleared its environment, the chain of parents decides.
                Some(ancestor) => process.recording_of_command() == self.session || proc_status::descends(process.pid, ancestor),
            },
        }
    }

    /// Order for a process that the recorder has not seen yet: the union of all policies.
    pub fn default_order(&self) -> Order {
        let all = self.config.policy.iter().map(|policy| self.config.full_ring_action(Some(policy)));
        let action = self.with_requested_mode(all.reduce(FullRingAction::common).unwrap_or_else(|| self.config.full_ring_action(None)));
        let mut order = Order {
            mask: 0,
            mode: action.mode.number(),
            block_limit: action.limit(),
            ring_size: self.options.buffer.unwrap_or(RING_MINIMUM) as u32,
            snaplen: DEFAULT_SNAPLEN,
            clock: self.clock,
            session: self.session,
        };
        if self.config.enable && !matches!(self.options.scope, Scope::Process(_)) && self.options.selection.is_none() {
            order.mask = match self.config.policy.as_slice() {
                [] => ALL_CATEGORIES,
                policies => policies.iter().fold(0, |mask, policy| mask | policy.events),
            };
            let snaplen = self.config.policy.iter().map(|policy| policy.packets.snaplen).max();
            order.snaplen = snaplen.unwrap_or(DEFAULT_SNAPLEN);
        }
        order
    }

    /// Order for one process, and the ring size in bytes that its policies ask for.
    pub fn order_for(&self, label: &str, pid: i32, wanted: bool) -> (Order, Option<u64>) {
        let mut order = Order { mask: 0, ..self.default_order() };
        let part = SelectedPart::process(label, pid);
        let (wanted, chosen) = match &self.options.selection {
            Some(selection) => (wanted && selection.touches(&part), selection.buffer(&part)),
            None => (wanted, None),
        };
        let choice = if wanted { self.config.for_process(label) } else { None };
        let buffer = self.options.buffer.or(chosen).or(choice.and_then(|choice| choice.buffer));
        if let Some(choice) = choice {
            order.mask = choice.mask;
            order.snaplen = choice.snaplen;
            let action = self.with_requested_mode(choice.full_ring_action);
            (order.mode, order.block_limit) = (action.mode.number(), action.limit());
        }
        order.ring_size = buffer.unwrap_or(RING_MINIMUM) as u32;
        (order, buffer)
    }

    /// Decides whether the events of a ring are recorded, by the scope, the selection and the
    /// policies.
    pub fn decision(&self, process: &Process, wanted: bool, source: &RingSource) -> Decision {
        if !wanted || self.config.exclude.iter().any(|pattern| glob::matches(pattern, &process.label)) {
            return Decision::NotRecorded;
        }
        let part = || SelectedPart::thread(&process.label, process.pid, process.tid(source.writer.tid));
        if self.options.selection.as_ref().is_some_and(|selection| !selection.is_enabled(&part())) {
            return Decision::NotRecorded;
        }
        match self.config.for_thread(&process.label, &source.writer.shown_name()) {
            Ok(None) => Decision::Everything,
            Ok(Some(policy)) => {
                let index = self.config.policy.iter().position(|other| std::ptr::eq(other, policy));
                index.map_or(Decision::NotRecorded, Decision::Policy)
            }
            Err(_) => Decision::NotRecorded,
        }
    }

    /// The policy that selects a ring.
    pub fn policy_of(&self, decision: Decision) -> Option<&Policy> {
        match decision {
            Decision::Policy(index) => self.config.policy.get(index),
            _ => None,
        }
    }

    /// Action of a full ring, by policy and options.
    pub fn full_ring_action_of(&self, decision: Decision) -> FullRingAction {
        self.with_requested_mode(self.config.full_ring_action(self.policy_of(decision)))
    }

    /// The same action with the mode that the options demand.
    pub fn with_requested_mode(&self, action: FullRingAction) -> FullRingAction {
        FullRingAction { mode: self.options.mode.unwrap_or(action.mode), ..action }
    }
}

/// Modification time and size: together they identify a version of a file.
pub(crate) type Version = (SystemTime, u64);

/// Current version of a file.
pub(crate) fn version(path: &Path) -> Option<Version> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}
