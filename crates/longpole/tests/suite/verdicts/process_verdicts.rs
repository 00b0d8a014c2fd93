//! The verdict on processes of invented systems, from kernel events that are written by hand.

use crate::support::place::{ok, Place};
use crate::support::scheduled::{Scheduled, Task};
use serde_json::Value;

fn verdict(system: Scheduled) -> Value {
    verdict_on(system, &[])
}

fn verdict_on(system: Scheduled, options: &[&str]) -> Value {
    let place = Place::new();
    let trace = system.write(place.path("events.txt"));
    let mut command = place.command(env!("CARGO_BIN_EXE_longpole"));
    let output = ok(command.args(["report", "--json"]).args(options).arg(trace).output().unwrap());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["verdict"].clone()
}

/// Outcome, subject and mechanism.
fn named(verdict: &Value) -> [&str; 3] {
    [&verdict["outcome"], &verdict["subject"]["name"], &verdict["mechanism"]].map(|value| value.as_str().unwrap_or("none"))
}

/// The reason of this kind.
fn reason<'a>(verdict: &'a Value, kind: &str) -> &'a Value {
    let found = verdict["because"].as_array().unwrap().iter().find(|because| because["kind"] == kind);
    found.unwrap_or_else(|| panic!("no {kind}: {verdict:#}"))
}

fn text(verdict: &Value) -> &str {
    verdict["text"].as_str().unwrap()
}

/// Arguments of a wait in `futex`.
const FUTEX: &str = "uaddr: 7f10, op: 80, val: 2, utime: 0, uaddr2: 0, val3: 0";

/// Each session of a server accepts the connection of one client, and waits for a request.
fn serve(system: &mut Scheduled, clients: [Task; 4], sessions: [Task; 4]) {
    for (client, session) in clients.into_iter().zip(sessions) {
        system.starts(None, client);
        system.starts(None, session);
        system.connects((client, 4), (session, 5));
        system.receives(session, 5);
    }
}

/// A client asks a shop, which asks a store eight times for each request.
#[test]
fn a_server_that_asks_another_one_many_times_per_request_is_named_with_their_number() {
    let (client, shop, store) = (Task::new("client", 101, 0), Task::new("shop", 102, 1), Task::new("store", 103, 2));
    let mut system = Scheduled::new(3);
    [client, shop, store].into_iter().for_each(|task| system.starts(None, task));
    system.connects((client, 4), (shop, 5));
    system.connects((shop, 6), (store, 7));
    system.receives(store, 7);
    system.receives(shop, 5);
    for _ in 0..300 {
        system.after(10).sends((client, 4), shop);
        system.receives(client, 4);
        for _ in 0..8 {
            system.after(30).sends((shop, 6), store);
            system.receives(shop, 6);
            system.after(12).sends((store, 7), shop);
            system.receives(store, 7);
        }
        system.after(30).sends((shop, 5), client);
        system.receives(shop, 5);
    }
    let verdict = verdict(system);
    assert_eq!(named(&verdict)[..2], ["bottleneck", "shop"], "{verdict:#}");
    let asks = reason(&verdict, "round_trips");
    assert_eq!((asks["per_request"].as_f64(), &asks["callee"]["name"]), (Some(8.0), &"store".into()), "{verdict:#}");
    assert!(text(&verdict).contains("8.0 for each request that it answers"), "{verdict:#}");
}

/// Each session of a store serves one client. Session 0 holds a lock while its client computes
/// between two requests; the others wait for it in `futex`, and each gets it for one request.
#[test]
fn requests_that_wait_for_a_lock_of_a_client_that_computes_are_counted() {
    let clients = [0, 1, 2, 3].map(|n| Task::new(if n == 0 { "import" } else { "till" }, 101 + n, n));
    let sessions = [0, 1, 2, 3].map(|n| Task::new("store", 201 + n, 4 + n));
    let mut system = Scheduled::new(8);
    serve(&mut system, clients, sessions);
    for _ in 0..120 {
        // The import takes the lock, and computes.
        system.after(5).sends((clients[0], 4), sessions[0]);
        system.receives(clients[0], 4);
        system.after(20).sends((sessions[0], 5), clients[0]);
        system.receives(sessions[0], 5);
        for n in 1..4 {
            system.after(2).sends((clients[n], 4), sessions[n]);
            system.receives(clients[n], 4);
            system.enters(sessions[n], "futex", FUTEX);
            system.sleeps(sessions[n]);
        }
        // Its second request releases the lock.
        system.after(5_000).sends((clients[0], 4), sessions[0]);
        system.receives(clients[0], 4);
        for n in 1..4 {
            system.after(10).wakes(Some(sessions[n - 1]), sessions[n]);
            system.leaves(sessions[n], "futex", 0);
            // The one before answers after it has released the lock.
            system.after(4).sends((sessions[n - 1], 5), clients[n - 1]);
            system.receives(sessions[n - 1], 5);
        }
        system.after(10).sends((sessions[3], 5), clients[3]);
        system.receives(sessions[3], 5);
    }
    let verdict = verdict(system);
    let held = reason(&verdict, "held_requests");
    assert_eq!((&held["at"]["name"], &held["call"]), (&"store".into(), &"futex".into()), "{verdict:#}");
    assert!((2.5..3.1).contains(&held["waiting"].as_f64().unwrap()), "{verdict:#}");
    assert_eq!(named(&verdict)[..2], ["bottleneck", "import"], "{verdict:#}");
}

/// A client asks a server on another host: packets come by the interrupt of a device.
#[test]
fn a_client_that_waits_for_replies_from_another_host_waits_for_a_device() {
    let client = Task::new("mailer", 101, 0);
    let (cpu, device) = (Task::new("swapper", 0, 1), "irq=38 name=net0-input");
    let mut system = Scheduled::new(2);
    system.starts(None, client);
    for _ in 0..100 {
        system.after(200).calls(client, "sendto", "fd: 4, buff: 7f00, len: 40, flags: 0", 0x40);
        system.receives(client, 4);
        system.after(4_000).event(cpu, &format!("irq_handler_entry: {device}"));
        system.after(2).event(cpu, "softirq_raise: vec=3 [action=NET_RX]");
        system.after(1).event(cpu, "irq_handler_exit: irq=38 ret=handled");
        system.event(cpu, "softirq_entry: vec=3 [action=NET_RX]");
        // TCP sets the timer of its acknowledgement before it wakes the reader.
        system
            .after(1)
            .event(cpu, "timer_start: timer=00000000aa function=tcp_delack_timer expires=5 [timeout=4] bucket_expiry=5 cpu=1 idx=0 flags=");
        system.after(2);
        system.wakes(Some(cpu), client);
        system.event(cpu, "softirq_exit: vec=3 [action=NET_RX]");
        system.leaves(client, "recvfrom", 0x40);
    }
    let verdict = verdict(system);
    assert_eq!(named(&verdict), ["paced", "mailer", "none"], "{verdict:#}");
    assert_eq!(verdict["state"]["kind"], "outside", "{verdict:#}");
    assert!((0.9..0.97).contains(&verdict["share"].as_f64().unwrap()), "{verdict:#}");
    assert!(text(&verdict).contains("waits for the device net0-input, behind which nothing is recorded, for 9"), "{verdict:#}");
}

/// Two processes of one program share the only CPU. Neither their work nor their waits for the CPU
/// have most of the path.
#[test]
fn processes_that_wait_for_the_cpu_that_they_use_compute_on_all_cpus() {
    let workers = [101, 102].map(|tid| Task::new("worker", tid, 0));
    let mut system = Scheduled::new(1);
    workers.into_iter().for_each(|worker| system.starts(None, worker));
    for _ in 0..150 {
        system.after(4_000).switch(0, "R", Some(workers[1]));
        system.after(4_000).switch(0, "R", Some(workers[0]));
        system.after(10).calls(workers[0], "write", "fd: 4, buf: 7f00, count: 1000", 0x1000);
        system.enters(workers[0], "write", "fd: 4, buf: 7f00, count: 1000");
        system.after(500);
        system.leaves(workers[0], "write", 0x1000);
    }
    system.exits(workers[0]);
    let verdict = verdict(system);
    assert_eq!(named(&verdict), ["bottleneck", "worker", "cpu_contention"], "{verdict:#}");
    assert!(text(&verdict).contains("the CPUs are full, and worker (pid 101) waits for those that it uses, for 47"), "{verdict:#}");
}

/// The only client of a server waits for one reply at a time, and the server sleeps for each.
#[test]
fn a_client_with_one_request_at_a_time_is_in_the_first_clause_of_a_server_that_sleeps() {
    let (client, server) = (Task::new("packer", 101, 0), Task::new("carrier", 102, 1));
    let mut system = Scheduled::new(2);
    [client, server].into_iter().for_each(|task| system.starts(None, task));
    system.connects((client, 4), (server, 5));
    system.receives(server, 5);
    for _ in 0..200 {
        system.after(20).sends((client, 4), server);
        system.receives(client, 4);
        system.after(5).enters(server, "clock_nanosleep", "which_clock: 0, flags: 0, rqtp: 7f00, rmtp: 0");
        system.sleeps(server);
        system.after(3_000).wakes(None, server);
        system.leaves(server, "clock_nanosleep", 0);
        system.after(5).sends((server, 5), client);
        system.receives(server, 5);
    }
    let verdict = verdict(system);
    assert_eq!(named(&verdict), ["bottleneck", "carrier", "sleep_in_handler"], "{verdict:#}");
    let first = text(&verdict).split(';').next().unwrap();
    assert!(first.contains(", while packer (pid 101) waits for one reply at a time, for "), "{verdict:#}");
}

/// Two threads compute on one CPU, of which one is nice; the other has the CPU ten times as long.
#[test]
fn a_process_that_waits_for_a_cpu_behind_a_more_important_one_is_named_with_its_priority() {
    let (backup, report) = (Task::new("backup", 101, 0), Task { priority: 139, ..Task::new("report", 102, 0) });
    let mut system = Scheduled::new(1);
    system.starts(None, backup);
    system.starts(None, report);
    for _ in 0..300 {
        system.after(10_000).switch(0, "R", Some(report));
        system.after(1_000).switch(0, "R", Some(backup));
    }
    let verdict = verdict_on(system, &["--process", "report"]);
    assert_eq!(named(&verdict), ["bottleneck", "backup", "cpu_contention"], "{verdict:#}");
    let lower = reason(&verdict, "lower_priority");
    assert_eq!((&lower["waits"]["name"], &lower["user"]["name"], &lower["levels"]), (&"report".into(), &"backup".into(), &19.into()));
}

/// A server's worker is replaced by a new one after ten requests.
#[test]
fn workers_that_are_replaced_again_and_again_are_counted() {
    let (client, master) = (Task::new("client", 101, 0), Task::new("master", 102, 1));
    let mut system = Scheduled::new(3);
    [client, master].into_iter().for_each(|task| system.starts(None, task));
    for n in 0..14 {
        let worker = Task::new("web", 201 + n, 2);
        system.starts(Some(master), worker);
        system.enters(master, "wait4", "upid: ffffffff, stat_addr: 0, options: 0, ru: 0");
        system.sleeps(master);
        system.executes(worker);
        system.connects((client, 4), (worker, 5));
        // It loads what it needs before it reads its first request.
        system.calls(client, "sendto", "fd: 4, buff: 7f00, len: 40, flags: 0", 0x40);
        system.receives(client, 4);
        system.after(20_000).calls(worker, "recvfrom", "fd: 5, ubuf: 7f00, size: 1000, flags: 0", 0x40);
        system.after(400).sends((worker, 5), client);
        system.receives(worker, 5);
        for _ in 0..9 {
            system.after(10).sends((client, 4), worker);
            system.receives(client, 4);
            system.after(400).sends((worker, 5), client);
            system.receives(worker, 5);
        }
        system.wakes(Some(client), worker);
        system.calls(client, "close", "fd: 4", 0);
        system.leaves(worker, "recvfrom", 0);
        system.after(5).enters(worker, "exit_group", "error_code: 0");
        system.wakes(Some(worker), master);
        system.exits(worker);
        system.leaves(master, "wait4", worker.tid.into());
    }
    let verdict = verdict(system);
    assert_eq!(named(&verdict)[..2], ["bottleneck", "web"], "{verdict:#}");
    let starts = reason(&verdict, "processes");
    assert_eq!((&starts["by"]["name"], &starts["count"]), (&"master".into(), &14.into()), "{verdict:#}");
}

/// Softirqs interrupt a relay for most of the time in which it has a CPU.
#[test]
fn interrupts_that_take_most_of_a_programs_time_are_the_mechanism() {
    let (client, relay) = (Task::new("client", 101, 0), Task::new("relay", 102, 1));
    let mut system = Scheduled::new(2);
    [client, relay].into_iter().for_each(|task| system.starts(None, task));
    system.connects((client, 4), (relay, 5));
    system.receives(relay, 5);
    for _ in 0..300 {
        system.after(10).sends((client, 4), relay);
        system.receives(client, 4);
        for _ in 0..3 {
            system.after(8).event(relay, "softirq_raise: vec=3 [action=NET_RX]");
            system.event(relay, "softirq_entry: vec=3 [action=NET_RX]");
            system.after(30).event(relay, "softirq_exit: vec=3 [action=NET_RX]");
        }
        system.after(8).sends((relay, 5), client);
        system.receives(relay, 5);
    }
    let verdict = verdict(system);
    assert_eq!(named(&verdict), ["bottleneck", "relay", "interrupt_work"], "{verdict:#}");
}

/// A client waits for a second until its store is ready. Then it asks the store, which needs a
/// different time for each answer, and sleeps: until its next interval of 6 ms begins if
/// `on_schedule`, else for 3 ms.
fn with_pauses(on_schedule: bool) -> Value {
    let (client, store) = (Task::new("gauge", 101, 0), Task::new("store", 102, 1));
    let mut system = Scheduled::new(2);
    [client, store].into_iter().for_each(|task| system.starts(None, task));
    system.connects((client, 4), (store, 5));
    system.receives(store, 5);
    let nanosleep = "which_clock: 0, flags: 0, rqtp: 7f00, rmtp: 0";
    system.enters(client, "clock_nanosleep", nanosleep);
    system.sleeps(client);
    system.after(1_000_000).wakes(None, client);
    system.leaves(client, "clock_nanosleep", 0);
    let begin = system.now;
    for round in 0..600 {
        system.after(20).sends((client, 4), store);
        system.receives(client, 4);
        system.after(2_500 + 97 * (round * 7 % 11)).sends((store, 5), client);
        system.receives(store, 5);
        system.enters(client, "clock_nanosleep", nanosleep);
        system.sleeps(client);
        let next = begin + 6_000 * (round + 1) + round % 3;
        let rest = if on_schedule { next - system.now } else { 3_000 + round % 3 };
        system.after(rest).wakes(None, client);
        system.leaves(client, "clock_nanosleep", 0);
    }
    verdict(system)
}

#[test]
fn a_client_with_a_schedule_sets_the_pace_and_one_that_pauses_after_each_reply_does_not() {
    let scheduled = with_pauses(true);
    assert_eq!(named(&scheduled)[..2], ["paced", "gauge"], "{scheduled:#}");
    let schedule = reason(&scheduled, "schedule");
    assert!((5_900_000..6_100_000).contains(&schedule["interval_ns"].as_u64().unwrap()), "{scheduled:#}");
    let pauses = with_pauses(false);
    assert!(pauses["because"].as_array().unwrap().iter().all(|because| because["kind"] != "schedule"), "{pauses:#}");
}

/// A front has four requests open to two processes of a server, each of which sleeps for its own.
#[test]
fn requests_that_wait_for_one_of_the_occupied_processes_are_counted() {
    let front = Task::new("front", 101, 0);
    let workers = [Task::new("pool", 201, 1), Task::new("pool", 202, 2)];
    let mut system = Scheduled::new(3);
    system.starts(None, front);
    workers.into_iter().for_each(|worker| system.starts(None, worker));
    workers.into_iter().for_each(|worker| system.sleeps(worker));
    let request = |fd: u32| format!("fd: {fd:x}, buff: 7f00, len: 40, flags: 0");
    // The front connects, and sends before a worker accepts.
    let mut waiting: std::collections::VecDeque<u32> = (10..14).collect();
    for &fd in &waiting {
        system.calls(front, "socket", "family: 2, type: 1, protocol: 0", fd.into());
        system.calls(front, "connect", &format!("fd: {fd:x}, uservaddr: 7f00, addrlen: 10"), 0);
        system.calls(front, "sendto", &request(fd), 0x40);
    }
    system.enters(front, "epoll_wait", "epfd: 3, events: 7f00, maxevents: 8, timeout: ffffffff");
    system.sleeps(front);
    let mut served: [Option<u32>; 2] = [None; 2];
    for round in 0..300 {
        let (worker, at) = (workers[round % 2], round % 2);
        system.after(2_000).wakes(None, worker);
        if let Some(fd) = served[at].take() {
            // It answers, and the front sends its next request on a new connection.
            system.leaves(worker, "clock_nanosleep", 0);
            system.enters(worker, "sendto", &request(5));
            system.wakes(Some(worker), front);
            system.leaves(worker, "sendto", 0x40);
            system.calls(worker, "close", "fd: 5", 0);
            system.leaves(front, "epoll_wait", 1);
            system.calls(front, "recvfrom", &format!("fd: {fd:x}, ubuf: 7f00, size: 1000, flags: 0"), 0x40);
            system.calls(front, "close", &format!("fd: {fd:x}"), 0);
            system.calls(front, "socket", "family: 2, type: 1, protocol: 0", fd.into());
            system.calls(front, "connect", &format!("fd: {fd:x}, uservaddr: 7f00, addrlen: 10"), 0);
            system.calls(front, "sendto", &request(fd), 0x40);
            waiting.push_back(fd);
            system.enters(front, "epoll_wait", "epfd: 3, events: 7f00, maxevents: 8, timeout: ffffffff");
            system.sleeps(front);
        }
        served[at] = waiting.pop_front();
        system.calls(worker, "accept4", "fd: 3, upeer_sockaddr: 0, upeer_addrlen: 0, flags: 0", 5);
        system.calls(worker, "recvfrom", "fd: 5, ubuf: 7f00, size: 1000, flags: 0", 0x40);
        system.enters(worker, "clock_nanosleep", "which_clock: 0, flags: 0, rqtp: 7f00, rmtp: 0");
        system.sleeps(worker);
    }
    let verdict = verdict(system);
    assert_eq!(named(&verdict)[..2], ["bottleneck", "pool"], "{verdict:#}");
    let where_they_wait = verdict["because"]
        .as_array()
        .unwrap()
        .iter()
        .find(|because| ["serialised", "occupied"].contains(&because["kind"].as_str().unwrap()));
    let open = where_they_wait.unwrap_or_else(|| panic!("{verdict:#}"))["open"].as_f64().unwrap();
    assert!((3.5..4.1).contains(&open), "{verdict:#}");
}

/// Sessions of a queue wait in `futex` for items, which one client puts now and then.
#[test]
fn consumers_that_wait_for_items_do_not_wait_for_a_lock() {
    let clients = [0, 1, 2, 3].map(|n| Task::new(if n == 0 { "feeder" } else { "packer" }, 101 + n, n));
    let sessions = [0, 1, 2, 3].map(|n| Task::new("queue", 201 + n, 4 + n));
    let mut system = Scheduled::new(8);
    serve(&mut system, clients, sessions);
    for n in 1..4 {
        system.after(5).sends((clients[n], 4), sessions[n]);
        system.receives(clients[n], 4);
        system.enters(sessions[n], "futex", FUTEX);
        system.sleeps(sessions[n]);
    }
    for round in 0..300 {
        let n = 1 + round % 3;
        system.enters(clients[0], "clock_nanosleep", "which_clock: 0, flags: 0, rqtp: 7f00, rmtp: 0");
        system.sleeps(clients[0]);
        system.after(5_000).wakes(None, clients[0]);
        system.leaves(clients[0], "clock_nanosleep", 0);
        system.after(20).sends((clients[0], 4), sessions[0]);
        system.receives(clients[0], 4);
        system.after(10).wakes(Some(sessions[0]), sessions[n]);
        system.leaves(sessions[n], "futex", 0);
        system.after(5).sends((sessions[0], 5), clients[0]);
        system.receives(sessions[0], 5);
        system.after(5).sends((sessions[n], 5), clients[n]);
        system.receives(sessions[n], 5);
        system.after(50).sends((clients[n], 4), sessions[n]);
        system.receives(clients[n], 4);
        system.enters(sessions[n], "futex", FUTEX);
        system.sleeps(sessions[n]);
    }
    let verdict = verdict(system);
    assert_eq!(named(&verdict)[..2], ["paced", "feeder"], "{verdict:#}");
    let held = verdict["because"].as_array().unwrap().iter().find(|because| because["kind"] == "held_requests");
    assert!(held.is_none_or(|held| held["is_passed_on"] == false), "{verdict:#}");
}
