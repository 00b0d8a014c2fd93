//! Roles of processes, derived from the titles that they set for themselves.
//!
//! A title begins with the role of its process, and continues with its current activity:
//! `postgres: app shop 127.0.0.1(4242) UPDATE waiting`. The role consists of the words before the
//! first one that varies: a number, an address, text in brackets, or a word that changed while the
//! process was observed. Processes with one role form a pool. No program is known by its name here.
//!
//! Example: of `postgres: app shop [local] idle`, `postgres: app shop [local] COMMIT` and
//! `postgres: walwriter`, the first two have the role `postgres: app shop`.

use std::collections::{BTreeMap, HashMap, HashSet};

/// The observed facts about a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Titled {
    /// Name of its main thread.
    pub program: String,
    pub parent: Option<i32>,
    /// Titles in the order in which they were observed. Empty if the arguments are the command
    /// itself, or if the process ended before it was observed.
    pub titles: Vec<String>,
}

/// A role as far as the titles of one process show it.
struct TitleRole<'a> {
    words: Vec<&'a str>,
    /// True if a varying word follows these words.
    is_cut: bool,
}

/// Returns the roles of processes by their ids, without those whose title contains no more than the
/// program's name. If at least `min_varying_roles` different roles end before a varying word and
/// belong to one process each, the end of these roles (a user's name) varies as well: the words
/// with which all of them begin are the role of all.
pub fn roles(processes: &HashMap<i32, Titled>, min_varying_roles: usize) -> HashMap<i32, String> {
    // Grouped by program and first word: an interpreter runs programs of different names.
    let mut families: BTreeMap<(&str, &str), BTreeMap<i32, Vec<Vec<&str>>>> = BTreeMap::new();
    for (&pid, process) in processes {
        let parent = process.parent.and_then(|parent| processes.get(&parent));
        let is_inherited = |title: &&String| parent.is_some_and(|parent| parent.titles.contains(title));
        // A child has its parent's title until it sets its own.
        let own: Vec<&String> = process.titles.iter().filter(|title| !is_inherited(title)).collect();
        let titles = if own.is_empty() { process.titles.iter().collect() } else { own };
        for title in titles {
            let words: Vec<&str> = title.split_whitespace().collect();
            let Some(&first) = words.first() else { continue };
            families.entry((&process.program, first)).or_default().entry(pid).or_default().push(words);
        }
    }
    let mut out = HashMap::new();
    for ((program, _), family) in &families {
        for (pid, words) in of_family(family, min_varying_roles) {
            let role = words.join(" ");
            let role = role.trim_end_matches(':');
            if !role.is_empty() && role != *program {
                out.insert(pid, role.to_owned());
            }
        }
    }
    add_siblings(&mut out, processes);
    out
}

fn of_family<'a>(family: &BTreeMap<i32, Vec<Vec<&'a str>>>, min_varying_roles: usize) -> BTreeMap<i32, Vec<&'a str>> {
    // A name with a number in it (`www2`) is the pool's name if several processes have it.
    let mut holders: HashMap<&str, HashSet<i32>> = HashMap::new();
    for (&pid, titles) in family {
        titles.iter().flatten().for_each(|word| {
            holders.entry(*word).or_default().insert(pid);
        });
    }
    let is_shared = |word: &str| holders.get(word).is_some_and(|holders| holders.len() > 1);
    let mut roles: BTreeMap<i32, TitleRole<'a>> = BTreeMap::new();
    for (&pid, titles) in family {
        let common = common(titles.iter().map(Vec::as_slice));
        let fixed = common.iter().skip(1).take_while(|word| !varies(word, &is_shared)).count() + usize::from(!common.is_empty());
        roles.insert(pid, TitleRole { words: common[..fixed].to_vec(), is_cut: fixed < common.len() });
    }
    // `nginx: worker process is shutting down` is a worker process.
    let whole: HashSet<Vec<&str>> =
        roles.values().filter(|role| !role.is_cut && role.words.len() > 1).map(|role| role.words.clone()).collect();
    for role in roles.values_mut() {
        let shortest = (2..role.words.len()).find(|&count| whole.contains(&role.words[..count]));
        role.words.truncate(shortest.unwrap_or(role.words.len()));
    }
    let mut members: BTreeMap<Vec<&str>, usize> = BTreeMap::new();
    roles.values().filter(|role| role.is_cut).for_each(|role| *members.entry(role.words.clone()).or_default() += 1);
    let alone: Vec<&[&str]> = members.iter().filter(|(_, &count)| count == 1).map(|(words, _)| words.as_slice()).collect();
    let together = (alone.len() >= min_varying_roles).then(|| common(alone.iter().copied()).to_vec());
    let of = |role: &TitleRole<'a>| match &together {
        Some(together) if role.is_cut && members.get(&role.words) == Some(&1) => together.clone(),
        _ => role.words.clone(),
    };
    roles.iter().map(|(&pid, role)| (pid, of(role))).collect()
}

/// Returns the words with which all titles begin.
fn common<'b, 'a>(mut all: impl Iterator<Item = &'b [&'a str]>) -> &'b [&'a str] {
    let Some(first) = all.next() else { return &[] };
    let count = all.fold(first.len(), |count, other| first[..count].iter().zip(other).take_while(|(a, b)| a == b).count());
    &first[..count]
}

/// Returns whether a word varies: a number, an address, text in brackets, or a name with a number
/// that only one process has.
fn varies(word: &str, is_shared: &impl Fn(&str) -> bool) -> bool {
    let has_digit = word.contains(|letter: char| letter.is_ascii_digit());
    word.starts_with(['[', '(', '<', '{']) || has_digit && !(word.starts_with(char::is_alphabetic) && is_shared(word))
}

/// Adds roles of processes that ended before they were observed: the role of most of their parent's
/// other children of that program.
fn add_siblings(roles: &mut HashMap<i32, String>, processes: &HashMap<i32, Titled>) {
    let mut of: HashMap<(i32, &str), HashMap<Option<&String>, u64>> = HashMap::new();
    for (pid, process) in processes.iter().filter(|(_, process)| !process.titles.is_empty()) {
        let Some(parent) = process.parent else { continue };
        *of.entry((parent, &process.program)).or_default().entry(roles.get(pid)).or_default() += 1;
    }
    let mut found = Vec::new();
    for (&pid, process) in processes.iter().filter(|(_, process)| process.titles.is_empty()) {
        let Some(siblings) = process.parent.and_then(|parent| of.get(&(parent, process.program.as_str()))) else { continue };
        let most = siblings.values().max().copied().unwrap_or(0);
        let mut first = siblings.iter().filter(|(_, &count)| count == most);
        if let (Some((Some(role), _)), None) = (first.next(), first.next()) {
            found.push((pid, (*role).clone()));
        }
    }
    roles.extend(found);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASTER: i32 = 1000;

    fn titled(program: &str, titles: &[&[&str]]) -> Vec<Option<String>> {
        let process = |titles: &&[&str]| Titled {
            program: program.to_owned(),
            parent: Some(MASTER),
            titles: titles.iter().map(|title| (*title).to_owned()).collect(),
        };
        let processes: HashMap<i32, Titled> = (1..).zip(titles.iter().map(process)).collect();
        let roles = roles(&processes, 4);
        (1..=titles.len() as i32).map(|pid| roles.get(&pid).cloned()).collect()
    }

    fn some(roles: &[&str]) -> Vec<Option<String>> {
        roles.iter().map(|role| Some((*role).to_owned())).collect()
    }

    #[test]
    fn ports_and_states_do_not_split_a_pool() {
        let titles: [&[&str]; 5] = [
            &["postgres: app shop 127.0.0.1(4242) UPDATE waiting"],
            &["postgres: app shop 127.0.0.1(4244) idle", "postgres: app shop 127.0.0.1(4244) COMMIT"],
            &["postgres: app shop [local] idle in transaction"],
            &["postgres: walwriter"],
            &["postgres: background writer"],
        ];
        let backend = "postgres: app shop";
        assert_eq!(titled("postgres", &titles), some(&[backend, backend, backend, "postgres: walwriter", "postgres: background writer"]));
    }

    #[test]
    fn a_state_added_to_a_role_does_not_make_another_role() {
        let worker = "nginx: worker process";
        let titles: [&[&str]; 3] = [&[worker], &["nginx: worker process is shutting down"], &["nginx: cache manager process"]];
        assert_eq!(titled("nginx", &titles), some(&[worker, worker, "nginx: cache manager process"]));
        let changing: [&[&str]; 2] = [&["mail: queue runner idle", "mail: queue runner sending"], &["mail: queue runner sending"]];
        assert_eq!(titled("mail", &changing), some(&["mail: queue runner"; 2]));
    }

    #[test]
    fn a_child_has_its_parents_title_until_it_sets_its_own() {
        let titled = |parent, titles: &[&str]| Titled {
            program: "nginx".to_owned(),
            parent: Some(parent),
            titles: titles.iter().map(|title| (*title).to_owned()).collect(),
        };
        let master = "nginx: master process nginx";
        let processes = HashMap::from([(2, titled(1, &[master])), (3, titled(2, &[master, "nginx: worker process"]))]);
        let roles = roles(&processes, 4);
        assert_eq!((roles[&2].as_str(), roles[&3].as_str()), (master, "nginx: worker process"));
    }

    #[test]
    fn a_name_with_a_number_distinguishes_pools_if_several_processes_have_it() {
        let titles: [&[&str]; 4] = [&["php-fpm: pool www1"], &["php-fpm: pool www1"], &["php-fpm: pool www2"], &["php-fpm: pool www2"]];
        let (one, two) = ("php-fpm: pool www1", "php-fpm: pool www2");
        assert_eq!(titled("php-fpm8.2", &titles), some(&[one, one, two, two]));
        let numbered: [&[&str]; 2] = [&["jobs: worker w1"], &["jobs: worker w2"]];
        assert_eq!(titled("ruby", &numbered), some(&["jobs: worker"; 2]));
    }

    #[test]
    fn names_that_only_one_process_has_do_not_split_a_pool() {
        let titles: [&[&str]; 5] = [
            &["postgres: ann ann [local] idle"],
            &["postgres: bob bob [local] idle"],
            &["postgres: eve eve [local] idle"],
            &["postgres: joe joe [local] idle"],
            &["postgres: walwriter"],
        ];
        let walwriter = Some("postgres: walwriter".to_owned());
        assert_eq!(titled("postmaster", &titles), [some(&["postgres"; 4]), vec![walwriter]].concat());
        // If there are only a few, each may have a role of its own.
        assert_eq!(titled("postgres", &titles[..2]), some(&["postgres: ann ann", "postgres: bob bob"]));
    }

    #[test]
    fn a_process_that_was_not_observed_has_the_role_of_most_of_its_siblings() {
        let backend = "postgres: app shop";
        let titles: [&[&str]; 4] =
            [&["postgres: app shop [local] idle"], &["postgres: app shop [local] SELECT"], &["postgres: walwriter"], &[]];
        assert_eq!(titled("postgres", &titles), some(&[backend, backend, "postgres: walwriter", backend]));
        // If two roles are equally frequent, the role is unknown.
        assert_eq!(titled("postgres", &[&["postgres: walwriter"], &["postgres: checkpointer"], &[]])[2], None);
    }

    #[test]
    fn a_title_with_no_more_than_the_programs_name_is_not_a_role() {
        assert_eq!(titled("redis-server", &[&["redis-server 127.0.0.1:6379"]]), [None]);
        assert_eq!(titled("ruby", &[&["puma 6.0 (tcp://0.0.0.0:3000) [shop]"]]), some(&["puma"]));
        assert_eq!(titled("sh", &[&[]]), [None]);
    }
}
