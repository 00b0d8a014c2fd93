//! The timeline, compared with a brute-force aggregation of the same states.

mod packets;
mod values;

use longpole_analysis::timeline::{Grid, Item, RowId, RowKind, StateId, Timeline, TimelineWriter};
use longpole_model::interaction::{Cause, Effect, Interaction, MachineId, Vocabulary};
use longpole_model::kinds::{LinkKind, NameKind, StateKind};
use longpole_model::names::NameId;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Seek, Write};
use std::sync::Arc;

/// States of one machine: begin, end, and index of the state.
type States = Vec<(u64, u64, usize)>;

/// Kinds of the states that the tests use, in the order of their severity.
const KINDS: [StateKind; 4] = [StateKind::Asleep, StateKind::User, StateKind::SystemCall, StateKind::Runnable];

struct Written {
    timeline: Arc<Timeline>,
    /// The states of each machine, with times since the begin of the timeline.
    machines: Vec<States>,
}

/// Writes random states of a few machines, which follow each other without gaps.
fn written(random: &mut fastrand::Rng, machines: usize, states: usize, longest: u64) -> Written {
    let mut vocabulary = Vocabulary::default();
    let ids: Vec<MachineId> = (0..machines).map(|number| vocabulary.machine("", &format!("m{number}"))).collect();
    let names: Vec<NameId> =
        KINDS.iter().map(|&kind| vocabulary.names.intern_as(kind.text().unwrap_or("read"), NameKind::State(kind))).collect();
    let timeline = Arc::new(Timeline::default());
    let mut writer = TimelineWriter::new(timeline.clone());
    let origin = random.u64(1..1 << 60);
    let mut all: Vec<Vec<(u64, usize)>> = vec![Vec::new(); machines];
    let mut t = 0;
    for number in 0..states {
        // All machines begin at once, so that times are relative to the first one.
        let machine = if number < machines { number } else { random.usize(0..machines) };
        let state = random.usize(0..KINDS.len());
        writer.interaction(
            &vocabulary,
            &Interaction { t: origin + t, line: 0, effect: Effect::State { machine: ids[machine], state: names[state] } },
        );
        all[machine].push((t, state));
        if number + 1 >= machines {
            t += match random.u8(0..10) {
                0 => 0,
                1 => random.u64(1..=longest),
                _ => random.u64(1..=longest.div_ceil(100)),
            };
        }
    }
    writer.until(origin + t);
    writer.finish(&vocabulary, &HashMap::new());
    let joined = |changes: Vec<(u64, usize)>| {
        let mut states: States = Vec::new();
        let ends = changes.iter().skip(1).map(|change| change.0).chain([t]);
        for (&(begin, state), end) in changes.iter().zip(ends.collect::<Vec<_>>()) {
            match states.last_mut() {
                _ if begin == end => {}
                Some(last) if last.2 == state && last.1 == begin => last.1 = end,
                _ => states.push((begin, end, state)),
            }
        }
        states
    };
    Written { timeline, machines: all.into_iter().map(joined).collect() }
}

/// Returns the row of each machine, and the index of each state.
fn listed(written: &Written) -> (Vec<RowId>, HashMap<StateId, usize>) {
    let listing = written.timeline.listing();
    let row = |number: usize| listing.rows.iter().find(|row| row.name == format!("m{number}")).map(|row| row.id);
    let rows = (0..written.machines.len()).filter_map(row).collect();
    let index = |name: &str| KINDS.iter().position(|kind| kind.text().unwrap_or("read") == name);
    let states = (0..).map(StateId).zip(&listing.states).filter_map(|(id, state)| Some((id, index(&state.name)?)));
    (rows, states.collect())
}

/// One bin, computed from all states: time of each state, and how many begin in it.
fn bin(states: &States, begin: u64, end: u64) -> (BTreeMap<usize, u64>, u64) {
    let (mut times, mut count) = (BTreeMap::new(), 0);
    let first = states.partition_point(|state| state.1 <= begin);
    for &(from, to, state) in states[first..].iter().take_while(|state| state.0 < end) {
        *times.entry(state).or_default() += to.min(end) - from.max(begin);
        count += u64::from(from >= begin);
    }
    (times, count)
}

/// Compares an item of bins with the states below it.
fn check(states: &States, item: &Item, indices: &HashMap<StateId, usize>) {
    let (times, count) = bin(states, item.begin, item.end);
    let most = times.values().max().copied().unwrap_or(0);
    assert_eq!(times.get(&indices[&item.state]).copied(), Some(most), "{item:?} of {times:?}");
    assert_eq!(times.keys().max().copied(), Some(indices[&item.worst]), "{item:?} of {times:?}");
    assert_eq!(item.count, count, "{item:?}");
    let busy: u64 = times.iter().filter(|(&state, _)| state == 1 || state == 2).map(|(_, ns)| ns).sum();
    assert_eq!(item.busy_ns, busy, "{item:?}");
}

fn compare(random: &mut fastrand::Rng, written: &Written) {
    let (rows, indices) = listed(written);
    let end = written.machines.iter().flatten().map(|state| state.1).max().unwrap_or(1);
    for _ in 0..20 {
        let level = random.u32(0..=end.ilog2() + 1);
        let count = random.u64(1..=600);
        let grid = Grid { level, first: random.u64(0..=end >> level), count };
        let picture = written.timeline.picture(&rows, grid).unwrap();
        for (states, (row, _)) in written.machines.iter().zip(&picture.rows) {
            let inside: Vec<_> = states.iter().filter(|state| state.1 > grid.begin() && state.0 < grid.end()).collect();
            if row.is_exact {
                let shown: Vec<_> = row.items.iter().map(|item| (item.begin, item.end, indices[&item.state])).collect();
                assert_eq!(shown, inside.into_iter().copied().collect::<Vec<_>>());
                continue;
            }
            // Less than one state per bin is always exact; a block at each edge may be counted in.
            assert!(inside.len() as u64 + 512 > count);
            let mut at = grid.begin().max(inside.first().map_or(0, |state| state.0) >> level << level);
            for item in &row.items {
                assert_eq!(item.begin, at, "the items leave no gap");
                assert!(item.end > item.begin && item.end <= grid.end());
                check(states, item, &indices);
                at = item.end;
            }
            assert!(at >= grid.end().min(inside.last().map_or(0, |state| state.1)));
        }
    }
}

/// The model reports a loss when it is over: a block without a length, which the machine ends
/// itself with a cause at the begin of the loss.
#[test]
fn lost_events_of_a_machine_are_in_its_row() {
    let mut vocabulary = Vocabulary::default();
    let machine = vocabulary.machine("", "m0");
    let state = |vocabulary: &mut Vocabulary, kind: StateKind, text| vocabulary.names.intern_as(text, NameKind::State(kind));
    let (parse, unknown) = (state(&mut vocabulary, StateKind::Named, "parse"), state(&mut vocabulary, StateKind::Unknown, "UNKNOWN"));
    let (wait, lost) = (state(&mut vocabulary, StateKind::Named, "wait"), state(&mut vocabulary, StateKind::Named, "lost"));
    let link = Some(vocabulary.names.intern_as("UNKNOWN", NameKind::Link(LinkKind::Unknown)));
    let timeline = Arc::new(Timeline::default());
    let mut writer = TimelineWriter::new(timeline.clone());
    let woken = |by, at| Effect::Wake { machine, cause: Some(Cause { by, at, link }) };
    let effects = [
        (100, Effect::State { machine, state: parse }),
        // A wait with a length, whose end the machine caused itself, is no loss.
        (200, Effect::Block { machine, why: wait, on: None, wants: None }),
        (300, woken(machine, Some(250))),
        (300, Effect::State { machine, state: parse }),
        (500, Effect::Block { machine, why: lost, on: None, wants: None }),
        (500, woken(machine, Some(400))),
        (500, Effect::State { machine, state: unknown }),
        (600, Effect::State { machine, state: parse }),
    ];
    for (t, effect) in effects {
        writer.interaction(&vocabulary, &Interaction { t, line: 0, effect });
    }
    writer.until(700);
    writer.finish(&vocabulary, &HashMap::new());
    let listing = timeline.listing();
    let row = listing.rows.iter().find(|row| row.name == "m0").unwrap().id;
    let picture = timeline.picture(&[row], Grid { level: 0, first: 0, count: 600 }).unwrap();
    let items = picture.rows[0].0.items.iter().map(|item| (item.begin, item.end, &*listing.states[item.state.0 as usize].name));
    let expected =
        [(0, 100, "parse"), (100, 200, "wait"), (200, 300, "parse"), (300, 400, "lost events"), (400, 500, "UNKNOWN"), (500, 600, "parse")];
    assert_eq!(items.collect::<Vec<_>>(), expected);
}

#[test]
fn pictures_equal_an_aggregation_of_the_exact_states() {
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let machines = random.usize(1..4);
        let states = random.usize(machines..5000);
        let longest = 1 << random.u32(0..30);
        let written = written(&mut random, machines, states, longest);
        compare(&mut random, &written);
    }
}

#[test]
fn pictures_of_rows_with_many_blocks_are_equal_too() {
    let mut random = fastrand::Rng::with_seed(7);
    let written = written(&mut random, 2, 300_000, 1 << 20);
    compare(&mut random, &written);
}

/// Adds the time of each state and the number of begins in a bin of several rows.
fn bin_of_all(machines: &[States], begin: u64, end: u64) -> (BTreeMap<usize, u64>, u64) {
    let mut all = (BTreeMap::new(), 0);
    for (times, count) in machines.iter().map(|states| bin(states, begin, end)) {
        for (state, ns) in times {
            *all.0.entry(state).or_default() += ns;
        }
        all.1 += count;
    }
    all
}

#[test]
fn bins_of_a_group_equal_an_aggregation_of_the_exact_states_of_all_its_rows() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let machines = random.usize(1..6);
        let (states, longest) = (random.usize(machines..4000), 1 << random.u32(0..30));
        let written = written(&mut random, machines, states, longest);
        let (_, indices) = listed(&written);
        let listing = written.timeline.listing();
        let group = listing.rows.iter().find(|row| row.kind == RowKind::Machines).unwrap().id;
        let with_states = written.machines.iter().filter(|states| states.iter().any(|state| state.1 > state.0)).count() as u64;
        let end = written.machines.iter().flatten().map(|state| state.1).max().unwrap_or(1).max(1);
        for _ in 0..10 {
            let level = random.u32(0..=end.ilog2() + 1);
            let grid = Grid { level, first: random.u64(0..=end >> level), count: random.u64(1..=600) };
            let picture = written.timeline.picture_with_groups(&[group], grid).unwrap();
            let (items, _) = &picture.rows[0];
            assert!(items.is_group && !items.is_exact);
            let mut shown = items.items.iter().peekable();
            for bin in grid.first..grid.first + grid.count {
                let (from, to) = (bin << level, (bin + 1) << level);
                let (times, count) = bin_of_all(&written.machines, from, to);
                let Some(item) = shown.next_if(|item| item.begin == from) else {
                    assert!(times.values().all(|&ns| ns == 0), "bin {bin} is missing: {times:?}");
                    continue;
                };
                let busy = |state: usize| state == 1 || state == 2;
                let all_busy: u64 = times.iter().filter(|(&state, _)| busy(state)).map(|(_, ns)| ns).sum();
                assert_eq!((item.end, item.count, item.busy_ns), (to, count, all_busy / with_states), "{item:?} of {times:?}");
                let state = indices[&item.state];
                let most = times.iter().map(|(&state, &ns)| (busy(state), ns)).max().unwrap();
                assert_eq!((busy(state), times[&state]), most, "{item:?} of {times:?}");
                assert_eq!(times.keys().max().copied(), Some(indices[&item.worst]), "{item:?} of {times:?}");
            }
            assert_eq!(shown.next(), None);
        }
    }
}

#[test]
fn one_serious_nanosecond_in_an_hour_is_seen_as_the_worst_state() {
    let mut vocabulary = Vocabulary::default();
    let machine = vocabulary.machine("", "m");
    let state =
        |vocabulary: &mut Vocabulary, kind: StateKind| vocabulary.names.intern_as(kind.text().unwrap_or("read"), NameKind::State(kind));
    let timeline = Arc::new(Timeline::default());
    let mut writer = TimelineWriter::new(timeline.clone());
    let hour = 3_600_000_000_000;
    let [user, asleep, runnable] = [StateKind::User, StateKind::Asleep, StateKind::Runnable].map(|kind| state(&mut vocabulary, kind));
    let mut put = |t: u64, state: NameId| {
        writer.interaction(&vocabulary, &Interaction { t: 1 + t, line: 0, effect: Effect::State { machine, state } });
    };
    // More states than bins, so they are not shown one by one.
    for second in 0..3600 {
        put(second * 1_000_000_000, user);
        put(second * 1_000_000_000 + 500_000_000, asleep);
    }
    put(hour - 2, runnable);
    put(hour - 1, user);
    writer.until(1 + hour);
    writer.finish(&vocabulary, &HashMap::new());
    let listing = timeline.listing();
    let row = listing.rows.iter().find(|row| row.name == "m").unwrap().id;
    let picture = timeline.picture(&[row], Grid { level: 36, first: 0, count: 64 }).unwrap();
    let worst: Vec<&str> = picture.rows[0].0.items.iter().map(|item| listing.states[item.worst.0 as usize].name.as_str()).collect();
    assert_eq!(worst.iter().filter(|&&name| name == "runnable").count(), 1, "{worst:?}");
    let found = timeline.search("RUNN", (0, hour), 10).unwrap();
    assert_eq!((found.count, found.total_ns, found.matches.len()), (1, 1, 1));
}

#[test]
fn sums_of_a_range_equal_those_of_the_exact_states() {
    let mut random = fastrand::Rng::with_seed(3);
    let written = written(&mut random, 3, 4000, 1 << 12);
    let (rows, indices) = listed(&written);
    let end = written.machines.iter().flatten().map(|state| state.1).max().unwrap();
    for _ in 0..50 {
        let begin = random.u64(0..end);
        let until = random.u64(begin..=end);
        let sums = written.timeline.distributions(&rows, (begin, until)).unwrap();
        for (row, states) in rows.iter().zip(&written.machines) {
            let (times, _) = bin(states, begin, until);
            let shown: BTreeMap<usize, u64> =
                sums.iter().filter(|sum| sum.row == row.0).map(|sum| (indices[&StateId(sum.state)], sum.total_ns)).collect();
            assert_eq!(shown, times);
        }
    }
}

#[test]
fn a_timeline_that_begins_at_zero_keeps_its_begin_and_reaches_the_end_of_the_part() {
    let mut vocabulary = Vocabulary::default();
    let machine = vocabulary.machine("", "m");
    let user = vocabulary.names.intern_as("user", NameKind::State(StateKind::User));
    let asleep = vocabulary.names.intern_as("asleep", NameKind::State(StateKind::Asleep));
    let timeline = Arc::new(Timeline::default());
    let mut writer = TimelineWriter::new(timeline.clone());
    for (t, state) in [(0, user), (5, asleep)] {
        writer.interaction(&vocabulary, &Interaction { t, line: 0, effect: Effect::State { machine, state } });
    }
    writer.until(9);
    writer.finish(&vocabulary, &HashMap::new());
    assert_eq!(timeline.range(), (0, 9));
    let row = timeline.listing().rows.iter().find(|row| row.name == "m").map(|row| row.id).unwrap();
    let (states, more) = timeline.states(row, (0, u64::MAX), 10).unwrap();
    let times: Vec<(u64, u64)> = states.iter().map(|state| (state.begin, state.end)).collect();
    assert_eq!((times, more), (vec![(0, 5), (5, 9)], false));
}

/// Returns the file of a timeline, with the key "key" and the attachment "report".
fn file_of(timeline: &Timeline) -> File {
    let mut file = tempfile::tempfile().unwrap();
    timeline.write_file(&mut file, b"key", b"report").unwrap();
    file
}

#[test]
fn a_timeline_from_a_file_shows_the_same() {
    for seed in 100..120 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (machines, longest) = (random.usize(1..4), 1 << random.u32(0..30));
        let states = random.choice([0, 5000, 100_000]).unwrap() + machines;
        let mut written = written(&mut random, machines, states, longest);
        let kept = Arc::new(Timeline::default());
        let attachment = kept.read_file(file_of(&written.timeline), b"key", |bytes| Some(bytes.to_vec())).unwrap();
        assert_eq!(attachment.as_deref(), Some(b"report".as_slice()));
        assert_eq!(kept.range(), written.timeline.range());
        assert_eq!(kept.listing().rows, written.timeline.listing().rows);
        // The kept one can be kept again.
        written.timeline = Arc::default();
        written.timeline.read_file(file_of(&kept), b"key", |_| Some(())).unwrap();
        compare(&mut random, &written);
    }
}

#[test]
fn the_file_of_another_trace_is_not_used() {
    let written = written(&mut fastrand::Rng::with_seed(1), 2, 100, 100);
    for key in [b"".as_slice(), b"kez", b"key of another"] {
        let kept = Timeline::default();
        assert_eq!(kept.read_file(file_of(&written.timeline), key, |_| Some(())).unwrap(), None);
        assert!(kept.listing().rows.is_empty());
    }
    // An attachment that is not understood leaves the timeline as it was.
    let kept = Timeline::default();
    assert!(kept.read_file(file_of(&written.timeline), b"key", |_| None::<()>).is_err());
    assert!(kept.listing().rows.is_empty());
}

#[test]
fn a_damaged_file_is_refused_or_shows_something() {
    let mut random = fastrand::Rng::with_seed(5);
    let written = written(&mut random, 3, 20_000, 1 << 20);
    let bytes = {
        let mut file = file_of(&written.timeline);
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        std::io::Read::read_to_end(&mut file, &mut bytes).unwrap();
        bytes
    };
    let (mut refused, mut shown) = (0, 0);
    for _ in 0..400 {
        let mut damaged = bytes.clone();
        match random.u8(0..4) {
            0 => damaged.truncate(random.usize(0..bytes.len())),
            // Lengths, key and JSON are at the end.
            1 => damaged[bytes.len() - random.usize(1..2000)] = random.u8(..),
            _ => (0..random.usize(1..50)).for_each(|_| damaged[random.usize(0..bytes.len())] = random.u8(..)),
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&damaged).unwrap();
        let kept = Timeline::default();
        if !kept.read_file(file, b"key", |_| Some(())).is_ok_and(|attachment| attachment.is_some()) {
            refused += 1;
            continue;
        }
        shown += 1;
        let rows: Vec<RowId> = kept.listing().rows.iter().map(|row| row.id).collect();
        let (begin, end) = kept.range();
        for level in [0, 10, 20, 56] {
            let _ = kept.picture(&rows, Grid { level, first: random.u64(0..=(end - begin) >> level), count: 100 });
        }
        let _ = (kept.distributions(&rows, (0, u64::MAX)), kept.search("u", (0, u64::MAX), 10), kept.drawn_path((0, u64::MAX), 100));
    }
    assert!(refused > 20 && shown > 20, "{refused} {shown}");
}
