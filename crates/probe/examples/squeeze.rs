//! Two threads and a bounded queue that says what it does: the example of `docs/guides/rust.md`.
//!
//!     cargo build --release -p longpole-probe --example squeeze
//!     longpole record -- target/release/examples/squeeze
//!     longpole report
use longpole_probe as longpole;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};

const BLOCK: usize = 4096;
const BLOCKS: usize = 20_000;
const SLOTS: usize = 64;

/// A bounded queue with probes.
struct Channel {
    probe: longpole::Queue,
    blocks: Mutex<VecDeque<Vec<u8>>>,
    changed: Condvar,
}

impl Channel {
    fn new(name: &str) -> Channel {
        Channel { probe: longpole::Queue::new(name, SLOTS as u64), blocks: Mutex::default(), changed: Condvar::new() }
    }

    fn put(&self, block: Vec<u8>) {
        let mut blocks = self.blocks.lock().unwrap();
        if blocks.len() == SLOTS {
            longpole::queue_wait_full!(self.probe);
        }
        blocks = self.changed.wait_while(blocks, |blocks| blocks.len() == SLOTS).unwrap();
        longpole::queue_put!(self.probe, 1);
        blocks.push_back(block);
        self.changed.notify_one();
    }

    fn get(&self) -> Vec<u8> {
        let mut blocks = self.blocks.lock().unwrap();
        if blocks.is_empty() {
            longpole::queue_wait_empty!(self.probe);
        }
        blocks = self.changed.wait_while(blocks, |blocks| blocks.is_empty()).unwrap();
        longpole::queue_get!(self.probe, 1);
        self.changed.notify_one();
        blocks.pop_front().unwrap_or_default()
    }
}

fn fill(number: usize) -> Vec<u8> {
    longpole::span!("fill", number);
    (0..BLOCK).map(|at| (number + at) as u8).collect()
}

fn crc(bytes: &[u8]) -> u32 {
    longpole::span_here!(); // a span named "crc", to the end of the function
    !bytes.iter().fold(!0u32, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg())))
}

fn main() {
    let channel = Channel::new("blocks");
    let mut sum = 0u32;
    std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().name("reader".into());
        reader.spawn_scoped(scope, || (0..BLOCKS).for_each(|number| channel.put(fill(number)))).unwrap();
        for number in 0..BLOCKS {
            sum = sum.wrapping_add(crc(&channel.get()));
            if number % 1000 == 0 {
                longpole::counter!("sum", sum);
            }
        }
    });
    longpole::event!("done", sum = sum, blocks = BLOCKS);
    println!("{sum:08x}");
}
