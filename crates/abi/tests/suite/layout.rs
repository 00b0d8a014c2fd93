//! The C view and the Rust view of the shared memory are the same.

use longpole_abi::*;
use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

/// Rust's view as text, and the C program that prints the view of C.
struct Views {
    rust: String,
    c: String,
}

macro_rules! structure {
    ($views:ident, $structure:ident, $name:literal, $($field:ident),*) => {
        writeln!($views.rust, "{} {}", $name, size_of::<$structure>()).unwrap();
        writeln!($views.c, "printf(\"%s %zu\\n\", \"{0}\", sizeof(struct {0}));", $name).unwrap();
        $(
            writeln!($views.rust, "{}.{} {}", $name, stringify!($field), offset_of!($structure, $field)).unwrap();
            writeln!($views.c, "printf(\"%s.%s %zu\\n\", \"{0}\", \"{1}\", offsetof(struct {0}, {1}));", $name, stringify!($field)).unwrap();
        )*
    };
}

macro_rules! constant {
    ($views:ident, $name:literal, $value:expr) => {
        writeln!($views.rust, "{} {}", $name, ($value) as u64).unwrap();
        writeln!($views.c, "printf(\"%s %llu\\n\", \"{0}\", (unsigned long long)({0}));", $name).unwrap();
    };
}

#[test]
fn the_c_and_rust_views_of_the_shared_memory_are_equal_byte_for_byte() {
    let mut views = Views { rust: String::new(), c: String::new() };
    structure!(views, Orders, "longpole_orders", mask, mode, ring_size, snaplen, clock, block_limit, session, spare);
    structure!(views, Session, "longpole_session", orders, magic, version, recorder, path);
    structure!(
        views,
        Control,
        "longpole_control",
        orders,
        magic,
        version,
        pid,
        birth,
        process,
        rings,
        refused,
        refused_errno,
        label_version,
        label,
        executable,
        scope
    );
    structure!(
        views,
        Ring,
        "longpole_ring",
        head,
        limit,
        mask,
        last,
        lost,
        busy,
        spare_byte,
        nested,
        packets,
        second_spare_byte,
        state,
        events,
        tail,
        pending_tail,
        pending_offset,
        lost_reported,
        lane,
        successor,
        session,
        pending_lost,
        pending_discarded,
        magic,
        version,
        number,
        size,
        subbuffer,
        pid,
        tid,
        clock,
        nested_lost,
        thread,
        mode,
        block_limit,
        gave_up,
        waited,
        taken,
        end,
        unused,
        side,
        rest
    );
    structure!(views, Subbuffer, "longpole_subbuffer", begin, content, lost, position, pid, tid, thread, events, unused, last);
    structure!(views, Sites, "longpole_sites", magic, version, used, arena_next, arena_size, unused, slots);
    structure!(views, SiteEntry, "longpole_site", size, kind, name_size, fields_size, file_size, attributes_size, reserved, line, hash);
    constant!(views, "LONGPOLE_ABI_MAGIC", MAGIC);
    constant!(views, "LONGPOLE_ABI_VERSION", VERSION);
    constant!(views, "LONGPOLE_CONTROL_SIZE", CONTROL_SIZE);
    constant!(views, "LONGPOLE_FIRST_SITE_ID", FIRST_SITE_ID);
    constant!(views, "LONGPOLE_RING_DATA", RING_DATA);
    constant!(views, "LONGPOLE_SIDE_ENTRIES", SIDE_ENTRIES);
    constant!(views, "LONGPOLE_RING_SUBBUFFERS", RING_SUBBUFFERS);
    constant!(views, "LONGPOLE_RING_MINIMUM", RING_MINIMUM);
    constant!(views, "LONGPOLE_SUBBUFFER_HEADER", SUBBUFFER_HEADER);
    constant!(views, "LONGPOLE_RING_OWNED", RING_OWNED);
    constant!(views, "LONGPOLE_RING_IDLE", RING_IDLE);
    constant!(views, "LONGPOLE_RING_ENDED", RING_ENDED);
    constant!(views, "LONGPOLE_SITE_SLOTS", SITE_SLOTS);
    constant!(views, "LONGPOLE_SITE_ATTEMPTS", SITE_ATTEMPTS);
    constant!(views, "LONGPOLE_SITE_ARENA_STEP", SITE_ARENA_STEP);
    constant!(views, "LONGPOLE_SITE_ARENA_MAXIMUM", SITE_ARENA_MAXIMUM);
    constant!(views, "LONGPOLE_NAME_MAXIMUM", NAME_MAXIMUM);
    constant!(views, "LONGPOLE_FIELDS_MAXIMUM", FIELDS_MAXIMUM);
    constant!(views, "LONGPOLE_MODE_OVERWRITE", MODE_OVERWRITE);
    constant!(views, "LONGPOLE_MODE_BLOCK", MODE_BLOCK);
    constant!(views, "LONGPOLE_CLOCK_MONO_RAW", CLOCK_MONO_RAW);
    for category in kind::Category::ALL {
        let name = format!("LONGPOLE_CATEGORY_{}", category.name().to_uppercase());
        writeln!(views.rust, "{name} {}", category.bit()).unwrap();
        writeln!(views.c, "printf(\"%s %llu\\n\", \"{name}\", (unsigned long long)({name}));").unwrap();
    }
    for kind in Kind::ALL {
        let name = format!("LONGPOLE_KIND_{}", kind.name().to_uppercase());
        writeln!(views.rust, "{name} {}", *kind as u16).unwrap();
        writeln!(views.c, "printf(\"%s %llu\\n\", \"{name}\", (unsigned long long)({name}));").unwrap();
    }

    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let folder = std::env::temp_dir().join(format!("longpole-layout-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, program) = (folder.join("layout.c"), folder.join("layout"));
    let text = format!("#include <longpole/abi.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {{\n{}return 0; }}\n", views.c);
    std::fs::write(&source, text).unwrap();
    let built = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(include)
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let printed = Command::new(&program).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(String::from_utf8_lossy(&printed.stdout), views.rust);
    assert_eq!(size_of::<Ring>(), RING_DATA);
    assert_eq!(size_of::<Subbuffer>() as u64, SUBBUFFER_HEADER);
}
