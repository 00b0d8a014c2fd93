//! Events with fields of every type: those that `tests/programs/typed.cc` records from C++, as far
//! as both languages have them.
use longpole_probe::{self as longpole, Enumeration};

#[derive(Clone, Copy)]
enum Colour {
    Red = -1,
    Green = 5,
    Nameless = 7,
}

fn main() {
    let samples: Vec<i16> = vec![-1, 2, 32767];
    let reals = [0.5, -1e300];
    let none: [u64; 0] = [];
    let many: Vec<u32> = (0..5000u32).map(|i| i.wrapping_mul(i)).collect();
    longpole::event!("ranges", samples = samples, reals = reals, none = none, last = "end");
    longpole::event!("pointers", part = &many[1..4], number = u64::MAX);
    for colour in [Colour::Red, Colour::Green, Colour::Nameless] {
        let number = colour as i64;
        let named = Enumeration::new(number, "red=-1;dark green=5");
        longpole::event!("colour", as_ = named, bad = Enumeration::new(number, "red="));
    }
    // The array is cut where the event is full, and no room is left for the text after it.
    longpole::event!("cut", many = many, many_length = 3, text = "behind");
    longpole::event!("narrow", signed = [-1i8, 1], single = [1.5f32, -0.25], text = "end");
}
