//! The pages of one CPU in a trace.dat (or the text of a tracer) as a byte source: in place, or in compressed chunks.

use std::io::{self, Read};

use super::parts::MAX_PART;
use super::{Extent, Method, ReadAt};
use crate::error::DatErrorKind;
use crate::page::ByteOrder;

/// A chunk is what trace-cmd packs at once, some ten pages; the limit bounds memory, not the format.
pub(super) const MAX_CHUNK: u64 = 64 << 20;
/// Of the chunks of all CPUs together, each of which has one in memory.
pub(super) const ALL_CHUNKS: u64 = 256 << 20;

/// Reads a CPU's pages in order.
#[derive(Debug)]
pub struct CpuReader<S> {
    source: S,
    order: ByteOrder,
    at: u64,
    end: u64,
    compressed: Option<Method>,
    /// Chunks left; none before the count was read.
    chunks: Option<u32>,
    /// Bytes that may come out of one.
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

    /// Decompresses the next chunk; false at the end.
    fn chunk(&mut self, method: Method) -> io::Result<bool> {
        let left = match self.chunks {
            None if self.at >= self.end => return Ok(false),
            None => {
                // The stated size leaves out the count itself, so the file's end bounds what follows.
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
            // A table that points behind the file's end describes what was not written: the pages simply end.
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

/// What comes out is what the bytes give, never more than `plain` and one byte, which is an error.
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
