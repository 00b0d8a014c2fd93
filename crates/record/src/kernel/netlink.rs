//! Asks the kernel for all objects of a kind through rtnetlink(7), in this thread's network
//! namespace.
//!
//! An answer is either complete or an error. If a truncated answer were accepted, a missing object
//! would be mistaken for one that does not exist.

use std::ffi::CStr;
use std::io::{self, Error, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Longest accepted length of a single answer in bytes. The kernel sends several of them, one after
/// the other.
const ANSWER: usize = 64 << 10;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// Flag of an answer during which something changed, so that objects may be missing or present
/// twice.
const NLM_F_DUMP_INTR: u16 = 0x10;
/// Size of `struct nlmsghdr` in bytes.
pub const HEADER: usize = 16;

/// Function that gets the body of each message in the kernel's answer. It returns false to stop.
pub type Each<'a> = dyn FnMut(&[u8]) -> bool + 'a;

/// State after a part of an answer.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    More,
    Done,
    /// The rest cannot be parsed, or the kernel refused the request.
    Broken,
}

/// Opens a netlink socket in this thread's network namespace.
pub fn socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed; the result is checked below.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) };
    if fd < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sends a request and reads the whole answer. `body` is the number of bytes of the request after
/// the header, all of them 0. `each` gets the bytes after the header of each message of the kind
/// `answer`.
///
/// # Errors
///
/// [`ErrorKind::Interrupted`] if something changed while the kernel answered,
/// [`ErrorKind::InvalidData`] if the answer is incomplete, and errors of the socket.
pub fn ask(request: u16, body: usize, answer: u16, each: &mut Each<'_>) -> io::Result<()> {
    let socket = socket()?;
    let mut message = vec![0u8; HEADER + body];
    let length = message.len() as u32;
    message[0..4].copy_from_slice(&length.to_ne_bytes());
    message[4..6].copy_from_slice(&request.to_ne_bytes());
    message[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    // SAFETY: the buffer has the stated length.
    again(|| unsafe { libc::send(socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) })?;
    let mut bytes = vec![0u8; ANSWER];
    let mut changed = false;
    loop {
        // SAFETY: the buffer has the stated length. With MSG_TRUNC, the result is the length of the
        // whole message, even if it did not fit.
        let size = again(|| unsafe { libc::recv(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_TRUNC) })?;
        let said = bytes.get(..size).ok_or_else(|| Error::new(ErrorKind::InvalidData, "the kernel's answer is too long"))?;
        match parse(said, answer, &mut changed, each) {
            Next::More if size > 0 => {}
            Next::More | Next::Broken => return Err(Error::new(ErrorKind::InvalidData, "the kernel's answer ends early")),
            Next::Done if changed => return Err(Error::new(ErrorKind::Interrupted, "something changed while the kernel answered")),
            Next::Done => return Ok(()),
        }
    }
}

/// Repeats a call that was interrupted by a signal.
fn again(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        match usize::try_from(call()) {
            Ok(size) => return Ok(size),
            Err(_) => match Error::last_os_error() {
                error if error.kind() == ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

fn parse(mut messages: &[u8], answer: u16, changed: &mut bool, each: &mut Each<'_>) -> Next {
    while messages.len() >= HEADER {
        let length = word(messages, 0) as usize;
        let kind = half(messages, 4);
        if length < HEADER || length > messages.len() || kind == NLMSG_ERROR {
            return Next::Broken;
        }
        *changed |= half(messages, 6) & NLM_F_DUMP_INTR != 0;
        if kind == NLMSG_DONE || (kind == answer && !each(&messages[HEADER..length])) {
            return Next::Done;
        }
        messages = messages.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Next::More
}

/// Returns the value of the first attribute of this kind. The two highest bits of an attribute's
/// kind are flags.
pub fn attribute(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    while attributes.len() >= 4 {
        let length = usize::from(half(attributes, 0));
        let value = attributes.get(4..length)?;
        if half(attributes, 2) & 0x3fff == kind {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

/// Returns the NUL-terminated text in an attribute. `None` if the NUL is missing.
pub fn text(value: &[u8]) -> Option<String> {
    Some(CStr::from_bytes_until_nul(value).ok()?.to_string_lossy().into_owned())
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

/// Reads 32 bits at this offset. Panics beyond the end, so callers check the length before.
pub fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: u16 = 36;

    fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        let length = (HEADER + body.len()) as u32;
        let mut message = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 8], body].concat();
        message.resize(message.len().next_multiple_of(4), 0);
        message
    }

    fn read(bytes: &[u8]) -> (Next, bool, Vec<Vec<u8>>) {
        let (mut found, mut changed) = (Vec::new(), false);
        let next = parse(bytes, KIND, &mut changed, &mut |body| {
            found.push(body.to_vec());
            true
        });
        (next, changed, found)
    }

    #[test]
    fn truncated_answers_and_wrong_lengths_are_not_accepted() {
        let sound = message(KIND, 0, b"body");
        assert_eq!(read(&sound), (Next::More, false, vec![b"body".to_vec()]));
        for cut in 1..sound.len() {
            assert!(read(&sound[..cut]).2.is_empty());
        }
        assert_eq!(read(&sound[..HEADER]).0, Next::Broken);
        for lie in [0u32, 3, 15, u32::MAX] {
            let mut message = sound.clone();
            message[0..4].copy_from_slice(&lie.to_ne_bytes());
            assert_eq!(read(&message), (Next::Broken, false, vec![]));
        }
        assert_eq!(read(&message(NLMSG_ERROR, 0, &[0; 4])).0, Next::Broken);
        assert_eq!(read(&message(NLMSG_DONE, 0, &[0; 4])).0, Next::Done);
    }

    #[test]
    fn an_answer_during_which_something_changed_is_marked_as_such() {
        let both = [message(KIND, NLM_F_DUMP_INTR, b"one "), message(NLMSG_DONE, 0, &[0; 4])].concat();
        assert_eq!(read(&both), (Next::Done, true, vec![b"one ".to_vec()]));
    }

    #[test]
    fn attributes_with_wrong_lengths_end_the_search() {
        let sound = [&8u16.to_ne_bytes()[..], &0x8001u16.to_ne_bytes(), b"tbf\0"].concat();
        assert_eq!(attribute(&sound, 1).and_then(text), Some("tbf".to_owned()));
        assert_eq!((attribute(&sound, 2), attribute(&sound[..3], 1)), (None, None));
        for lie in [0u16, 1, 3, 9, u16::MAX] {
            let mut attributes = sound.clone();
            attributes[0..2].copy_from_slice(&lie.to_ne_bytes());
            assert_eq!(attribute(&attributes, 1), None);
        }
    }
}
