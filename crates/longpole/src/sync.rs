//! `merge --sync packets`: aligns the clocks of several hosts by the TCP segments and UDP datagrams
//! that two hosts have both captured.
//!
//! A packet that occurs once in the captures of each of two hosts is a message from one to the
//! other. The direction is in the capture. If it is not, it follows from cause and effect: if an
//! address belongs to one of two hosts, only one assignment lets all packets arrive after they were
//! sent. Packets that occur twice on a host (sent again without any change) are ignored, because
//! they cannot be matched.
//!
//! The first host is the reference. Each other host is corrected relative to the host with which
//! its error is smallest, if necessary over several hosts; then the errors add up.

mod key;

use anyhow::bail;
use longpole_analysis::network::clock_sync::{estimate, Estimate, Failure, Message, Way};
use longpole_trace::Shift;
use longpole_trace::Trace;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Maximum number of packets in memory per host. Of more packets a part is used, chosen by a hash
/// of their content, so that all hosts choose the same ones.
const MAX_HELD: usize = 1 << 20;

/// The clock correction of a host.
pub struct Synced {
    pub path: PathBuf,
    pub shift: Shift,
    /// Maximum error in ns; 0 for the reference.
    pub error_ns: u64,
    /// The host with which it was compared; `None` for the reference.
    pub to: Option<PathBuf>,
    /// Numbers of packets from that host to this one, and back.
    pub there: usize,
    pub back: usize,
    /// Number of packets that were ignored because they occur more than once.
    pub ambiguous: usize,
    pub drifts_ppm: (f64, f64),
}

/// The packets that a host captured.
struct Host {
    path: PathBuf,
    seen: HashMap<u64, Seen>,
    /// Number of zero bits at the end of a hash that a packet must have to be in `seen`.
    sparse: u32,
    packets: u64,
    begin_ns: i64,
    end_ns: i64,
}

#[derive(Clone, Copy)]
struct Seen {
    t_ns: i64,
    source: u64,
    outbound: Option<bool>,
    again: bool,
}

/// Returns the corrections of all hosts, in the order of `paths`; the first host is the reference.
pub fn by_packets(paths: &[PathBuf]) -> anyhow::Result<Vec<Synced>> {
    let hosts = paths.iter().map(|path| Host::read(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let reference = Synced {
        path: paths[0].clone(),
        shift: Shift::default(),
        error_ns: 0,
        to: None,
        there: 0,
        back: 0,
        ambiguous: 0,
        drifts_ppm: (0.0, 0.0),
    };
    let mut synced: Vec<Option<Synced>> = hosts.iter().map(|_| None).collect();
    synced[0] = Some(reference);
    let mut why: Vec<Vec<String>> = hosts.iter().map(|_| Vec::new()).collect();
    let mut tried: HashMap<(usize, usize), Option<Pair>> = HashMap::new();
    while synced.iter().any(Option::is_none) {
        let mut best: Option<(u64, usize, usize)> = None;
        for known in 0..hosts.len() {
            let Some(flush_tail) = synced[known].as_ref().map(|known| known.error_ns) else { continue };
            for other in (0..hosts.len()).filter(|other| synced[*other].is_none()) {
                let pair = tried.entry((known, other)).or_insert_with(|| match Pair::between(&hosts[known], &hosts[other]) {
                    Ok(pair) => Some(pair),
                    Err(failure) => {
                        why[other].push(format!("{}: {failure}", hosts[known].path.display()));
                        None
                    }
                });
                let error = pair.as_ref().map(|pair| flush_tail.saturating_add(pair.estimate.error_ns));
                if let Some(error) = error.filter(|error| best.is_none_or(|(least, ..)| *error < least)) {
                    best = Some((error, known, other));
                }
            }
        }
        let Some((error_ns, known, other)) = best else {
            let left = synced.iter().position(Option::is_none).unwrap_or(0);
            bail!(
                "the clock of {} cannot be aligned by packets, compared with {}; if its offset is known, give it with --offset PATH=TIME",
                hosts[left].path.display(),
                why[left].join("; with ")
            );
        };
        if let (Some(Some(pair)), Some(to)) = (tried.remove(&(known, other)), synced[known].as_ref().map(|known| known.shift)) {
            synced[other] = Some(Synced {
                path: hosts[other].path.clone(),
                shift: pair.estimate.shift.then(&to),
                error_ns,
                to: Some(hosts[known].path.clone()),
                there: pair.there,
                back: pair.back,
                ambiguous: pair.ambiguous,
                drifts_ppm: (pair.estimate.drifts.0 * 1e6, pair.estimate.drifts.1 * 1e6),
            });
        }
    }
    Ok(synced.into_iter().flatten().collect())
}

impl Host {
    fn read(path: &Path) -> anyhow::Result<Host> {
        let trace: Trace = crate::input::open(&[path.to_owned()], longpole_trace::Options::default())?;
        let mut host = Host { path: path.to_owned(), seen: HashMap::new(), sparse: 0, packets: 0, begin_ns: i64::MAX, end_ns: i64::MIN };
        if trace.captures().is_empty() {
            bail!("{} holds no packets (pcapng or pcap), so --sync packets has nothing to compare", path.display());
        }
        for capture in trace.captures() {
            capture.frames(i64::MIN, i64::MAX, |frame| {
                let Some(key) = key::of(frame.link_type, frame.bytes) else { return };
                host.packets += 1;
                host.add(key, frame.t_ns, frame.outbound.or(key.outbound));
            })?;
        }
        if host.packets == 0 {
            bail!("{} holds no packet of TCP or UDP between hosts, so --sync packets has nothing to compare", path.display());
        }
        Ok(host)
    }

    fn add(&mut self, key: key::Key, t_ns: i64, outbound: Option<bool>) {
        self.begin_ns = self.begin_ns.min(t_ns);
        self.end_ns = self.end_ns.max(t_ns);
        if !self.holds(key.hash) {
            return;
        }
        let seen = Seen { t_ns, source: key.source, outbound, again: false };
        self.seen.entry(key.hash).and_modify(|seen| seen.again = true).or_insert(seen);
        if self.seen.len() > MAX_HELD {
            self.sparse += 1;
            let sparse = self.sparse;
            self.seen.retain(|hash, _| hash.trailing_zeros() >= sparse);
        }
    }

    fn holds(&self, hash: u64) -> bool {
        hash.trailing_zeros() >= self.sparse
    }
}

struct Pair {
    estimate: Estimate,
    there: usize,
    back: usize,
    ambiguous: usize,
}

impl Pair {
    fn between(a: &Host, b: &Host) -> Result<Pair, String> {
        let mut ambiguous = 0;
        let mut known: Vec<Message> = Vec::new();
        // Times of packets with unknown direction, by a hash of their source address.
        let mut unknown: HashMap<u64, Vec<(i64, i64)>> = HashMap::new();
        for (hash, here) in a.seen.iter().filter(|(hash, _)| b.holds(**hash)) {
            let Some(there) = b.seen.get(hash) else { continue };
            if here.again || there.again {
                ambiguous += 1;
                continue;
            }
            let way = match (here.outbound, there.outbound) {
                (Some(true), Some(false) | None) | (None, Some(false)) => Way::There,
                (Some(false), Some(true) | None) | (None, Some(true)) => Way::Back,
                (None, None) => {
                    unknown.entry(here.source).or_default().push((here.t_ns, there.t_ns));
                    continue;
                }
                // Both hosts sent it, or both received it: they are not its two ends.
                (Some(true), Some(true)) | (Some(false), Some(false)) => continue,
            };
            known.push(Message { way, reference_ns: here.t_ns, other_ns: there.t_ns });
        }
        let range = Some((b.begin_ns, b.end_ns));
        let both =
            |messages: &[Message]| [Way::There, Way::Back].map(|way| messages.iter().any(|message| message.way == way)) == [true, true];
        let messages = if both(&known) || unknown.is_empty() { known } else { oriented(known, unknown)? };
        let count = |way: Way| messages.iter().filter(|message| message.way == way).count();
        let (there, back) = (count(Way::There), count(Way::Back));
        let estimate = estimate(&messages, range).map_err(|failure| message(&failure, there + back, ambiguous))?;
        Ok(Pair { estimate, there, back, ambiguous })
    }
}

fn message(failure: &Failure, messages: usize, ambiguous: usize) -> String {
    let ns = |ns: i64| {
        format!("{}{}.{:09} s", if ns < 0 { '-' } else { '+' }, ns.unsigned_abs() / 1_000_000_000, ns.unsigned_abs() % 1_000_000_000)
    };
    match failure {
        Failure::Nothing if ambiguous > 0 => {
            format!("{ambiguous} packets were seen in both captures, each more than once, so they cannot be matched")
        }
        Failure::OneWay { way: Way::There, bound_ns } => {
            format!("{failure} ({messages} from it, none to it): the offset is at least {}, without an upper bound", ns(*bound_ns))
        }
        Failure::OneWay { way: Way::Back, bound_ns } => {
            format!("{failure} ({messages} to it, none from it): the offset is at most {}, without a lower bound", ns(*bound_ns))
        }
        _ => failure.to_string(),
    }
}

/// Determines the direction of packets for which it is unknown. Of the two source addresses with
/// the most packets, one belongs to the one host and the other to the other; the assignment that
/// lets no packet arrive before it was sent is the right one.
fn oriented(known: Vec<Message>, unknown: HashMap<u64, Vec<(i64, i64)>>) -> Result<Vec<Message>, String> {
    let mut groups: Vec<(u64, Vec<(i64, i64)>)> = unknown.into_iter().collect();
    // Addresses with equally many packets are ordered by their hash, so that the result is
    // deterministic.
    groups.sort_by_key(|(source, packets)| (std::cmp::Reverse(packets.len()), *source));
    groups.truncate(2);
    let [first, second] = groups.as_slice() else {
        let packets = groups.first().map_or(0, |(_, packets)| packets.len());
        return Err(format!(
            "the captures do not record the direction of packets, and all {packets} packets in both come from one address: they bound the offset on one side only"
        ));
    };
    let with = |ways: [Way; 2]| {
        let mut messages = known.clone();
        for ((_, packets), way) in [first, second].into_iter().zip(ways) {
            messages.extend(packets.iter().map(|&(reference_ns, other_ns)| Message { way, reference_ns, other_ns }));
        }
        messages
    };
    let tried = [with([Way::There, Way::Back]), with([Way::Back, Way::There])];
    let fit = tried.each_ref().map(|messages| estimate(messages, None).is_ok());
    let [one, other] = tried;
    match fit {
        [true, false] => Ok(one),
        [false, true] => Ok(other),
        [true, true] => {
            Err("the captures do not record the direction of packets, and their times allow either; capture with the direction (pcapng)"
                .to_owned())
        }
        [false, false] => {
            Err("whichever way packets went, some would have arrived before they were sent: a clock was set meanwhile".to_owned())
        }
    }
}
