//! A thread reaches its first probe while the table of its process is locked, as it is if another
//! thread stops in the middle of its first probe.

use crate::support::commanded::{counted, description};
use crate::support::place::{ok, Place};

#[test]
fn a_thread_that_gave_up_waiting_for_the_table_does_not_block_later_threads() {
    let place = Place::new();
    let program = place.build("contended", &[]);
    ok(place.longpole(&["record", "--", &program]).output().unwrap());
    let recording = place.newest();
    let marks = ["first", "meanwhile", "afterwards"].map(|name| counted(&recording, &format!("mark:{name}")).0);
    assert_eq!(marks, [1, 0, 1]);
    assert_eq!(description(&recording)["loss"]["refused"], 1, "and that one is counted");
}
