//! Names that a seed selects. They carry no meaning, so an analysis can only derive its result from
//! what it measured.

use crate::draw::Pick;

const MACHINES: &[&str] = &[
    "intake",
    "sorter",
    "packer",
    "weaver",
    "miller",
    "porter",
    "scribe",
    "broker",
    "courier",
    "drummer",
    "mason",
    "potter",
    "tanner",
    "cooper",
    "fuller",
    "glazier",
    "joiner",
    "sawyer",
    "turner",
    "brewer",
    "smith",
    "baker",
    "carver",
    "dyer",
    "farrier",
    "gilder",
    "hatter",
    "lorimer",
    "nailer",
    "pewterer",
    "quilter",
    "ropemaker",
    "saddler",
    "thatcher",
    "warper",
    "binder",
    "chandler",
    "draper",
    "engraver",
    "fletcher",
];

const STATES: &[&str] = &[
    "sift",
    "grind",
    "fold",
    "blend",
    "press",
    "trim",
    "etch",
    "rinse",
    "align",
    "stack",
    "weld",
    "polish",
    "shear",
    "braid",
    "score",
    "temper",
    "quench",
    "reel",
    "plait",
    "stitch",
    "hoist",
    "ladle",
    "skim",
    "knead",
    "prime",
    "solder",
    "rivet",
    "bevel",
    "groove",
    "inlay",
    "file rows",
    "mix::fine",
    "a b",
    "tally",
    "probe",
    "scan",
    "merge",
    "shuffle",
    "crop",
    "pad",
];

const QUEUES: &[&str] = &[
    "belt", "chute", "rack", "tray", "basin", "hopper", "trough", "siding", "ramp", "shelf", "crate", "spool", "bin", "vat", "gutter",
    "sluice", "cradle", "pallet", "drawer", "locker",
];

const HOSTS: &[&str] = &["alder", "birch", "cedar", "elm", "hazel", "larch", "maple", "rowan"];

/// A shuffled list of names. Each is dealt once; after that, they are dealt again with a number.
#[derive(Clone, Debug)]
pub struct Deck {
    names: Vec<String>,
    at: usize,
}

impl Deck {
    fn new(words: &[&str], pick: &mut Pick) -> Deck {
        let mut names: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        pick.shuffle(&mut names);
        Deck { names, at: 0 }
    }

    pub fn deal(&mut self) -> String {
        let name = &self.names[self.at % self.names.len()];
        self.at += 1;
        match (self.at - 1) / self.names.len() {
            0 => name.clone(),
            again => format!("{name} {}", again + 1),
        }
    }
}

/// Lists of names per kind of part.
#[derive(Clone, Debug)]
pub struct Names {
    pub machines: Deck,
    pub states: Deck,
    pub queues: Deck,
    pub hosts: Deck,
}

impl Names {
    pub fn new(pick: &mut Pick) -> Names {
        Names {
            machines: Deck::new(MACHINES, pick),
            states: Deck::new(STATES, pick),
            queues: Deck::new(QUEUES, pick),
            hosts: Deck::new(HOSTS, pick),
        }
    }
}
