//! Threads that come to their first probe while another one of their program stands still in the middle of the same.

#[path = "support/commanded.rs"]
mod commanded;
#[path = "support/place.rs"]
mod place;

use commanded::{counted, description};
use place::{ok, Place};

#[test]
fn who_gave_up_waiting_for_the_table_keeps_nobody_from_it_once_it_is_free() {
    let place = Place::new();
    let program = place.build("contended", &[]);
    ok(place.longpole(&["record", "--", &program]).output().unwrap());
    let recording = place.newest();
    let marks = ["first", "meanwhile", "afterwards"].map(|name| counted(&recording, &format!("mark:{name}")).0);
    assert_eq!(marks, [1, 0, 1]);
    assert_eq!(description(&recording)["loss"]["refused"], 1, "and that one is told");
}
