//! What packets say of all their events: each look that this has makes another kind of packets.

use super::schema::Field;
use super::shape::{shapes, spread, Shape};
use crate::event::{Catalogue, Event};
use crate::value::{SharedValues, Value};
use longpole_ctf::OwnedValue;
use std::collections::HashMap;

/// Kinds that are told apart; of packets beyond that it is not kept what they say.
const MOST_KINDS: usize = 256;
/// Labels of a kind that are kept.
const MOST_LABELS: usize = 1 << 12;

/// See the module.
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
    /// The number of the kind of an event's packet, from 1; 0 where it says nothing that is kept.
    pub fn of(&mut self, event: &Event<'_>, catalogue: &Catalogue) -> usize {
        let values: Vec<Value<'_>> = event.packet.iter().collect();
        let told = &catalogue.classes[event.class.0 as usize];
        let mut looks = Vec::new();
        if values.is_empty() || told.packet.len() != values.len() || shapes(&values, &[], false, &mut looks).is_err() {
            return 0;
        }
        let key = (told.packet.clone(), told.packet_bases.clone(), looks);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        if self.kinds.len() == MOST_KINDS {
            return 0;
        }
        let field = |(name, base): (&String, &u8)| Field { name: name.clone(), base: *base, ..Field::default() };
        let fields = key.0.iter().zip(&key.1).map(field).collect();
        self.kinds.push(PacketKind { fields, shapes: key.2.clone(), room: MOST_LABELS });
        self.known.insert(key, self.kinds.len());
        self.kinds.len()
    }

    pub fn get(&self, kind: usize) -> Option<&PacketKind> {
        self.kinds.get(kind.checked_sub(1)?)
    }

    /// What a packet of this kind says, one value for each field.
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
