//! Decoding as many events at once as a container holds: into [columns](crate::decoder::batch), or
//! their [headers](crate::decoder::header_batch) only.

use std::sync::Arc;

use super::{window, State, Step, StreamDecoder, NO_ID};
use crate::bits::align_up;
use crate::clock::extend;
use crate::decoder::batch::{Batch, Gather, Run};
use crate::decoder::header_batch::Headers;
use crate::decoder::source::Source;
use crate::error::DecodeError;
use crate::metadata::{FastClass, StreamPlan};

/// A container to which the decoder adds events of fixed layout together. Their fields are read
/// later, by [`Gather::take`].
trait Locate: Gather {
    fn locate<S: Source>(&mut self, decoder: &mut StreamDecoder<S>, stream: &StreamPlan);
}

impl Locate for Batch {
    fn locate<S: Source>(&mut self, decoder: &mut StreamDecoder<S>, stream: &StreamPlan) {
        decoder.locate_fixed_events(stream, self);
    }
}

impl Locate for Headers {
    fn locate<S: Source>(&mut self, decoder: &mut StreamDecoder<S>, stream: &StreamPlan) {
        decoder.locate_headers(stream, self);
    }
}

impl<S: Source> StreamDecoder<S> {
    /// Like [`advance`](Self::advance), but [`Step::Event`] represents all events in `batch`: those
    /// of the packet, or a part of them if there are many.
    pub fn advance_batch(&mut self, batch: &mut Batch) -> Result<Option<Step>, Box<DecodeError>> {
        self.advance_many(batch)
    }

    /// Like [`advance_batch`](Self::advance_batch), but decodes only classes and times, which is
    /// the fastest way through a stream.
    pub fn advance_headers(&mut self, headers: &mut Headers) -> Result<Option<Step>, Box<DecodeError>> {
        self.advance_many(headers)
    }

    fn advance_many<G: Locate>(&mut self, events: &mut G) -> Result<Option<Step>, Box<DecodeError>> {
        if let Some(error) = self.waiting.take() {
            return Err(error);
        }
        loop {
            let Some(stream) = self.stream.clone().filter(|_| self.state == State::Events && self.at < self.packet.content_bits) else {
                return self.between();
            };
            events.begin(&stream, self.packet.stream);
            let step = self.fill(&stream, events);
            events.finish(&stream.converter);
            match step {
                Ok(step) if events.len() == 0 && step.is_some() => return Ok(step),
                Ok(_) => {}
                Err(error) if events.len() == 0 => return Err(error),
                Err(error) => self.waiting = Some(error),
            }
            if events.len() > 0 {
                return Ok(Some(Step::Event));
            }
        }
    }

    /// Decodes events until `events` is full or the packet ends. If there was no event at all,
    /// returns the step at the end of the packet.
    fn fill<G: Locate>(&mut self, stream: &Arc<StreamPlan>, events: &mut G) -> Result<Option<Step>, Box<DecodeError>> {
        loop {
            events.locate(self, stream);
            if self.at >= self.packet.content_bits || events.is_full() {
                events.take(window(&self.source, self.packet.offset).bytes);
                return Ok(None);
            }
            if let Err(stop) = self.decode_event() {
                // `event_stopped` may move the window, after which the bytes of the pushed events
                // are gone.
                events.take(window(&self.source, self.packet.offset).bytes);
                if self.event_stopped(stop)?.is_none() {
                    // Only padding is left.
                    if events.len() == 0 {
                        return Ok(Some(self.end_packet()));
                    }
                    self.at = self.packet.content_bits;
                    return Ok(None);
                }
            }
            // Near the end of the window an event of fixed layout is decoded individually; the
            // fields of those before it must be read first, to keep the order.
            if events.awaits(self.class) {
                events.take(window(&self.source, self.packet.offset).bytes);
            }
            events.push(&self.event());
        }
    }

    /// Repeats [`decode_fast`](Self::decode_fast) until it fails. The events are located, but their
    /// fields are not read.
    #[inline(never)]
    fn locate_fixed_events(&mut self, stream: &StreamPlan, events: &mut Batch) {
        let Some(header) = &stream.fast_header else { return };
        let window = window(&self.source, self.packet.offset);
        let (mut at, mut clock) = (self.at, self.clock);
        let mut run = Run::default();
        let (mut last_id, mut last) = (self.last_id, self.last_class);
        let before = events.len();
        while events.len() + run.len() < Batch::MAX_EVENTS {
            let begin = align_up(at, header.align);
            let index = window.index(begin);
            let (Some(id), Some(time)) = (header.id.high(window.bytes, index), header.time.high(window.bytes, index)) else { break };
            let id = header.id.unsigned(id);
            let again = id == last_id;
            if !again {
                let Some(found) = stream.ids.fast_class(id).filter(|_| header.ids.contains(&id)) else { break };
                events.push_run(last.index, &mut run);
                (last_id, last) = (id, found);
            }
            let FastClass { index: class, align, bits } = last;
            let payload = align_up(begin + header.bits, align);
            let end = payload + bits;
            if end > self.limit {
                break;
            }
            at = end;
            clock = extend(clock, header.time.unsigned(time), header.time_mask);
            run.push(window.index(payload) as u32, clock);
            if again {
                // While the class stays the same and the distance between events is a multiple of
                // their alignment, only the time of an event depends on the event before it.
                let stride = align_up(end, header.align) - begin;
                if stride & (u64::from(header.align.max(align).max(8)) - 1) == 0 {
                    let bytes = stride as usize / 8;
                    let (mut index, mut payload) = (index, window.index(payload));
                    for _ in 0..run.room().min((Batch::MAX_EVENTS - run.len()).saturating_sub(events.len())) {
                        (index, payload) = (index.wrapping_add(bytes), payload.wrapping_add(bytes));
                        let (Some(next), Some(time)) = (header.id.high(window.bytes, index), header.time.high(window.bytes, index)) else {
                            break;
                        };
                        if header.id.unsigned(next) != id || at + stride > self.limit {
                            break;
                        }
                        at += stride;
                        clock = extend(clock, header.time.unsigned(time), header.time_mask);
                        run.push(payload as u32, clock);
                    }
                }
            }
            if run.room() == 0 {
                events.push_run(class, &mut run);
            }
        }
        events.push_run(last.index, &mut run);
        (self.at, self.clock, self.last_id, self.last_class) = (at, clock, last_id, last);
        self.event_index += (events.len() - before) as u64;
    }

    /// Reads the headers of events of fixed layout until an event has another one, or until there
    /// is no room.
    #[inline(never)]
    fn locate_headers(&mut self, stream: &StreamPlan, headers: &mut Headers) {
        let Some(header) = &stream.fast_header else { return };
        let window = window(&self.source, self.packet.offset);
        let (mut at, mut clock, limit) = (self.at, self.clock, self.limit);
        let mut last_id = NO_ID;
        let (classes, all_cycles) = headers.room();
        let room = classes.len().min(all_cycles.len());
        let mut count = 0;
        while count < room {
            let begin = align_up(at, header.align);
            let index = window.index(begin);
            let (Some(id), Some(time)) = (header.id.high(window.bytes, index), header.time.high(window.bytes, index)) else { break };
            let id = header.id.unsigned(id);
            let Some(FastClass { index: class, align, bits }) = stream.ids.fast_class(id).filter(|_| header.ids.contains(&id)) else {
                break;
            };
            let end = align_up(begin + header.bits, align) + bits;
            if end > limit {
                break;
            }
            at = end;
            clock = extend(clock, header.time.unsigned(time), header.time_mask);
            (classes[count], all_cycles[count]) = (class as u32, clock);
            count += 1;
            if id == std::mem::replace(&mut last_id, id) {
                // Events of one class follow each other, so the next one probably has it, too. If
                // the distance between them is constant, its begin is known without its id.
                let stride = align_up(end, header.align) - begin;
                if stride & (u64::from(header.align.max(align).max(8)) - 1) == 0 {
                    let (mut index, bytes) = (index, stride as usize / 8);
                    while count < room {
                        index = index.wrapping_add(bytes);
                        let (Some(next), Some(time)) = (header.id.high(window.bytes, index), header.time.high(window.bytes, index)) else {
                            break;
                        };
                        if header.id.unsigned(next) != id || at + stride > limit {
                            break;
                        }
                        at += stride;
                        clock = extend(clock, header.time.unsigned(time), header.time_mask);
                        (classes[count], all_cycles[count]) = (class as u32, clock);
                        count += 1;
                    }
                }
            }
        }
        headers.add(count);
        (self.at, self.clock) = (at, clock);
        self.event_index += count as u64;
    }
}
