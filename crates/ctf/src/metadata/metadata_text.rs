//! The text in the bytes of a `metadata` file: plain text, or packets with parts of the text.
//!
//! Positions in the text are translated back to bytes of the file, so that a diagnostic names a
//! place that can be found with a hex editor.

use crate::error::MetadataError;
use crate::types::ByteOrder;
use std::ops::Range;

/// First bytes of a packet of packetised metadata, as a number.
const PACKET_MAGIC: u32 = 0x75D1_1D57;

/// Size in bytes of the header of such a packet in CTF 1.8.
const PACKET_HEADER: usize = 37;

/// Size in bytes of the header that CTF2-PMETA-1.0 describes, which states its own size. LTTng also
/// writes the shorter header before CTF 2 metadata.
const LONG_PACKET_HEADER: usize = 44;

/// The text of a metadata file.
pub(crate) struct MetadataText {
    /// The text. Invalid UTF-8 is replaced.
    pub text: String,
    /// Byte order of the packets; `None` if the file is plain text.
    pub order: Option<ByteOrder>,
    /// Bytes of the file behind the last packet that are not part of a packet. Empty if there are
    /// none.
    pub trailing: Range<usize>,
    /// The bytes of the text, if the text is not the same because of invalid UTF-8.
    replaced: Option<Vec<u8>>,
    /// For each packet the position of its part in the bytes of the text, and that in the file.
    parts: Vec<(usize, usize)>,
}

impl MetadataText {
    /// Extracts the text, without packet headers and padding.
    ///
    /// # Errors
    ///
    /// A packet that is damaged, cut off, or of an unknown form.
    pub fn read(bytes: &[u8]) -> Result<MetadataText, MetadataError> {
        let mut found =
            MetadataText { text: String::new(), order: packets_order(bytes), trailing: 0..0, replaced: None, parts: Vec::new() };
        let content = match found.order {
            None => bytes.to_vec(),
            Some(order) => found.join(bytes, order)?,
        };
        found.text = String::from_utf8(content).unwrap_or_else(|error| {
            let content = error.into_bytes();
            let text = String::from_utf8_lossy(&content).into_owned();
            found.replaced = Some(content);
            text
        });
        Ok(found)
    }

    /// Joins the content of the packets.
    fn join(&mut self, bytes: &[u8], order: ByteOrder) -> Result<Vec<u8>, MetadataError> {
        let word = |bytes: &[u8], offset: usize| {
            let bytes = *bytes.get(offset..)?.first_chunk()?;
            Some(if order == ByteOrder::Little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
        };
        let mut text = Vec::with_capacity(bytes.len());
        let mut rest = bytes;
        while !rest.is_empty() {
            let at = bytes.len() - rest.len();
            let wrong = |message: &str| MetadataError::whole(format!("packet at byte {at}: {message}"));
            let header = match rest.first_chunk::<PACKET_HEADER>() {
                // Without a complete header there is no text, and zeros are preallocated space: no
                // part of the text is lost.
                None if at > 0 => break,
                Some(_) if at > 0 && rest.iter().all(|byte| *byte == 0) => break,
                Some(header) => header,
                None => return Err(wrong("the header is cut off")),
            };
            if word(rest, 0) != Some(PACKET_MAGIC) {
                return Err(wrong("wrong magic number"));
            }
            if header[4..20] != bytes[4..20] {
                return Err(wrong("its uuid is not that of the packet before it"));
            }
            if header[32] != 0 || header[33] != 0 {
                return Err(wrong("compressed or encrypted metadata is not read"));
            }
            if header[34] != 0 {
                return Err(wrong("metadata with a checksum is not read"));
            }
            let begin = match header[35..] {
                // The number at byte 40 distinguishes the two headers: after the short one, these
                // bytes belong to the text, and no text contains them.
                [2, 0] if word(rest, 40) == Some(LONG_PACKET_HEADER as u32 * 8) => LONG_PACKET_HEADER,
                [1, 8] | [2, 0] => PACKET_HEADER,
                [major, minor] => return Err(wrong(&format!("metadata of version {major}.{minor} is not read, only 1.8 and 2.0"))),
                _ => return Err(wrong("the header is cut off")),
            };
            let size = |offset: usize| word(rest, offset).filter(|bits| bits % 8 == 0).map_or(0, |bits| bits as usize / 8);
            let (content, packet) = (size(24), size(28));
            if content < begin || packet < content {
                return Err(wrong("impossible sizes"));
            }
            self.parts.push((text.len(), at + begin));
            text.extend_from_slice(rest.get(begin..content).ok_or_else(|| wrong("the content is cut off"))?);
            rest = rest.get(packet..).unwrap_or(&[]);
        }
        self.trailing = bytes.len() - rest.len()..bytes.len();
        Ok(text)
    }

    /// Byte of the file at which the character at byte `position` of the text is located.
    pub fn byte(&self, position: usize) -> u64 {
        let position = match &self.replaced {
            None => position,
            Some(content) => before_replacement(content, position),
        };
        let part = self.parts.partition_point(|(begin, _)| *begin <= position).checked_sub(1);
        let (text, file) = part.and_then(|part| self.parts.get(part)).copied().unwrap_or((0, 0));
        (file + (position - text)) as u64
    }
}

/// The position in `content` of what is at `position` after invalid UTF-8 was replaced.
fn before_replacement(content: &[u8], position: usize) -> usize {
    let (mut before, mut after) = (0, 0);
    for chunk in content.utf8_chunks() {
        let valid = chunk.valid().len();
        if position < after + valid {
            break;
        }
        let invalid = chunk.invalid().len();
        let replacement = if invalid > 0 { char::REPLACEMENT_CHARACTER.len_utf8() } else { 0 };
        if position < after + valid + replacement {
            return before + valid;
        }
        before += valid + invalid;
        after += valid + replacement;
    }
    before + (position - after)
}

/// The byte order of packetised metadata; `None` if the metadata is plain text.
fn packets_order(bytes: &[u8]) -> Option<ByteOrder> {
    match *bytes.first_chunk::<4>()? {
        magic if u32::from_le_bytes(magic) == PACKET_MAGIC => Some(ByteOrder::Little),
        magic if u32::from_be_bytes(magic) == PACKET_MAGIC => Some(ByteOrder::Big),
        _ => None,
    }
}
