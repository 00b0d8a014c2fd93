//! Scenarios of devices, wires and hosts.

use crate::draw::Dist;
use crate::sketch::{device, forever, get, put, repeat, work, Sketch};

/// The experiment of Saidi et al. (ISPASS 2008): an I/O bus limits the transfers of a NIC to 2.0
/// units while the sender could provide 2.2, and 96 % of the critical path are in the DMA state of
/// the NIC. A disk takes the bus now and then.
pub fn dma(s: &mut Sketch) {
    // Time per packet in ns, at 2.0 units.
    let transfer = s.pick.int(5_000, 20_000);
    let (near, far) = (s.host("near"), s.host("far"));
    let tap = s.decoy(transfer * 2, 2);
    let ring = s.queue("ring", Some(s.pick.clone().int(32, 128)));
    let latency = Dist::Fixed(s.pick.int(10_000, 50_000));
    let wire = s.wire("wire", None, latency, None);
    let bus = s.lock("bus");
    let (make, fetch, dma, take, seek, burst) = (
        s.state("sender.make"),
        s.state("nic.fetch"),
        s.state("nic.dma"),
        s.state("sink.take"),
        s.state("disk.seek"),
        s.state("disk.burst"),
    );
    let sender = Dist::around(transfer * 20 / 22, 0.3);
    let sender = s.machine("sender", vec![repeat(s.items, vec![work(make, sender), put(tap), put(ring)])]);
    let steps = vec![
        get(ring),
        device(fetch, Dist::around(transfer / 60, 0.3)),
        get(bus),
        device(dma, Dist::around(transfer, 0.05)),
        put(bus),
        put(wire),
    ];
    let nic = s.machine("nic", vec![forever(steps)]);
    let steps = vec![device(seek, Dist::around(transfer * 40, 0.5)), get(bus), device(burst, Dist::around(transfer / 4, 0.2)), put(bus)];
    let disk = s.machine("disk", vec![forever(steps)]);
    let sink = s.machine("sink", vec![repeat(s.items, vec![get(wire), work(take, Dist::around(transfer * 20 / 26, 0.3))])]);
    s.at(&near, &[sender, nic, disk]);
    s.at(&far, &[sink]);
    s.system.end = sink;
}

/// `$server` on another host is the slowest part. Requests and replies need time on the wire, but
/// many are in flight at once.
pub fn two_hosts(s: &mut Sketch) {
    let mean = s.pick.int(10_000, 40_000);
    let (near, far) = (s.host("near"), s.host("far"));
    let tap = s.decoy(mean * 2, 2);
    let window = s.pick.int(24, 48);
    let latency = Dist::around(mean * s.pick.int(3, 6), 0.1);
    let (requests, replies) = (s.wire("requests", Some(window), latency, None), s.wire("replies", Some(window), latency, None));
    let (make, serve, take) = (s.state("client.make"), s.state("server.serve"), s.state("sink.take"));
    let part = s.pick.real(0.5, 0.7);
    let steps = vec![work(make, Dist::around((mean as f64 * part) as u64, 0.4)), put(tap), put(requests)];
    let client = s.machine("client", vec![repeat(s.items, steps)]);
    let server = s.machine("server", vec![forever(vec![get(requests), work(serve, Dist::around(mean, 0.4)), put(replies)])]);
    let sink = s.machine("sink", vec![repeat(s.items, vec![get(replies), work(take, Dist::around((mean as f64 * part) as u64, 0.4))])]);
    s.at(&near, &[client, sink]);
    s.at(&far, &[server]);
    s.system.end = sink;
}

/// `$sender` may have at most one window of `$data` in flight, and a round trip takes longer than
/// sending the window.
pub fn credit(s: &mut Sketch) {
    let mean = s.pick.int(5_000, 20_000);
    let (near, far) = (s.host("near"), s.host("far"));
    let tap = s.decoy(mean * 3, 2);
    let window = s.pick.int(4, 10);
    // A round trip takes the time for the work of this many windows.
    let way = mean * window * s.pick.int(3, 5) / 2;
    let (there, back) = (Dist::around(way, 0.02), Dist::around(way, 0.02));
    let data = s.wire("data", Some(window), there, Some(back));
    let double = (window * 2).to_string();
    s.roles.insert("window.twice".to_owned(), double);
    let (make, take) = (s.state("sender.make"), s.state("sink.take"));
    let sender = s.machine("sender", vec![repeat(s.items, vec![work(make, Dist::around(mean, 0.3)), put(tap), put(data)])]);
    let sink = s.machine("sink", vec![repeat(s.items, vec![get(data), work(take, Dist::around(mean * 3 / 4, 0.3))])]);
    s.at(&near, &[sender]);
    s.at(&far, &[sink]);
    s.system.end = sink;
}
