//! Decodes the header and context of a packet: which stream it belongs to, its size, times and
//! counters.

use super::{first_beyond, window, StreamDecoder, NO_ID};
use crate::clock::{extend, low_bits};
use crate::decoder::source::Source;
use crate::error::{DecodeError, DecodeErrorKind};
use crate::metadata::{FastClass, Metadata, StreamPlan};
use crate::packet::Packet;
use crate::plan::exec::{Executor, PacketRoleValues, RoleValues, Stop};
use crate::plan::packet_signature::MAGIC;
use crate::plan::Block;
use crate::types::ByteOrder;
use crate::value::{Located, Value, Values};

impl<S: Source> StreamDecoder<S> {
    /// Fails in the header or context of a packet, after which the start of the next packet is
    /// unknown.
    fn fail_packet(&mut self, at: u64, kind: DecodeErrorKind) -> Box<DecodeError> {
        self.lose_packet();
        self.error(at, None, kind)
    }

    /// Decodes the header and context of the packet at byte `next`.
    pub(super) fn begin_packet(&mut self) -> Result<(), Box<DecodeError>> {
        let offset = self.next;
        let available = self.data_end - offset;
        self.packet = Packet {
            index: self.next_index,
            offset,
            content_bits: available.saturating_mul(8),
            packet_bits: available.saturating_mul(8),
            ..Packet::default()
        };
        self.next_index += 1;
        self.at = 0;
        self.event_index = 0;
        self.partial = None;
        self.lost = false;
        self.last = ByteOrder::Little;
        self.records.clear();
        self.load(offset, available.min(1 << 12))?;
        // The file may have shrunk in the meantime.
        self.packet.content_bits = self.data_end.saturating_sub(offset).saturating_mul(8);
        self.packet.packet_bits = self.packet.content_bits;
        self.set_limit();

        let metadata = self.metadata.clone();
        let role_values = self.block(&metadata.plan.packet_header)?;
        self.read_header(&metadata, role_values.packet)?;
        let Some(stream) = metadata.plan.streams.get(self.packet.stream) else { return Ok(()) };
        self.stream = Some(stream.clone());
        (self.last_id, self.last_class) = (NO_ID, FastClass::NONE);
        let role_values = self.block(&stream.packet_context)?;
        self.read_context(stream, role_values)?;
        self.set_limit();
        self.next = offset.saturating_add(self.packet.packet_bits / 8);
        self.unreadable = 0;
        Ok(())
    }

    /// Runs a block of the packet's header or context, and returns the values of its fields with
    /// roles.
    fn block(&mut self, block: &Block) -> Result<RoleValues, Box<DecodeError>> {
        loop {
            self.records.clear();
            let from = self.at;
            let mut x = Executor {
                window: window(&self.source, self.packet.offset),
                at: self.at,
                limit: self.limit,
                last: self.last,
                marks: &mut self.marks,
                slots: &mut self.slots,
                records: &mut self.records,
                role_values: RoleValues::new(self.clock),
            };
            let result = x.run(&block.ops);
            let (at, last, role_values) = (x.at, x.last, x.role_values);
            match result {
                Ok(()) => {
                    (self.at, self.last) = (at, last);
                    return Ok(role_values);
                }
                Err(stop) => {
                    if let Stop::Limit { at, bits, .. } = stop {
                        if self.more(from, at.saturating_add(bits))? {
                            continue;
                        }
                    }
                    self.lose_packet();
                    return Err(self.error_of(first_beyond(stop, &block.fields, self.limit), None));
                }
            }
        }
    }

    /// The values of the block that was run last.
    fn values<'b>(&'b self, block: &'b Block) -> Values<'b> {
        let located = Located { window: window(&self.source, self.packet.offset), marks: &self.marks, records: &self.records };
        Values { located, fields: block.fields.iter() }
    }

    fn read_header(&mut self, metadata: &Metadata, role_values: PacketRoleValues) -> Result<(), Box<DecodeError>> {
        if let Some(found) = role_values.magic.filter(|magic| *magic != MAGIC) {
            return Err(self.fail_packet(0, DecodeErrorKind::BadMagic { found }));
        }
        if let (Some(index), Some(wanted)) = (metadata.plan.uuid, metadata.trace.uuid) {
            let other = match self.values(&metadata.plan.packet_header).nth(index) {
                Some(Value::Bytes(uuid)) => <[u8; 16]>::try_from(uuid).ok().filter(|uuid| *uuid != wanted),
                _ => None,
            };
            if other.is_some() && self.strict {
                return Err(self.fail_packet(0, DecodeErrorKind::WrongUuid));
            }
            self.packet.other_uuid = other.is_some();
            self.other_uuid = other.or(self.other_uuid);
        }
        self.packet.stream_instance = role_values.stream_instance;
        let only = || (metadata.streams.len() == 1).then_some(0);
        let found = match role_values.stream_id {
            Some(id) => metadata.plan.by_id.get(&id).copied(),
            None => metadata.plan.by_id.get(&0).copied().or_else(only),
        };
        match found {
            Some(stream) => {
                self.packet.stream = stream;
                Ok(())
            }
            None => {
                let id = role_values.stream_id.unwrap_or(0);
                Err(self.fail_packet(self.at, DecodeErrorKind::UnknownStream { id }))
            }
        }
    }

    fn read_context(&mut self, stream: &StreamPlan, role_values: RoleValues) -> Result<(), Box<DecodeError>> {
        let of_packet = role_values.packet;
        (self.clock, self.packet.begin) = (role_values.clock, role_values.time);
        // The end may also be a counter of few bits; it is at or after the start.
        self.packet.end = of_packet.end_time.map(|(value, bits)| extend(self.clock, value, low_bits(bits)));
        self.packet.begin_ns = self.packet.begin.map(|c| stream.converter.ns(c));
        self.packet.end_ns = self.packet.end.map(|c| stream.converter.ns(c));
        self.ns = stream.converter.ns(self.clock);
        if let Some((value, bits)) = of_packet.discarded {
            (self.packet.discarded, self.packet.discarded_bits) = (Some(value), bits);
        }
        if let Some((value, bits)) = of_packet.sequence {
            (self.packet.sequence, self.packet.sequence_bits) = (Some(value), bits);
        }
        self.packet.cpu_id = of_packet.cpu;
        let fields = &stream.packet_context.fields;
        let context = fields.iter().zip(self.values(&stream.packet_context)).map(|(f, v)| (f.name.clone(), v.to_owned())).collect();
        self.packet.context = context;

        let data = self.packet.content_bits;
        // If a packet records only its content size, the next packet begins at the next whole byte.
        if let Some(total) = of_packet.packet_size.or(of_packet.content_size.map(|bits| bits.saturating_add(7) & !7)) {
            let content = of_packet.content_size.unwrap_or(total);
            if total % 8 != 0 {
                return Err(self.fail_packet(self.at, DecodeErrorKind::UnalignedPacketSize { bits: total }));
            }
            if content > total {
                let kind = DecodeErrorKind::ContentBeyondPacket { content, packet: total };
                return Err(self.fail_packet(self.at, kind));
            }
            // A packet must hold at least the header and context just read; otherwise decoding
            // would never reach the end of the stream.
            if content < self.at || total == 0 {
                return Err(self.fail_packet(self.at, DecodeErrorKind::PacketTooSmall { bits: content }));
            }
            self.packet.sized = true;
            self.packet.content_bits = content;
            self.packet.packet_bits = total;
            self.packet.truncated = content > data;
        }
        Ok(())
    }
}
