//! `longpole mount`: shows the programs with probes as directories, whose files control what is
//! recorded and contain the events.

use super::record;
use crate::mount::{Following, FuseServer, Tree};
use anyhow::{bail, Context};
use fuser::{Config, MountOption, Session};
use longpole_record::control::selection::Selection;
use longpole_record::Options;
use longpole_record::Recorder;
use longpole_record::RuntimeDir;
use longpole_record::Scope;
use longpole_record::Stop;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};

/// Show programs with probes as directories: what is recorded, and events as text
#[derive(clap::Args)]
#[command(after_help = "\
  DIR/LABEL/enable             1 or 0: write it to begin or end the recording of these programs
  DIR/LABEL/buffer_size        bytes of each thread's ring; write 4MiB to make them larger
  DIR/LABEL/events             their events as `longpole print` shows them, growing
  DIR/LABEL/PID/…              the same of one process, and below it DIR/LABEL/PID/TID/… of each thread

Ctrl-C or `umount DIR` ends it, and the recording with it.

Examples:
  longpole mount /tmp/programs &
  echo 1 > /tmp/programs/router/enable
  tail -f /tmp/programs/router/events")]
pub struct Args {
    /// An empty directory to mount on
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Directory for the recording's own directory [default: $LONGPOLE_ROOT, else traces]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Configuration (TOML): which events to record of the subjects that are enabled
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let directory = mountable(&args.directory)?;
    let stop = Stop::install().context("cannot handle signals")?;
    let selection = Selection::default();
    let options = Options {
        root: args.output,
        config: args.config,
        scope: Scope::Everything,
        selection: Some(selection.clone()),
        buffer: None,
        command: Vec::new(),
        probe_cost_ns: crate::overhead::probe_cost(),
        kernel: None,
        stacks: None,
        packets: Some(Vec::new()),
        snaplen: None,
        steady: None,
        mode: None,
        max_size: None,
        default_max_size: None,
        max_age: None,
    };
    let mut recorder = Recorder::start(options, Some(&stop))?;
    let tree = Arc::new(Mutex::new(Tree::new(RuntimeDir::open(&RuntimeDir::default_path())?, selection)));
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("longpole".to_owned()),
        MountOption::Subtype("longpole".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::NoExec,
    ];
    let mounted = Session::new(FuseServer::new(tree.clone()), &directory, &config).and_then(Session::spawn);
    let session = match mounted {
        Ok(session) => session,
        Err(error) => {
            recorder.abandon();
            let hint = match std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse") {
                Ok(_) => "users need fusermount3 (package fuse3)".to_owned(),
                Err(error) => format!("/dev/fuse cannot be opened: {error}"),
            };
            bail!("cannot mount on {}: {error}; {hint}", directory.display());
        }
    };
    let chunks = recorder.chunks();
    let following =
        Following::begin(recorder.path().to_owned(), chunks, recorder.period(), tree.clone()).context("cannot follow the recording");
    eprintln!("longpole: mounted on {}; Ctrl-C ends it", directory.display());
    let ended = loop {
        match recorder.turn() {
            Err(error) => break Err(error.into()),
            // Another process has unmounted the directory.
            Ok(_) if stop.signal().is_some() || session.guard.is_finished() => break Ok(()),
            Ok(longest) => recorder.wait(longest),
        }
    };
    if !session.guard.is_finished() {
        // Processes that have a file open keep access to it; no other process finds it any more.
        if let Err(error) = unmount(&directory) {
            eprintln!("longpole: cannot unmount {}: {error}; run `{}`", directory.display(), remedy(&directory));
        }
    }
    let followed = following.and_then(Following::end);
    if !tree.lock().unwrap_or_else(PoisonError::into_inner).used {
        recorder.abandon();
        eprintln!("longpole: no program was enabled, so nothing was recorded");
    } else {
        record::print_outcome(&recorder.finish(), &[]);
    }
    ended.and(followed).map(|()| ExitCode::SUCCESS)
}

/// Returns the absolute path of the directory, after checking that it can be mounted on. Removes a
/// mount that a killed `longpole mount` left there.
fn mountable(directory: &Path) -> anyhow::Result<PathBuf> {
    let looked = std::fs::read_dir(directory);
    let looked = match looked {
        Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => {
            unmount(directory).with_context(|| {
                format!("{}: an earlier `longpole mount` ended without unmounting it; run `{}`", directory.display(), remedy(directory))
            })?;
            eprintln!("longpole: note: {} was still mounted by a `longpole mount` that was killed; it was unmounted", directory.display());
            std::fs::read_dir(directory)
        }
        looked => looked,
    };
    let mut entries = looked.with_context(|| format!("cannot mount on {}", directory.display()))?;
    if entries.next().is_some() {
        bail!("cannot mount on {}: it is not empty", directory.display());
    }
    std::fs::canonicalize(directory).with_context(|| format!("cannot find {}", directory.display()))
}

fn remedy(directory: &Path) -> String {
    match rustix::process::geteuid().is_root() {
        true => format!("umount -l {}", directory.display()),
        false => format!("fusermount3 -uz {}", directory.display()),
    }
}

/// Unmounts immediately, even if a process has a file open.
fn unmount(directory: &Path) -> io::Result<()> {
    let path = CString::new(directory.as_os_str().as_bytes())?;
    // SAFETY: the path ends in NUL and lives until the call returns.
    if unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() != Some(libc::EPERM) {
        return Err(error);
    }
    // Users without the privilege can unmount with this helper.
    match Command::new("fusermount3").arg("-uzq").arg("--").arg(directory).status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(error),
    }
}
