//! What processes are called beside the kernel's name of them, and whose children they are.

use std::collections::HashMap;

/// Generations that are gone through for what a process has of its ancestors.
const MOST_GENERATIONS: usize = 32;
/// A process that calls itself by more names is known by the first ones.
const MOST_TITLES: usize = 16;

#[derive(Debug, Default)]
pub struct Process {
    pub parent: Option<i32>,
    /// The script that the process runs, if it is an interpreter.
    pub script: Option<String>,
    /// What it called itself, in the order in which it was seen.
    pub titles: Vec<String>,
    /// Path of its control group.
    cgroup: Option<String>,
}

#[derive(Debug, Default)]
pub struct Processes {
    of: HashMap<i32, Process>,
}

impl Processes {
    pub fn get(&self, pid: i32) -> Option<&Process> {
        self.of.get(&pid)
    }

    /// The path of the process's control group. One that nobody looked at is in that of its parent.
    pub fn cgroup(&self, pid: i32) -> Option<&str> {
        let mut process = self.of.get(&pid)?;
        for _ in 0..MOST_GENERATIONS {
            match &process.cgroup {
                Some(path) => return Some(path),
                None => process = self.of.get(&process.parent?)?,
            }
        }
        None
    }

    pub(super) fn is_child(&mut self, pid: i32, parent: i32) {
        if pid != parent {
            self.of.entry(pid).or_default().parent = Some(parent);
        }
    }

    pub(super) fn runs_script(&mut self, pid: i32, name: &[u8]) {
        self.of.entry(pid).or_default().script = Some(text(name));
    }

    pub(super) fn is_titled(&mut self, pid: i32, title: &[u8]) {
        let titles = &mut self.of.entry(pid).or_default().titles;
        let title = text(title);
        if titles.len() < MOST_TITLES && !titles.contains(&title) {
            titles.push(title);
        }
    }

    pub(super) fn is_in_cgroup(&mut self, pid: i32, path: &[u8]) {
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
    fn a_child_that_nobody_looked_at_is_in_its_parents_control_group() {
        let mut processes = Processes::default();
        processes.is_in_cgroup(7, b"/shop.service");
        processes.is_child(8, 7);
        processes.is_child(9, 8);
        assert_eq!((processes.cgroup(9), processes.cgroup(7)), (Some("/shop.service"), Some("/shop.service")));
        processes.is_in_cgroup(8, b"/other.service");
        assert_eq!((processes.cgroup(9), processes.cgroup(10)), (Some("/other.service"), None));
    }

    #[test]
    fn processes_that_are_each_others_parents_are_in_no_group() {
        let mut processes = Processes::default();
        processes.is_child(7, 8);
        processes.is_child(8, 7);
        assert_eq!(processes.cgroup(7), None);
    }
}
