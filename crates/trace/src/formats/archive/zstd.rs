//! A zstd stream: a sequence of frames, as parallel writers create them, including frames to be
//! skipped.

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::error::Error;
use std::io::{self, BufRead, Read};

/// Largest window in bytes, which is the memory that unpacking needs. `zstd --long` uses this size.
const MAX_WINDOW: u64 = 128 << 20;

pub struct Frames<R> {
    input: R,
    decoder: FrameDecoder,
    within: bool,
}

impl<R: BufRead> Frames<R> {
    pub fn new(input: R) -> Frames<R> {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MAX_WINDOW);
        Frames { input, decoder, within: false }
    }

    /// Begins the next frame. Returns false if there is none.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.input.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.input) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let skipped = io::copy(&mut self.input.by_ref().take(length.into()), &mut io::sink())?;
                    if skipped < length.into() {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(plainly(&error)),
            }
        }
        Ok(false)
    }
}

/// Returns the innermost error, because the outer ones only add names of types.
fn plainly(error: &FrameDecoderError) -> io::Error {
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    match cause.downcast_ref::<io::Error>() {
        Some(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => io::Error::new(cause.kind(), "zstd's data end inside a frame"),
        Some(cause) => io::Error::new(cause.kind(), cause.to_string()),
        None => io::Error::other(format!("zstd's data are damaged: {cause}")),
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.within {
                if !self.begin()? {
                    return Ok(0);
                }
                self.within = true;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder.decode_blocks(&mut self.input, BlockDecodingStrategy::UptoBlocks(1)).map_err(|error| plainly(&error))?;
            }
            match self.decoder.read(into)? {
                0 => self.within = false,
                count => return Ok(count),
            }
        }
    }
}
