//! Streams of `samples/` with any content. The metadata is that of a real recording.

pub const METADATA: &str = include_str!("../fixtures/metadata");
pub const SAMPLE: u16 = 0;
pub const MAPPING: u16 = 1;
pub const COMM: u16 = 2;
pub const FORK: u16 = 3;
pub const EXIT: u16 = 4;
pub const COPIED: u16 = 6;
pub const STACK: u16 = 7;
pub const WAITING_RATE: u16 = 8;

/// A stream of one packet.
#[derive(Default)]
pub struct Stream {
    pub events: Vec<u8>,
    last: u64,
}

impl Stream {
    pub fn event(&mut self, id: u16, time: u64, pid: i32, tid: i32, fields: &[u8]) -> &mut Stream {
        self.events.extend(id.to_le_bytes());
        self.events.extend(time.to_le_bytes());
        self.events.extend([pid, tid].iter().flat_map(|id| id.to_le_bytes()));
        self.events.extend(fields);
        self.last = time;
        self
    }

    pub fn sample(&mut self, time: u64, pid: i32, kernel: &[u64], user: &[u64]) -> &mut Stream {
        self.event(SAMPLE, time, pid, pid, &[chain(kernel), chain(user)].concat())
    }

    pub fn stack(&mut self, time: u64, pid: i32, (cause, other): (u8, i32), truncated: u8, user: &[u64]) -> &mut Stream {
        let fields = [vec![cause], other.to_le_bytes().to_vec(), vec![truncated], chain(&[]), chain(user)].concat();
        self.event(STACK, time, pid, pid, &fields)
    }

    /// A sample with registers (ip, sp, fp, lr) and a copy of the stack.
    pub fn copied(&mut self, time: u64, pid: i32, cause: u8, user: &[u64], registers: [u64; 4], stack: &[u8]) -> &mut Stream {
        let registers: Vec<u8> = registers.iter().flat_map(|word| word.to_le_bytes()).collect();
        let length = (stack.len() as u32).to_le_bytes().to_vec();
        let fields = [vec![cause], vec![0; 4], chain(&[]), chain(user), registers, length, stack.to_vec()].concat();
        self.event(COPIED, time, pid, pid, &fields)
    }

    pub fn mapping(&mut self, time: u64, pid: i32, start: u64, length: u64, offset: u64, path: &str) -> &mut Stream {
        self.mapping_of(time, pid, (start, length, offset), 77, path)
    }

    pub fn mapping_of(&mut self, time: u64, pid: i32, (start, length, offset): (u64, u64, u64), inode: u64, path: &str) -> &mut Stream {
        let mut fields: Vec<u8> = [start, length, offset, inode].iter().flat_map(|word| word.to_le_bytes()).collect();
        fields.extend(path.bytes().chain([0]));
        self.event(MAPPING, time, pid, pid, &fields)
    }

    pub fn comm(&mut self, time: u64, pid: i32, exec: u8, name: &str) -> &mut Stream {
        self.event(COMM, time, pid, pid, &[&[exec], name.as_bytes(), &[0]].concat())
    }

    pub fn fork(&mut self, time: u64, parent: i32, pid: i32) -> &mut Stream {
        self.event(FORK, time, pid, pid, &[parent, parent].iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>())
    }

    pub fn bytes(&self, class: u32) -> Vec<u8> {
        self.packet(class, 76 + self.events.len())
    }

    /// Like [`Stream::bytes`], with the alignment of packets that are followed by others.
    pub fn padded(&self, class: u32) -> Vec<u8> {
        self.packet(class, (76 + self.events.len()).next_multiple_of(128))
    }

    fn packet(&self, class: u32, size: usize) -> Vec<u8> {
        let mut bytes = 0xc1fc_1fc1u32.to_le_bytes().to_vec();
        let uuid = METADATA.split("uuid = \"").nth(1).unwrap().split('"').next().unwrap().replace('-', "");
        bytes.extend((0..16).map(|at| u8::from_str_radix(&uuid[2 * at..2 * at + 2], 16).unwrap()));
        bytes.extend(class.to_le_bytes());
        let bits = (76 + self.events.len() as u64) * 8;
        bytes.extend([0, self.last, bits, size as u64 * 8, 0, 0].iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(&self.events);
        bytes.resize(size, 0);
        bytes
    }
}

pub fn chain(of: &[u64]) -> Vec<u8> {
    [(of.len() as u16).to_le_bytes().to_vec(), of.iter().flat_map(|word| word.to_le_bytes()).collect()].concat()
}
