//! Names of processes in addition to the kernel's name, control groups, and the parent of each
//! process.

use std::collections::HashMap;

/// Maximum number of ancestors that are searched for an inherited property.
const MAX_GENERATIONS: usize = 32;
/// Maximum number of titles of a process; the first ones are remembered.
const MAX_TITLES: usize = 16;

/// Names of a process, and its parent.
#[derive(Debug, Default)]
pub struct Process {
    pub parent: Option<i32>,
    /// The script that the process runs, if it is an interpreter.
    pub script: Option<String>,
    /// The titles that it gave itself, in the order in which they were seen.
    pub titles: Vec<String>,
    /// Path of its control group.
    cgroup: Option<String>,
}

/// All known processes, by process id.
#[derive(Debug, Default)]
pub struct Processes {
    of: HashMap<i32, Process>,
}

impl Processes {
    pub fn get(&self, pid: i32) -> Option<&Process> {
        self.of.get(&pid)
    }

    /// The path of the process's control group. If it was not recorded, it is that of the parent.
    pub fn cgroup(&self, pid: i32) -> Option<&str> {
        let mut process = self.of.get(&pid)?;
        for _ in 0..MAX_GENERATIONS {
            match &process.cgroup {
                Some(path) => return Some(path),
                None => process = self.of.get(&process.parent?)?,
            }
        }
        None
    }

    pub(super) fn set_parent(&mut self, pid: i32, parent: i32) {
        if pid != parent {
            self.of.entry(pid).or_default().parent = Some(parent);
        }
    }

    pub(super) fn set_script(&mut self, pid: i32, name: &[u8]) {
        self.of.entry(pid).or_default().script = Some(text(name));
    }

    pub(super) fn add_title(&mut self, pid: i32, title: &[u8]) {
        let titles = &mut self.of.entry(pid).or_default().titles;
        let title = text(title);
        if titles.len() < MAX_TITLES && !titles.contains(&title) {
            titles.push(title);
        }
    }

    pub(super) fn set_cgroup(&mut self, pid: i32, path: &[u8]) {
        self.of.entry(pid).or_default().cgroup = Some(text(path));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_without_a_recorded_control_group_is_in_its_parents_group() {
        let mut processes = Processes::default();
        processes.set_cgroup(7, b"/shop.service");
        processes.set_parent(8, 7);
        processes.set_parent(9, 8);
        assert_eq!((processes.cgroup(9), processes.cgroup(7)), (Some("/shop.service"), Some("/shop.service")));
        processes.set_cgroup(8, b"/other.service");
        assert_eq!((processes.cgroup(9), processes.cgroup(10)), (Some("/other.service"), None));
    }

    #[test]
    fn processes_that_are_each_others_parents_have_no_control_group() {
        let mut processes = Processes::default();
        processes.set_parent(7, 8);
        processes.set_parent(8, 7);
        assert_eq!(processes.cgroup(7), None);
    }
}
