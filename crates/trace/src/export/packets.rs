//! Values in packet contexts that apply to all events of the packet. Each combination of names and
//! shapes of these values is a kind of packets.

use super::schema::Field;
use super::shape::{shapes, spread, Shape};
use crate::event::{Catalogue, Event};
use crate::value::{SharedValues, Value};
use longpole_ctf::OwnedValue;
use std::collections::HashMap;

/// Maximum number of kinds that are distinguished. The values of packets of further kinds are not
/// exported.
const MAX_KINDS: usize = 256;
/// Maximum number of labels of a kind that are exported.
const MAX_LABELS: usize = 1 << 12;

/// Kinds of packets, numbered from 1.
#[derive(Default)]
pub struct PacketKinds {
    kinds: Vec<PacketKind>,
    known: HashMap<(Vec<String>, Vec<u8>, Vec<Shape>), usize>,
}

pub struct PacketKind {
    pub fields: Vec<Field>,
    pub shapes: Vec<Shape>,
    room: usize,
}

impl PacketKinds {
    /// Returns the kind of an event's packet, or 0 if the packet has no values to export.
    pub fn of(&mut self, event: &Event<'_>, catalogue: &Catalogue) -> usize {
        let values: Vec<Value<'_>> = event.packet.iter().collect();
        let described = &catalogue.classes[event.class.0 as usize];
        let mut looks = Vec::new();
        if values.is_empty() || described.packet.len() != values.len() || shapes(&values, &[], false, &mut looks).is_err() {
            return 0;
        }
        let key = (described.packet.clone(), described.packet_bases.clone(), looks);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        if self.kinds.len() == MAX_KINDS {
            return 0;
        }
        let field = |(name, base): (&String, &u8)| Field { name: name.clone(), base: *base, ..Field::default() };
        let fields = key.0.iter().zip(&key.1).map(field).collect();
        self.kinds.push(PacketKind { fields, shapes: key.2.clone(), room: MAX_LABELS });
        self.known.insert(key, self.kinds.len());
        self.kinds.len()
    }

    pub fn get(&self, kind: usize) -> Option<&PacketKind> {
        self.kinds.get(kind.checked_sub(1)?)
    }

    /// Returns the values of a packet of this kind, one for each field.
    pub fn values(&mut self, kind: usize, values: &SharedValues) -> Vec<OwnedValue> {
        let mut out = Vec::new();
        let Some(PacketKind { fields, shapes, room }) = kind.checked_sub(1).and_then(|kind| self.kinds.get_mut(kind)) else { return out };
        for ((value, shape), field) in values.iter().flat_map(|values| values.iter()).zip(shapes).zip(fields) {
            let value = value.value();
            field.names.learn(&value, shape, room);
            spread(&value, shape, &mut out);
        }
        out
    }
}
