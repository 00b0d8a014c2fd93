//! Finds the control group of a process. The group's path contains the systemd unit or the
//! container of the process.

use std::fs;

/// Longest accepted path in bytes; service managers do not make longer ones.
const MAX_PATH_BYTES: usize = 512;

/// Returns the path of the control group. `None` if the process has ended.
pub fn of(pid: i32) -> Option<String> {
    path(&fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?).map(str::to_owned)
}

/// Parses `/proc/PID/cgroup`, see cgroups(7). Returns the path in the hierarchy of version 2, else
/// in systemd's own hierarchy, else in the first other one where it is not the root, else the root.
fn path(text: &str) -> Option<&str> {
    let of = |is_meant: &dyn Fn(&str) -> bool| {
        text.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            (is_meant(controllers) && path != "/" && path.len() <= MAX_PATH_BYTES).then_some(path)
        })
    };
    let root = || text.starts_with(|letter: char| letter.is_ascii_digit()).then_some("/");
    of(&str::is_empty).or_else(|| of(&|controllers| controllers == "name=systemd")).or_else(|| of(&|_| true)).or_else(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_2_takes_precedence_over_the_other_hierarchies() {
        assert_eq!(path("3:cpu:/a\n1:name=systemd:/b\n0::/system.slice/shop.service\n"), Some("/system.slice/shop.service"));
        assert_eq!(path("3:cpu:/a\n1:name=systemd:/b\n0::/\n"), Some("/b"));
        assert_eq!(path("4:pids:/\n3:cpu,cpuacct:/docker/ab:c\n1:name=systemd:/\n0::/\n"), Some("/docker/ab:c"));
        assert_eq!(path("1:name=systemd:/\n0::/\n"), Some("/"));
        assert_eq!(path("what\n\n:"), None);
    }

    #[test]
    fn the_group_of_a_process_is_found() {
        // Compared with this host's own hierarchies, whichever these are.
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        assert_eq!(of(std::process::id() as i32).as_deref(), path(&own));
        assert_eq!(of(i32::MAX), None);
    }
}
