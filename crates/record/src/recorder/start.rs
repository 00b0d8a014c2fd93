//! The start of a recording: prepares the sources, makes the files, and takes up the processes that
//! exist.

use super::command::Command;
use super::description::Published;
use super::pace::Pace;
use super::requests::Requests;
use super::sources::{packets_request, without_interfaces, without_kernel, Sources, Target};
use super::Recorder;
use crate::attach::directories::Directories;
use crate::attach::Intake;
use crate::chunks::{self, Chunks};
use crate::clock::{unix_now, Calibration, ClockSource};
use crate::control::options::Options;
use crate::control::policy::{Config, Mode};
use crate::control::stop::Stop;
use crate::control::watchdog;
use crate::error::Error;
use crate::files::wakeups::{Wakeup, Wakeups};
use crate::interfaces::InterfaceSource;
use crate::kernel::{self, KernelSource};
use crate::output::destination::{Destination, Facts};
use crate::output::files::Files;
use crate::output::recording;
use crate::output::recording_folder::RecordingFolder;
use crate::recording::rules::{version, Rules, Version};
use crate::recording::Recording;
use crate::recovery::KilledRecording;
use crate::runtime_dir::claim;
use crate::runtime_dir::foreign::Search;
use crate::runtime_dir::session::Unfinished;
use crate::runtime_dir::RuntimeDir;
use crate::subjects::directory::RecordedRuntimeDir;
use std::path::Path;
use std::time::Instant;

/// What is prepared before the recording has a folder. A wrong request ends the start here, before
/// anything is changed.
struct Prepared {
    options: Options,
    config: Config,
    config_seen: Option<Version>,
    /// Clock that the programs would use.
    preferred: ClockSource,
    interfaces: Option<InterfaceSource>,
    interfaces_trouble: Option<String>,
    plan: Option<kernel::Plan>,
    kernel_trouble: Option<String>,
}

impl Prepared {
    fn new(options: Options) -> Result<Prepared, Error> {
        let config = match &options.config {
            Some(path) => Config::read(path)?,
            None => Config::default(),
        };
        let preferred = ClockSource::choose();
        let mut interfaces_trouble = None;
        let interfaces = match packets_request(&options, &config) {
            None => None,
            Some(request) => without_interfaces(InterfaceSource::prepare(&request), &mut interfaces_trouble)?,
        };
        let mut kernel_trouble = None;
        let plan = match options.kernel.clone().map(|request| kernel::Request {
            buffer: request.buffer.or(config.kernel_buffer),
            overwrite: options.mode.or(config.mode) == Some(Mode::Overwrite),
            ..request
        }) {
            None => None,
            Some(request) => without_kernel(kernel::Plan::make(&request, preferred), &mut kernel_trouble)?,
        };
        let config_seen = options.config.as_deref().and_then(version);
        Ok(Prepared { options, config, config_seen, preferred, interfaces, interfaces_trouble, plan, kernel_trouble })
    }

    /// The clock of the recording. The kernel's tracer and the programs must use the same one.
    fn clock(&self) -> ClockSource {
        self.plan.as_ref().map_or(self.preferred, |plan| plan.clock.1)
    }

    /// Makes the tracer's instance, and its files in the folder of the recording.
    fn prepare_kernel(&mut self, path: &Path) -> Result<Option<KernelSource>, Error> {
        let plan = self.plan.take();
        let prepared = plan.map(|plan| without_kernel(KernelSource::prepare(plan, path), &mut self.kernel_trouble)).transpose();
        let kernel = match prepared {
            Ok(prepared) => prepared.flatten(),
            Err(error) => {
                let _ = std::fs::remove_dir_all(path);
                return Err(error);
            }
        };
        if kernel.is_none() {
            // A reader would take the files of an incomplete preparation for kernel pages.
            let _ = std::fs::remove_dir_all(path.join("kernel"));
        }
        Ok(kernel)
    }

    /// The limits of the recording.
    fn chunks(&self, records_kernel: bool) -> Chunks {
        let (options, config) = (&self.options, &self.config);
        let (max_size, max_age) = (options.max_size.or(config.max_size), options.max_age.or(config.max_age));
        // Stack samples and interface packets cannot be overwritten in place. In overwrite mode
        // they would fill the disk of a recorder that runs for days, so a limit of size is implied.
        // Pages of the kernel's overwriting buffers are not divided into chunks yet.
        let context = (options.stacks.is_some() || self.interfaces.is_some()) && !records_kernel;
        let implied = match options.mode.or(config.mode) == Some(Mode::Overwrite) {
            true => context.then_some(chunks::OVERWRITE_LIMIT),
            false => options.default_max_size,
        };
        let implied = implied.filter(|_| max_size.is_none() && max_age.is_none());
        Chunks::new(max_size.or(implied), max_age)
    }
}

impl Recorder {
    /// Starts a recording. After this function returns, every selected event is recorded.
    ///
    /// An error of the kernel, of stack sampling or of interfaces does not prevent the recording:
    /// it becomes a diagnostic, unless the request itself is wrong. With `stop`, a watchdog is
    /// started also.
    pub fn start(options: Options, stop: Option<&Stop>) -> Result<Recorder, Error> {
        let prepared = Prepared::new(options)?;
        let (mut recorder, unfinished) = Recorder::open(prepared, stop)?;
        recorder.note_predecessor(unfinished.as_ref());
        let environment = recorder.environment();
        recorder.intake.search.look((environment.0, &environment.1));
        recorder.try_each(|visit| visit.tidy())?;
        recorder.begin(stop)?;
        if let Some(predecessor) = recorder.intake.predecessor.take() {
            predecessor.close();
        }
        Ok(recorder)
    }

    /// Makes the files of the recording, and the parts of the recorder.
    fn open(mut prepared: Prepared, stop: Option<&Stop>) -> Result<(Recorder, Option<Unfinished>), Error> {
        let source = prepared.clock();
        let calibration = Calibration::begin(source);
        raise_file_limit();
        let runtime = RuntimeDir::create(&RuntimeDir::default_path())?;
        let start = unix_now();
        // Microseconds since 1970, because JSON readers with only doubles represent them exactly.
        let session = start / 1000;
        let (held, unfinished) = claim::take(&runtime, prepared.options.scope, session)?;
        let wakeups = Wakeups::new().map_err(Error::io("make", "epoll"))?;
        if let Some(wake) = stop.and_then(Stop::wake) {
            let _ = wakeups.watch(wake, Wakeup::Stop);
        }
        let own = RecordedRuntimeDir::new(runtime, held, 0, None, &wakeups);
        let root = prepared.options.root.clone().or_else(|| prepared.config.root.clone()).unwrap_or_else(recording::root);
        let predecessor = unfinished.as_ref().and_then(KilledRecording::open);
        let tidied = kernel::reap::all();
        let path = recording::create(&root, start)?;
        let folder = RecordingFolder::open(&path)?;
        // The preparation overlaps the time that the calibration of the clock needs anyway.
        let kernel = prepared.prepare_kernel(&path)?;
        let clock = calibration.finish();
        let command = Command::new(&prepared.options);
        let steady = command.granted();
        let facts = Facts { clock: &clock, probe_cost_ns: prepared.options.probe_cost_ns, steady: steady.as_deref() };
        let files = Files::new(Destination::begin(path, folder, start, facts)?);
        let chunks = prepared.chunks(kernel.is_some());
        let Prepared { options, config, config_seen, preferred, interfaces, interfaces_trouble, kernel_trouble, .. } = prepared;
        let rules = Rules::new(options, (config, config_seen), session, clock.source);
        let mut recording = Recording::new(rules, files, clock);
        tidied.into_iter().for_each(|note| recording.note(note));
        if source != preferred {
            recording.note("this kernel's tracer cannot read the time-stamp counter, so all times are those of CLOCK_MONOTONIC_RAW");
        }
        if let Some(trouble) = command.trouble() {
            recording.note(trouble);
        }
        let newest = Instant::now();
        let recorder = Recorder {
            recording,
            directories: Directories::new(own),
            intake: Intake { wakeups, search: Search::default(), predecessor, newest, list_again: true, deaths: true },
            sources: Sources::new((kernel, kernel_trouble), (interfaces, interfaces_trouble)),
            chunks,
            requests: Requests::default(),
            command,
            pace: Pace::new(),
            published: Published::default(),
        };
        Ok((recorder, unfinished))
    }

    fn note_predecessor(&mut self, unfinished: Option<&Unfinished>) {
        if let (Some(unfinished), None) = (unfinished, &self.intake.predecessor) {
            self.recording.note(format!("the recording {} before this one did not end and cannot be found", unfinished.path.display()));
        }
    }

    /// Begins the sources, publishes the orders, and takes the first turn.
    fn begin(&mut self, stop: Option<&Stop>) -> Result<(), Error> {
        let Recorder { recording, sources, requests, intake, .. } = self;
        let destination = &recording.files.destination;
        let target = Target { destination, clock: &recording.clock };
        sources.begin(target, recording.rules.options.stacks, &mut recording.account);
        if let Err(diagnostic) = requests.open(&destination.path, &intake.wakeups) {
            recording.account.note(diagnostic);
        }
        self.describe(None)?;
        if stop.is_some() {
            watchdog::watch(self.path());
        }
        self.directories.own().common.held.publish(self.path(), &self.recording.rules.default_order());
        // The watch reports processes that appear from now on; the search finds those that exist
        // already.
        self.directories.watch(&self.intake.wakeups);
        self.directories.search(true, &mut self.recording, &mut self.intake)?;
        self.turn()?;
        Ok(())
    }
}

/// Each process and each stream file needs a descriptor. The command is started with the old limit;
/// see the verb.
fn raise_file_limit() {
    use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
