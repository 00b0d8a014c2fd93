//! `longpole mount`: subjects as folders, on a real FUSE mount.

use crate::support::host::is_root;
use crate::support::place::{ok, signal, wait_for, Place, Running};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// True if this host can mount. Without a helper, only root can.
fn live() -> bool {
    let root = is_root();
    let possible = root && Path::new("/dev/fuse").exists();
    if !possible {
        println!("skipped: longpole mount (needs root and /dev/fuse)");
    }
    possible
}

/// A mount that is removed when dropped, even if the test fails.
struct Mounted {
    folder: PathBuf,
    process: Running,
}

impl Mounted {
    fn new(place: &Place) -> Mounted {
        let folder = place.path("folder");
        fs::create_dir_all(&folder).unwrap();
        let mut command = place.longpole(&["mount"]);
        let process = Running::start(command.arg(&folder).stderr(Stdio::piped()));
        wait_for(|| fs::read_to_string("/proc/self/mounts").unwrap().contains(folder.to_str().unwrap()));
        Mounted { folder, process }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn names(&self, name: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(name)).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.folder).stderr(Stdio::null()).status();
    }
}

/// A text, read when nothing has been added to it for a second.
fn settled(mounted: &Mounted, name: &str) -> String {
    let (mut last, mut same) = (String::new(), 0);
    wait_for(|| {
        let now = mounted.read(name);
        same = if now == last { same + 1 } else { 0 };
        last = now;
        same == 100
    });
    last
}

/// A program with two threads that emit events continuously.
fn numbered(place: &Place) -> Running {
    let program = place.build("numbered", &[]);
    Running::start(place.command(program).args(["2", "100000000", "2000", "10", "linger"]).stdout(Stdio::null()))
}

#[test]
fn enabled_subjects_are_recorded_and_others_are_not() {
    if !live() {
        return;
    }
    let place = Place::new();
    let mut mounted = Mounted::new(&place);
    let (one, other) = (numbered(&place), numbered(&place));
    let process = format!("numbered/{}", one.id());
    wait_for(|| mounted.path(&process).exists() && mounted.path(&format!("numbered/{}", other.id())).exists());
    assert_eq!(mounted.names("numbered").len(), 3 + 2);
    assert_eq!(mounted.read("numbered/enable"), "0\n");
    assert_eq!(mounted.read("numbered/events"), "");

    fs::write(mounted.path(&format!("{process}/enable")), "1\n").unwrap();
    wait_for(|| mounted.read(&format!("{process}/events")).lines().count() > 100);
    assert_eq!(mounted.read(&format!("{process}/enable")), "1\n");
    assert_eq!(mounted.read(&format!("numbered/{}/enable", other.id())), "0\n");
    let threads: Vec<String> = mounted.names(&process).into_iter().filter(|name| name.parse::<i32>().is_ok()).collect();
    assert_eq!(threads.len(), 2);
    let [first, second] = [0, 1].map(|at| format!("{process}/{}", threads[at]));
    assert_eq!(mounted.read(&format!("{first}/name")), "numbered\n");
    assert!(mounted.read(&format!("{first}/buffer_size")).trim().parse::<u64>().unwrap() >= 32 << 10);
    // Each line belongs to one thread, and the text grows only at its end.
    let before = mounted.read(&format!("{second}/events"));
    assert!(!before.is_empty() && before.lines().all(|line| line.contains(&format!("numbered({})", threads[1]))), "{before}");
    wait_for(|| mounted.read(&format!("{second}/events")).len() > before.len());
    assert!(mounted.read(&format!("{second}/events")).starts_with(&before));

    // One of the two threads is disabled. Once its earlier events are shown, no more follow.
    fs::write(mounted.path(&format!("{first}/enable")), "0").unwrap();
    let last = settled(&mounted, &format!("{first}/events"));
    let of_second = mounted.read(&format!("{second}/events")).len();
    wait_for(|| mounted.read(&format!("{second}/events")).len() > of_second);
    assert_eq!(mounted.read(&format!("{first}/events")), last);

    // The new size is shown when the thread has changed to the larger ring.
    fs::write(mounted.path(&format!("{process}/buffer_size")), "8MiB").unwrap();
    wait_for(|| mounted.read(&format!("{second}/buffer_size")) == "8388608\n");

    let refused = |name: &str, text: &str| fs::write(mounted.path(name), text).unwrap_err().raw_os_error();
    assert_eq!(refused("numbered/enable", "yes"), Some(22));
    assert_eq!(refused("numbered/buffer_size", "5 apples"), Some(22));
    assert!(fs::OpenOptions::new().write(true).open(mounted.path("numbered/events")).is_err());
    assert!(fs::write(mounted.path("numbered/new"), "").is_err());

    // The text of a process remains after its end.
    fs::write(mounted.path("numbered/enable"), "0").unwrap();
    let texts = [&first, &second].map(|thread| settled(&mounted, &format!("{thread}/events")));
    drop((one, other));
    wait_for(|| mounted.read(&format!("{first}/name")) == "\n");
    assert_eq!(mounted.read(&format!("{second}/events")), texts[1]);

    signal(&mounted.process, "-TERM");
    assert!(mounted.process.wait().unwrap().success());
    assert!(!fs::read_to_string("/proc/self/mounts").unwrap().contains(mounted.folder.to_str().unwrap()));
    // The recording contains exactly the events that were shown.
    let print = ok(place.longpole(&["print"]).arg(place.newest()).output().unwrap());
    let recorded = String::from_utf8(print.stdout).unwrap().lines().count();
    assert_eq!(texts.iter().map(|text| text.lines().count()).sum::<usize>(), recorded);
}

#[test]
fn a_text_can_be_followed_as_it_grows() {
    if !live() {
        return;
    }
    let place = Place::new();
    let mounted = Mounted::new(&place);
    let program = numbered(&place);
    wait_for(|| mounted.path("numbered/enable").exists());
    fs::write(mounted.path("numbered/enable"), "1").unwrap();
    wait_for(|| !mounted.read("numbered/events").is_empty());
    let path = place.path("followed");
    let tail = Running::start(
        Command::new("tail")
            .args(["-n", "+1", "-s", "0.1", "-f"])
            .arg(mounted.path("numbered/events"))
            .stdout(fs::File::create(&path).unwrap()),
    );
    wait_for(|| fs::read_to_string(&path).unwrap().lines().count() > 1000);
    fs::write(mounted.path("numbered/enable"), "0").unwrap();
    // Each event is read once.
    let text = settled(&mounted, "numbered/events");
    wait_for(|| fs::read_to_string(&path).unwrap() == text);
    drop((tail, program));
}

#[test]
fn a_mount_left_by_a_killed_process_is_removed_and_unmounting_ends_the_process() {
    if !live() {
        return;
    }
    let place = Place::new();
    let mut killed = Mounted::new(&place);
    killed.process.kill().unwrap();
    killed.process.wait().unwrap();
    assert_eq!(fs::read_dir(&killed.folder).unwrap_err().raw_os_error(), Some(107));
    let run = place.longpole(&["mount", "/proc"]).output().unwrap();
    assert!(!run.status.success() && String::from_utf8_lossy(&run.stderr).contains("it is not empty"));

    let mut command = place.longpole(&["mount"]);
    let mut again = Running::start(command.arg(&killed.folder).stderr(Stdio::piped()));
    wait_for(|| fs::read_dir(&killed.folder).is_ok() && again.try_wait().unwrap().is_none());
    wait_for(|| fs::read_to_string("/proc/self/mounts").unwrap().contains(killed.folder.to_str().unwrap()));
    assert!(Command::new("umount").arg(&killed.folder).status().unwrap().success());
    assert!(again.wait().unwrap().success());
    let mut told = String::new();
    std::io::Read::read_to_string(&mut again.stderr.take().unwrap(), &mut told).unwrap();
    assert!(told.contains("was still mounted by a `longpole mount` that was killed") && told.contains("no program was enabled"), "{told}");
    // The only recording is that of the killed process.
    assert_eq!(place.recordings().len(), 1);
}
