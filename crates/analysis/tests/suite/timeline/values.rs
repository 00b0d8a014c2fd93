//! The timeline's rows of values, compared with a brute-force aggregation of the same changes.

use longpole_analysis::timeline::{Grid, RowId, RowKind, Timeline, TimelineWriter, ValueItem, ValueSeries};
use longpole_model::interaction::{Effect, Interaction, Vocabulary};
use std::collections::HashMap;
use std::io::Seek;
use std::sync::Arc;

/// Steps of a row: begin, end and value, with times since the begin of the timeline.
type Steps = Vec<(u64, u64, f64)>;

/// Makes a timeline from `origin` to `origin + length`, without states.
fn timeline(origin: u64, length: u64) -> Arc<Timeline> {
    let mut vocabulary = Vocabulary::default();
    let machine = vocabulary.machine("", "m");
    let timeline = Arc::new(Timeline::default());
    let mut writer = TimelineWriter::new(timeline.clone());
    writer.interaction(&vocabulary, &Interaction { t: origin, line: 0, effect: Effect::Here { machine } });
    writer.until(origin + length);
    writer.finish(&vocabulary, &HashMap::new());
    timeline
}

fn add(timeline: &Timeline, name: &str, changes: &[(i64, f64)]) -> RowId {
    let series = ValueSeries {
        kind: RowKind::Counter,
        host: "",
        name,
        detail: String::new(),
        unit: None,
        capacity: None,
        each_change: &|visit| {
            changes.iter().for_each(|&(t, value)| visit(t, value));
            Ok(())
        },
    };
    timeline.add_values(&series).unwrap()
}

/// Adds a row with random changes, some at one time and some without a new value.
fn random_row(random: &mut fastrand::Rng, timeline: &Timeline, count: usize, longest: u64) -> (RowId, Steps) {
    let (origin, end) = timeline.range();
    let mut changes: Vec<(i64, f64)> = Vec::new();
    let mut t = origin + random.u64(0..=longest);
    for _ in 0..count {
        let value = if random.u8(0..20) == 0 { random.f64() * 1e6 - 5e5 } else { f64::from(random.u8(0..8)) };
        changes.push((t as i64, value));
        t += if random.u8(0..10) == 0 { 0 } else { random.u64(1..=longest) };
    }
    let row = add(timeline, &format!("counter {count}"), &changes);
    let mut steps: Steps = Vec::new();
    let ends = changes.iter().skip(1).map(|change| change.0 as u64).chain([end]);
    for (&(begin, value), until) in changes.iter().zip(ends.collect::<Vec<_>>()) {
        let (begin, until) = (begin as u64 - origin, until.min(end).saturating_sub(origin));
        match steps.last_mut() {
            _ if begin >= until => {}
            Some(last) if last.2 == value && last.1 == begin => last.1 = until,
            _ => steps.push((begin, until, value)),
        }
    }
    (row, steps)
}

/// Least, greatest and mean value in a range, and the number of steps that begin in it.
fn brute_force(steps: &Steps, begin: u64, end: u64) -> Option<(f64, f64, f64, u64)> {
    let inside: Vec<_> = steps.iter().filter(|step| step.1 > begin && step.0 < end).collect();
    let min = inside.iter().map(|step| step.2).fold(f64::INFINITY, f64::min);
    let max = inside.iter().map(|step| step.2).fold(f64::NEG_INFINITY, f64::max);
    let ns = |step: &(u64, u64, f64)| (step.1.min(end) - step.0.max(begin)) as f64;
    let (sum, all) = inside.iter().fold((0.0, 0.0), |(sum, all), step| (sum + step.2 * ns(step), all + ns(step)));
    let count = inside.iter().filter(|step| step.0 >= begin).count() as u64;
    (!inside.is_empty()).then_some((min, max, sum / all, count))
}

fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * (1.0 + a.abs().max(b.abs()))
}

fn check(steps: &Steps, item: &ValueItem) {
    let (min, max, mean, count) = brute_force(steps, item.begin, item.end).unwrap();
    assert_eq!((item.min, item.max, item.count), (min, max, count), "{item:?}");
    assert!(is_near(item.mean, mean), "{item:?}, mean {mean}");
}

fn compare(random: &mut fastrand::Rng, timeline: &Timeline, row: RowId, steps: &Steps) {
    let end = steps.last().map_or(1, |step| step.1);
    for _ in 0..20 {
        let level = random.u32(0..=end.ilog2() + 1);
        let grid = Grid { level, first: random.u64(0..=end >> level), count: random.u64(1..=600) };
        let picture = timeline.picture(&[row], grid).unwrap();
        let shown = &picture.values[&row];
        let inside: Steps = steps.iter().filter(|step| step.1 > grid.begin() && step.0 < grid.end()).copied().collect();
        if shown.is_exact {
            assert_eq!(shown.items.iter().map(|item| (item.begin, item.end, item.mean)).collect::<Vec<_>>(), inside);
            continue;
        }
        assert!(inside.len() as u64 + 512 > grid.count, "as many steps as bins are exact, apart from blocks at the edges");
        let mut at = grid.begin().max(inside[0].0 >> level << level);
        for item in &shown.items {
            assert_eq!(item.begin, at, "the items leave no gap");
            check(steps, item);
            at = item.end;
        }
        assert!(at >= inside[inside.len() - 1].1.min(grid.end()));
    }
    for _ in 0..20 {
        let begin = random.u64(0..=end);
        let until = random.u64(begin..=end + 10);
        let found = timeline.range_values(&[row], (begin, until)).unwrap();
        let expected = brute_force(steps, begin, until).filter(|_| begin < until);
        assert_eq!(found.len(), usize::from(expected.is_some()));
        for (found, (min, max, mean, count)) in found.iter().zip(expected) {
            assert_eq!((found.min, found.max, found.changes), (min, max, count));
            assert!(is_near(found.mean, mean), "{found:?}, mean {mean}");
        }
        let (first, more) = timeline.steps(row, (begin, until), 3).unwrap();
        let all: Vec<_> = steps.iter().filter(|step| step.1 > begin && step.0 < until).collect();
        assert_eq!(first.len(), all.len().min(3));
        assert_eq!(more, all.len() > 3);
    }
}

#[test]
fn bins_and_sums_of_values_equal_those_of_brute_force() {
    let mut random = fastrand::Rng::with_seed(24);
    for (count, longest) in [(1, 10), (3, 1), (40, 1000), (255, 3), (256, 50), (257, 50), (5000, 7), (20_000, 100_000)] {
        let timeline = timeline(random.u64(1..1 << 60), count as u64 * longest);
        let (row, steps) = random_row(&mut random, &timeline, count, longest);
        compare(&mut random, &timeline, row, &steps);
    }
}

#[test]
fn values_that_are_kept_in_a_file_are_the_same() {
    let mut random = fastrand::Rng::with_seed(7);
    let timeline = timeline(1 << 40, 10_000 * 50);
    let (row, steps) = random_row(&mut random, &timeline, 10_000, 50);
    let mut file = tempfile::tempfile().unwrap();
    timeline.write_file(&mut file, b"key", b"").unwrap();
    file.rewind().unwrap();
    let kept = Timeline::default();
    assert_eq!(kept.read_file(file, b"key", |_| Some(())).unwrap(), Some(()));
    compare(&mut random, &kept, row, &steps);
    assert_eq!(kept.listing().rows, timeline.listing().rows);
}

#[test]
fn a_row_of_values_tells_their_range_and_is_in_a_group() {
    let timeline = timeline(1000, 100);
    add(&timeline, "requests", &[(1010, 3.0), (1020, -2.0), (1030, f64::NAN), (1040, 5.0)]);
    add(&timeline, "nothing", &[]);
    let rows = timeline.listing().rows;
    let row = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
    let head = row("counters");
    assert_eq!((row("requests").parent, row("nothing").parent), (Some(head.id), Some(head.id)));
    let facts = row("requests").values.clone().unwrap();
    assert_eq!((facts.min, facts.max), (-2.0, 5.0));
    assert_eq!(row("nothing").values, None);
    // A value that is no number is not known.
    let steps = timeline.steps(row("requests").id, (0, 100), 10).unwrap().0;
    let steps: Vec<_> = steps.iter().map(|step| (step.begin, step.end, step.value)).collect();
    assert_eq!(steps, [(10, 20, 3.0), (20, 30, -2.0), (40, 100, 5.0)]);
}

#[test]
fn a_row_is_listed_when_it_has_all_of_its_values() {
    let timeline = timeline(0, 100_000);
    let names = || timeline.listing().rows.into_iter().map(|row| row.name).filter(|name| name != "m" && name != "programs");
    let series = ValueSeries {
        kind: RowKind::Queue,
        host: "",
        name: "letters",
        detail: String::new(),
        unit: None,
        capacity: None,
        each_change: &|visit| {
            (0..50_000).for_each(|t| visit(t, (t % 7) as f64));
            assert_eq!(names().count(), 0);
            Ok(())
        },
    };
    timeline.add_values(&series).unwrap();
    assert_eq!(names().collect::<Vec<_>>(), ["queues", "letters"]);
}

#[test]
fn a_picture_of_many_values_has_their_peaks_at_every_zoom() {
    let count = 1_000_000;
    let timeline = timeline(1, count * 100);
    let peak = 777_777;
    let changes: Vec<(i64, f64)> = (0..count as i64).map(|i| (1 + i * 100, if i == peak { 9e9 } else { (i % 10) as f64 })).collect();
    let row = add(&timeline, "counter", &changes);
    for level in [12, 16, 20, 24, 27] {
        let picture = timeline.picture(&[row], Grid { level, first: 0, count: ((count * 100) >> level) + 1 }).unwrap();
        let values = &picture.values[&row];
        let peaks: Vec<_> = values.items.iter().filter(|item| item.max == 9e9).collect();
        assert_eq!(peaks.len(), 1);
        assert!(peaks[0].begin <= peak as u64 * 100 && peak as u64 * 100 < peaks[0].end);
    }
}
