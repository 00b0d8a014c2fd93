//! The control group of a process, by which its systemd unit and its container are known.

use std::fs;

/// A longer path is none that a service manager made.
const LONGEST: usize = 512;

/// None: the process has ended.
pub fn of(pid: i32) -> Option<String> {
    path(&fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?).map(str::to_owned)
}

/// Of cgroups(7)'s `/proc/PID/cgroup`: the path in the hierarchy of version 2, else in systemd's
/// own, else in the first other one where it is not the root, else the root.
fn path(text: &str) -> Option<&str> {
    let of = |is_meant: &dyn Fn(&str) -> bool| {
        text.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            (is_meant(controllers) && path != "/" && path.len() <= LONGEST).then_some(path)
        })
    };
    let root = || text.starts_with(|letter: char| letter.is_ascii_digit()).then_some("/");
    of(&str::is_empty).or_else(|| of(&|controllers| controllers == "name=systemd")).or_else(|| of(&|_| true)).or_else(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_2_stands_before_the_others() {
        assert_eq!(path("3:cpu:/a\n1:name=systemd:/b\n0::/system.slice/shop.service\n"), Some("/system.slice/shop.service"));
        assert_eq!(path("3:cpu:/a\n1:name=systemd:/b\n0::/\n"), Some("/b"));
        assert_eq!(path("4:pids:/\n3:cpu,cpuacct:/docker/ab:c\n1:name=systemd:/\n0::/\n"), Some("/docker/ab:c"));
        assert_eq!(path("1:name=systemd:/\n0::/\n"), Some("/"));
        assert_eq!(path("what\n\n:"), None);
    }

    #[test]
    fn the_group_of_a_process_is_found() {
        // The own hierarchies of this host, whichever they are.
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        assert_eq!(of(std::process::id() as i32).as_deref(), path(&own));
        assert_eq!(of(i32::MAX), None);
    }
}
