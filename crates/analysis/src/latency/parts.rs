//! The parts of a latency by name. There are few parts but very many latencies, so the parts are
//! stored as a slice without spare capacity.

use crate::latency::Part;
use serde::{Serialize, Serializer};

/// The parts by name, in the order in which they are shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts(Box<[(&'static str, Part)]>);

impl Parts {
    pub fn get(&self, name: &str) -> Option<&Part> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, part)| part)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(&'static str, Part)> for Parts {
    fn from_iter<I: IntoIterator<Item = (&'static str, Part)>>(parts: I) -> Parts {
        Parts(parts.into_iter().collect())
    }
}

impl<const N: usize> From<[(&'static str, Part); N]> for Parts {
    fn from(parts: [(&'static str, Part); N]) -> Parts {
        parts.into_iter().collect()
    }
}

impl Serialize for Parts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, part)| (name, part)))
    }
}
