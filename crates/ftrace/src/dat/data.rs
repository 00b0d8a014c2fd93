//! The pages of one CPU in a trace.dat (or the text of a tracer) as a byte source: directly from
//! the file, or from compressed chunks.

use std::io::{self, Read};

use super::parts::MAX_PART;
use super::{Extent, Method, ReadAt};
use crate::byte_order::ByteOrder;
use crate::error::DatErrorKind;

/// Maximum size of a decompressed chunk in bytes. trace-cmd compresses some ten pages at once; the
/// limit bounds memory and is not part of the format.
pub(super) const MAX_CHUNK: u64 = 64 << 20;
/// Maximum size of the chunks of all CPUs together; each CPU has one chunk in memory.
pub(super) const ALL_CHUNKS: u64 = 256 << 20;

/// Reads the pages of a CPU in order.
#[derive(Debug)]
pub struct CpuReader<S> {
    source: S,
    order: ByteOrder,
    at: u64,
    end: u64,
    compressed: Option<Method>,
    /// Number of chunks left; `None` before the number was read.
    chunks: Option<u32>,
    /// Maximum size of a decompressed chunk in bytes.
    most: u64,
    plain: Vec<u8>,
    taken: usize,
}

impl<S: ReadAt> CpuReader<S> {
    pub(super) fn new(source: S, data: &Extent, order: ByteOrder, most: u64) -> CpuReader<S> {
        let end = data.offset.saturating_add(data.size);
        CpuReader { source, order, at: data.offset, end, compressed: data.compressed, chunks: None, most, plain: Vec::new(), taken: 0 }
    }

    fn u32(&mut self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        if self.end.saturating_sub(self.at) < 4 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.source.read_exact_at(&mut bytes, self.at)?;
        self.at += 4;
        Ok(self.order.unsigned(&bytes).unwrap_or(0) as u32)
    }

    /// Decompresses the next chunk; returns `false` at the end.
    fn chunk(&mut self, method: Method) -> io::Result<bool> {
        let left = match self.chunks {
            None if self.at >= self.end => return Ok(false),
            None => {
                // The stated size does not include the number of chunks, so the end of the file is
                // used as the limit.
                self.end = self.source.size()?;
                self.u32()?
            }
            Some(left) => left,
        };
        if left == 0 {
            self.chunks = Some(0);
            return Ok(false);
        }
        self.chunks = Some(left - 1);
        let (packed, plain) = (self.u32()?, self.u32()?);
        if u64::from(packed) > self.end.saturating_sub(self.at) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if u64::from(plain) > self.most {
            let error = DatErrorKind::TooLong { length: plain.into(), limit: self.most };
            return Err(io::Error::new(io::ErrorKind::InvalidData, error.to_string()));
        }
        let mut bytes = vec![0; packed as usize];
        self.source.read_exact_at(&mut bytes, self.at)?;
        self.at += u64::from(packed);
        self.plain = decompress(method, &bytes, plain.into()).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
        self.taken = 0;
        Ok(true)
    }
}

impl<S: ReadAt> Read for CpuReader<S> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let Some(method) = self.compressed else {
            // If a table refers to data beyond the end of the file, the data was not written: the
            // pages simply end.
            let end = self.end.min(self.source.size()?);
            let count = (out.len() as u64).min(end.saturating_sub(self.at)) as usize;
            self.source.read_exact_at(&mut out[..count], self.at)?;
            self.at += count as u64;
            return Ok(count);
        };
        while self.taken == self.plain.len() {
            if !self.chunk(method)? {
                return Ok(0);
            }
        }
        let count = out.len().min(self.plain.len() - self.taken);
        out[..count].copy_from_slice(&self.plain[self.taken..][..count]);
        self.taken += count;
        Ok(count)
    }
}

/// Decompresses `packed`, which must yield exactly `plain` bytes. Never produces more than one byte
/// beyond that.
pub fn decompress(method: Method, packed: &[u8], plain: u64) -> Result<Vec<u8>, DatErrorKind> {
    if plain > MAX_PART {
        return Err(DatErrorKind::TooLong { length: plain, limit: MAX_PART });
    }
    let damaged = |e: String| DatErrorKind::Damaged(e);
    let out = match method {
        Method::Zlib => {
            miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(packed, plain as usize + 1).map_err(|e| damaged(e.to_string()))?
        }
        Method::Zstd => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(packed).map_err(|e| damaged(e.to_string()))?;
            let mut out = Vec::new();
            decoder.take(plain + 1).read_to_end(&mut out).map_err(|e| damaged(e.to_string()))?;
            out
        }
    };
    if out.len() as u64 != plain {
        return Err(damaged(format!("{} bytes came out instead of {plain}", out.len())));
    }
    Ok(out)
}
