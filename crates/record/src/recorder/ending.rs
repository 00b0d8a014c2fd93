//! The end of a recording: takes the last events, and completes the files.

use super::sources::Target;
use super::{KernelOutcome, Outcome, Recorder};
use crate::drain;
use crate::kernel;
use crate::recording::Recording;
use std::path::Path;

impl Recorder {
    /// Ends the recording: the orders of all processes are withdrawn, all events written until then
    /// are taken, and the files get their final form. A write error becomes a diagnostic and does
    /// not prevent the remaining steps.
    pub fn finish(self) -> Outcome {
        self.finish_with(&mut |_, _| true, &mut |_| Vec::new())
    }

    /// Does the same as [`Recorder::finish`], with two callbacks.
    ///
    /// `progress` is called with the bytes of the kernel's pages that were converted, and with the
    /// bytes of all pages; if it returns false, the remaining pages are converted by the first
    /// reader of the recording. `complete` may add files to the recording before it is marked as
    /// done; it returns diagnostics.
    pub fn finish_with(mut self, progress: &mut dyn FnMut(u64, u64) -> bool, complete: &mut dyn FnMut(&Path) -> Vec<String>) -> Outcome {
        if let Err(error) = self.follow_moved_folder() {
            self.recording.note(error.to_string());
        }
        self.each(|visit| {
            visit.withdraw_all_orders();
            drain::drain_directory(visit.directory, visit.recording, true);
        });
        self.recording.files.captures.flush(&mut self.recording.account);
        self.write_outputs(true);
        self.requests.close(&self.recording.files.destination.path);
        let Recorder { recording, sources, .. } = &mut self;
        let interfaces = sources.interfaces.end(&mut recording.account);
        let target = Target { destination: &recording.files.destination, clock: &recording.clock };
        let mut kernel = sources.kernel.end(target, &mut recording.account);
        let samples = sources.stacks.end(&mut recording.account);
        self.each(|visit| {
            visit.reap();
            drain::last_losses(visit.directory, visit.recording);
            visit.release_all();
        });
        self.published.look_at_clock(&self.recording.clock);
        let end = self.close_files();
        let (mut notes, converted) = match &mut kernel {
            Some(outcome) => self.convert_kernel(outcome, progress),
            None => (Vec::new(), false),
        };
        notes.extend(complete(self.path()));
        if converted || !notes.is_empty() {
            notes.into_iter().for_each(|note| self.recording.note(note));
            let _ = self.describe(Some(end));
        }
        self.directories.mark_finished();
        let no_other_events = kernel.is_none_or(|kernel| kernel.events == 0) && samples.is_none_or(|samples| samples.samples == 0);
        let empty = self.why_empty().filter(|_| no_other_events);
        let Recording { files, account, .. } = self.recording;
        Outcome {
            recorded: account.totals.recorded,
            lost: account.totals.lost,
            lanes: files.stream_files.closed(),
            empty,
            kernel,
            samples,
            interfaces,
            packets: account.totals.packets,
            diagnostics: account.diagnostics(),
            path: files.destination.path,
        }
    }

    /// Completes the stream files, the capture files and the description. Returns the Unix time in
    /// ns at which the recording ended.
    fn close_files(&mut self) -> u64 {
        let Recording { files, account, .. } = &mut self.recording;
        files.stream_files.close_all().into_iter().for_each(|diagnostic| account.note(diagnostic));
        let end = self.recording.now_ns();
        let Recording { files, account, .. } = &mut self.recording;
        std::mem::take(&mut files.captures).finish(end, Some(&mut files.reserve), account);
        self.chunks.end();
        let waited = account.totals.waited;
        if waited > 0 {
            account.note(format!("threads waited {:.1} ms in all for room in their rings", waited as f64 / 1e6));
        }
        files.reserve.remove();
        if let Err(error) = self.describe(Some(end)) {
            self.recording.note(error.to_string());
        }
        end
    }

    /// Converts the kernel's pages. Returns diagnostics, and whether all pages are converted.
    fn convert_kernel(&mut self, outcome: &mut KernelOutcome, progress: &mut dyn FnMut(u64, u64) -> bool) -> (Vec<String>, bool) {
        match kernel::complete(self.path(), progress) {
            Ok(done) => {
                // The kernel counts the events that it handed out, including those that did not
                // reach the disk.
                (outcome.events, outcome.lost) = (done.events, done.lost);
                self.sources.kernel.converted(done.events, done.lost, done.damaged_pages.into());
                (done.diagnostics, true)
            }
            Err(error) => (
                vec![format!("the kernel's events are not converted yet, the next verb that reads the recording tries again: {error}")],
                false,
            ),
        }
    }

    /// Ends the recording before anything was recorded, and removes it.
    pub fn abandon(mut self) {
        self.each(|visit| visit.withdraw_all_orders());
        self.sources.abandon();
        self.directories.mark_finished();
        // If the removal fails, a readable, empty recording remains.
        let _ = std::fs::remove_dir_all(&self.recording.files.destination.path);
    }
}
