//! The ring of a device: an AF_PACKET socket whose frames the kernel writes into memory that it
//! shares with this process (TPACKET_V3).
//!
//! The ring consists of blocks. The kernel fills a block and hands it over when it is full, or when
//! some time has passed since its first frame. After reading the block, this process returns it to
//! the kernel. While the kernel owns no block it drops frames and counts them. The layouts are from
//! `linux/if_packet.h`.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Size of a block in bytes.
const BLOCK: usize = 256 << 10;
/// Smallest number of blocks. With fewer, the kernel would have no block to fill while one is read.
const FEWEST_BLOCKS: usize = 4;
/// Largest size of a ring in bytes.
const MAX_RING_BYTES: u64 = 1 << 30;
/// Frame size that the kernel requires in the request. It has no effect: frames of this version
/// have any length.
const FRAME: usize = 2048;

const PACKET_ADD_MEMBERSHIP: libc::c_int = 1;
const PACKET_RX_RING: libc::c_int = 5;
const PACKET_STATISTICS: libc::c_int = 6;
const PACKET_VERSION: libc::c_int = 10;
const TPACKET_V3: libc::c_int = 2;
const PACKET_MR_PROMISC: u16 = 1;
const TP_STATUS_USER: u32 = 1;
const TP_STATUS_LOSING: u32 = 1 << 2;
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;
/// Size of an aligned `tpacket3_hdr` in bytes; the sender's address follows it.
const HEADER: usize = 48;
/// Size of that address (`sockaddr_ll`) in bytes.
const ADDRESS: usize = 20;
const BPF_RET: u16 = 6;

/// The kernel's `struct tpacket_req3`.
#[repr(C)]
struct Request {
    block_size: u32,
    block_count: u32,
    frame_size: u32,
    frame_count: u32,
    /// Time in milliseconds after which a block is handed over.
    retire_after: u32,
    private_size: u32,
    features: u32,
}

/// Counters since the last call of [`Ring::counts`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of frames, including those that were dropped.
    pub packets: u32,
    pub dropped: u32,
    freezes: u32,
}

/// A frame in the ring.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Time of CLOCK_REALTIME in ns.
    pub time: i64,
    /// Length on the wire, in bytes.
    pub length: u32,
    pub bytes: &'a [u8],
    /// Type of the packet, `sll_pkttype`: incoming, outgoing and others.
    pub kind: u8,
    /// ARPHRD type of the device.
    pub hardware: u16,
    /// EtherType of the frame.
    pub protocol: u16,
    /// Link-layer address of the sender.
    pub sender: &'a [u8],
    /// Type and tag of a VLAN header that the kernel has removed from the frame.
    pub vlan: Option<(u16, u16)>,
    /// True if frames were dropped before this one since the last call of [`Ring::counts`].
    pub losing: bool,
}

/// A packet socket with its ring.
#[derive(Debug)]
pub struct Ring {
    socket: OwnedFd,
    base: NonNull<u8>,
    blocks: usize,
    next: usize,
}

// SAFETY: the mapped memory is not bound to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Opens a socket in this thread's network namespace that receives nothing yet. With `cooked`,
    /// the kernel removes the devices' own headers.
    pub fn socket(cooked: bool) -> io::Result<OwnedFd> {
        let kind = if cooked { libc::SOCK_DGRAM } else { libc::SOCK_RAW };
        // SAFETY: the call takes numbers only.
        let socket = unsafe { libc::socket(libc::AF_PACKET, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
        match socket {
            // SAFETY: a new descriptor, which has no other owner.
            0.. => Ok(unsafe { OwnedFd::from_raw_fd(socket) }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Makes the ring of a socket. `bytes` is rounded up to whole blocks.
    pub fn new(socket: OwnedFd, bytes: u64, retire_after: Duration) -> io::Result<Ring> {
        let blocks = (bytes.min(MAX_RING_BYTES) as usize).div_ceil(BLOCK).max(FEWEST_BLOCKS);
        set(&socket, PACKET_VERSION, &TPACKET_V3)?;
        let request = Request {
            block_size: BLOCK as u32,
            block_count: blocks as u32,
            frame_size: FRAME as u32,
            frame_count: (blocks * (BLOCK / FRAME)) as u32,
            retire_after: retire_after.as_millis() as u32,
            private_size: 0,
            features: 0,
        };
        set(&socket, PACKET_RX_RING, &request)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: this is a new shared mapping at an address that the kernel chooses.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), blocks * BLOCK, access, libc::MAP_SHARED, socket.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Ring { socket, base, blocks, next: 0 })
    }

    /// Starts to receive all frames of this device, at most `snaplen` bytes of each.
    pub fn begin(&self, device: u32, snaplen: u32, promiscuous: bool) -> io::Result<()> {
        self.keep(snaplen)?;
        // SAFETY: an address of zeros is valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = device as i32;
        let length = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: the descriptor is valid, and the address has this length.
        if unsafe { libc::bind(self.socket.as_raw_fd(), (&raw const address).cast(), length) } != 0 {
            return Err(io::Error::last_os_error());
        }
        if promiscuous {
            #[repr(C)]
            struct Membership {
                device: i32,
                kind: u16,
                length: u16,
                address: [u8; 8],
            }
            let membership = Membership { device: device as i32, kind: PACKET_MR_PROMISC, length: 0, address: [0; 8] };
            set(&self.socket, PACKET_ADD_MEMBERSHIP, &membership)?;
        }
        Ok(())
    }

    /// Limits the bytes that are stored of each frame. With 0, no further frame is received.
    pub fn keep(&self, bytes: u32) -> io::Result<()> {
        let mut program = [libc::sock_filter { code: BPF_RET, jt: 0, jf: 0, k: bytes }];
        let filter = libc::sock_fprog { len: 1, filter: program.as_mut_ptr() };
        set_at(&self.socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
    }

    /// Returns the counters since the last call.
    pub fn counts(&self) -> io::Result<Counts> {
        let mut counts = Counts::default();
        let mut length = size_of::<Counts>() as u32;
        // SAFETY: the kernel writes at most `length` bytes.
        let result = unsafe {
            libc::getsockopt(self.socket.as_raw_fd(), libc::SOL_PACKET, PACKET_STATISTICS, (&raw mut counts).cast(), &raw mut length)
        };
        if result == 0 {
            Ok(counts)
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Returns and clears the error of the socket: the device went down or was removed.
    pub fn take_error(&self) -> Option<io::Error> {
        let mut error: libc::c_int = 0;
        let mut length = size_of::<libc::c_int>() as u32;
        // SAFETY: the kernel writes one integer.
        let result = unsafe {
            libc::getsockopt(self.socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ERROR, (&raw mut error).cast(), &raw mut length)
        };
        (result == 0 && error != 0).then(|| io::Error::from_raw_os_error(error))
    }

    /// True if the device of this socket was removed for good.
    pub fn is_orphaned(&self) -> bool {
        // SAFETY: an address of zeros is valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let mut length = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: the kernel writes at most `length` bytes.
        let result = unsafe { libc::getsockname(self.socket.as_raw_fd(), (&raw mut address).cast(), &raw mut length) };
        result == 0 && address.sll_ifindex == -1
    }

    /// Size of the ring in bytes.
    pub fn bytes(&self) -> usize {
        self.blocks * BLOCK
    }

    /// Reads the next block if the kernel has handed it over, and returns it to the kernel. The
    /// result is true if there was one.
    pub fn take(&mut self, frame: impl FnMut(Frame<'_>)) -> bool {
        let begin = self.next * BLOCK;
        // SAFETY: the word is in the mapping and aligned to 8 bytes. The kernel and this process
        // hand the block over by this word alone.
        let status = unsafe { &*self.base.as_ptr().add(begin + 8).cast::<AtomicU32>() };
        if status.load(Ordering::Acquire) & TP_STATUS_USER == 0 {
            return false;
        }
        // SAFETY: the block is in the mapping, and the kernel does not access it until its status
        // says that the kernel owns it.
        let block = unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(begin), BLOCK) };
        walk(block, frame);
        status.store(0, Ordering::Release);
        self.next = (self.next + 1) % self.blocks;
        true
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `new`, and no reference into it exists.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.blocks * BLOCK) };
    }
}

fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    set_at(socket, libc::SOL_PACKET, option, value)
}

fn set_at<T>(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads a value of this size.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), size_of::<T>() as u32) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Calls `each` with the frames of a block. A frame that is not completely in the block ends the
/// walk.
fn walk(block: &[u8], mut each: impl FnMut(Frame<'_>)) {
    let half = |bytes: &[u8], at: usize| bytes.get(at..at + 2).map(|bytes| u16::from_ne_bytes([bytes[0], bytes[1]]));
    let word = |bytes: &[u8], at: usize| bytes.get(at..at + 4).map(|bytes| u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    let count = word(block, 12).unwrap_or(0);
    let mut at = word(block, 16).unwrap_or(0) as usize;
    for _ in 0..count {
        let Some(header) = block.get(at..).filter(|rest| rest.len() >= HEADER + ADDRESS) else { return };
        let field = |at| word(header, at).unwrap_or(0);
        let status = field(20);
        let begin = usize::from(half(header, 24).unwrap_or(0));
        let Some(bytes) = header.get(begin..begin + field(12) as usize) else { return };
        let address = &header[HEADER..HEADER + ADDRESS];
        let sender = &address[12..12 + usize::from(address[11]).min(8)];
        let tag = field(32) as u16;
        let vlan = (status & TP_STATUS_VLAN_VALID != 0).then(|| match status & TP_STATUS_VLAN_TPID_VALID {
            0 => (0x8100, tag),
            _ => (half(header, 36).unwrap_or(0), tag),
        });
        each(Frame {
            time: i64::from(field(4)) * 1_000_000_000 + i64::from(field(8)),
            length: field(16).max(bytes.len() as u32),
            bytes,
            kind: address[10],
            hardware: half(address, 8).unwrap_or(0),
            protocol: half(address, 2).map_or(0, u16::from_be),
            sender,
            vlan,
            losing: status & TP_STATUS_LOSING != 0,
        });
        match field(0) as usize {
            0 => return,
            next => at += next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(block: &mut [u8], at: usize, next: u32, bytes: &[u8]) {
        let mut put = |offset: usize, value: &[u8]| block[at + offset..at + offset + value.len()].copy_from_slice(value);
        put(0, &next.to_ne_bytes());
        put(4, &7u32.to_ne_bytes());
        put(8, &5u32.to_ne_bytes());
        put(12, &(bytes.len() as u32).to_ne_bytes());
        put(16, &1500u32.to_ne_bytes());
        put(20, &(TP_STATUS_LOSING | TP_STATUS_VLAN_VALID).to_ne_bytes());
        put(24, &82u16.to_ne_bytes());
        put(32, &9u32.to_ne_bytes());
        put(HEADER + 2, &[0x08, 0x00]);
        put(HEADER + 10, &[4, 6]);
        put(82, bytes);
    }

    #[test]
    fn a_block_is_read_frame_by_frame() {
        let mut block = vec![0; 1024];
        block[12..16].copy_from_slice(&2u32.to_ne_bytes());
        block[16..20].copy_from_slice(&48u32.to_ne_bytes());
        frame(&mut block, 48, 128, b"one");
        frame(&mut block, 176, 0, b"three");
        let mut seen = Vec::new();
        walk(&block, |frame| {
            assert_eq!((frame.time, frame.length, frame.kind, frame.protocol), (7_000_000_005, 1500, 4, 0x800));
            assert!(frame.losing && frame.vlan == Some((0x8100, 9)) && frame.sender.len() == 6);
            seen.push(frame.bytes.to_vec());
        });
        assert_eq!(seen, [b"one".to_vec(), b"three".to_vec()]);
    }

    #[test]
    fn a_length_that_leaves_the_block_ends_the_walk() {
        for (offset, value) in [(48, u32::MAX), (48 + 12, 2000), (16, 1020), (16, u32::MAX)] {
            let mut block = vec![0; 1024];
            block[12..16].copy_from_slice(&u32::MAX.to_ne_bytes());
            block[16..20].copy_from_slice(&48u32.to_ne_bytes());
            frame(&mut block, 48, 128, b"one");
            block[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
            let mut seen = 0;
            walk(&block, |_| seen += 1);
            assert!(seen <= 1, "{offset} {value}");
        }
    }
}
