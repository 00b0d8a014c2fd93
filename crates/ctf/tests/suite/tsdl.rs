//! The metadata language of CTF 1.8, clause by clause: what must be accepted, and what must be
//! rejected, with position and reason.

use longpole_ctf::{BytesSource, EnvValue, Metadata, Step, StreamDecoder};

const TRACE: &str = "/* CTF 1.8 */\ntrace { major = 1; minor = 8; byte_order = le; };\n";

const TYPES: &str = "typealias integer { size = 8; } := u8; typealias integer { size = 32; } := u32; typealias integer { size = 8; signed = true; } := i8;\n";

/// Metadata with these members in the payload of an event.
fn fields(members: &str) -> String {
    format!("{TRACE}{TYPES}event {{ name = e; fields := struct {{ {members} }}; }};")
}

fn after(text: &str) -> String {
    format!("{TRACE}{TYPES}{text}")
}

fn all_pass(cases: &[(&str, String)]) {
    let mut wrong = Vec::new();
    for (what, text) in cases {
        if let Err(error) = Metadata::from_text(text) {
            wrong.push(format!("{what}: {error}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Checks that each case fails with a message that contains the given text and underlines the given
/// part.
fn all_fail(cases: &[(&str, String, &str, &str)]) {
    let mut wrong = Vec::new();
    for (what, text, reason, place) in cases {
        match Metadata::from_text(text) {
            Ok(_) => wrong.push(format!("{what}: is read")),
            Err(error) => {
                let found = text.get(error.span.start..error.span.end).unwrap_or("?");
                if !error.message.contains(reason) || error.line == 0 || found != *place {
                    wrong.push(format!("{what}: {error}\n  at {found:?}, not {place:?}, and {reason:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn types_have_names_in_every_scope_and_form() {
    let at = |scope: &str, declaration: &str| match scope {
        "file" => after(&format!("{declaration} event {{ name = e; fields := struct {{ t a; }}; }};")),
        "trace" => format!("{TYPES}trace {{ {declaration} major = 1; minor = 8; byte_order = le; packet.header := struct {{ t a; }}; }};"),
        "stream" => after(&format!("stream {{ {declaration} packet.context := struct {{ t a; }}; }};")),
        "event" => after(&format!("event {{ {declaration} name = e; fields := struct {{ t a; }}; }};")),
        "struct" => fields(&format!("{declaration} t a;")),
        _ => fields(&format!("enum : u8 {{ a }} g; variant <g> {{ {declaration} t a; }} v;")),
    };
    let mut cases = Vec::new();
    for scope in ["file", "trace", "stream", "event", "struct", "variant"] {
        for declaration in [
            "typealias integer { size = 5; } := t;",
            "typealias u8 := t;",
            "typealias struct { u8 x; } := t;",
            "typealias enum : u8 { A } := t;",
            "typealias string { encoding = ASCII; } := t;",
            "typealias floating_point { exp_dig = 8; mant_dig = 24; } := t;",
            "typealias u8 [4] := t;",
            "typedef u8 t;",
            "typedef u8 t[4];",
            "typedef u8 other, t[2][3];",
            "typedef struct { u8 x; } t;",
            "typedef struct s { u8 x; } t;",
            "typedef enum : u8 { A } t;",
            "typedef integer { size = 3; } t;",
            "struct s { u8 x; }; typealias struct s := t;",
            "enum s : u8 { A }; typedef enum s t;",
        ] {
            cases.push((scope, at(scope, declaration)));
        }
    }
    all_pass(&cases);
}

#[test]
fn names_of_c_have_several_words_and_stars() {
    all_pass(&[
        ("words", after("typealias integer { size = 64; } := unsigned long long; event { name = e; fields := struct { unsigned long long x; }; };")),
        ("const", after("typealias integer { size = 64; } := unsigned long; event { name = e; fields := struct { const unsigned long x; unsigned const long y; }; };")),
        ("int", fields("typealias u32 := int; int a; enum { X, Y } b;")),
        ("pointer", fields("typealias integer { size = 64; base = 16; } := char *; char * a; char *b;")),
        ("pointer to pointer", fields("typealias integer { size = 64; } := void * *; void **a;")),
        ("const pointer", fields("typealias integer { size = 64; } := const char *; const char *a; const char * b;")),
        ("pointer to const", fields("typealias integer { size = 64; } := char * const *; char * const * a;")),
        ("pointer to a named type", fields("typealias integer { size = 64; } := u8 *; u8 *a;")),
        ("typedef of words", fields("typedef u32 unsigned_int; unsigned_int a;")),
        ("bool", fields("typealias integer { size = 8; } := _Bool; _Bool a;")),
        ("names of a lower scope hide", fields("typealias integer { size = 16; } := u8; u8 a; struct { typealias string := u8; u8 b; } s;")),
    ]);
}

#[test]
fn structures_variants_and_enumerations_are_declared_and_used() {
    all_pass(&[
        ("named and used", fields("struct s { u8 a; }; struct s x; struct s y[2];")),
        ("declared with its use", fields("struct s { u8 a; } x; struct s y;")),
        ("one semicolon for several", after("struct s { u8 a; }\nstruct t { struct s x; } enum e : u8 { A }; event { name = e; fields := struct { struct t x; enum e y; }; };")),
        ("nobody uses it", after("struct s { u8 a[n]; enum : u8 { A } t; variant <t> { struct { variant <far> { u8 A; } v; } A; } v; };")),
        ("inner name of the wrong kind, outer one meant", after("struct s { string n; u8 a[n]; }; event { name = e; fields := struct { u8 n; struct s x; }; };")),
        ("align", fields("struct { u8 a; } align(32) x; struct { } align(1) y;")),
        ("align less than its fields'", fields("struct { u8 a; } align(4) x;")),
        ("enum anonymous", fields("enum : u8 { A, B = 4, C } a;")),
        ("enum trailing comma", fields("enum : u8 { A, B, } a;")),
        ("enum with inline integer", fields("enum : integer { size = 3; } { A, B } a;")),
        ("enum ranges overlap", fields("enum : u8 { A = 0 ... 9, B = 5 ... 20, A = 30 } a;")),
        ("enum negative", fields("enum : i8 { A = -128 ... -1, B = 0, C = +127 } a;")),
        ("enum of texts and reserved words", fields("enum : u8 { \"a b\", struct, event, \"\" , _ } a;")),
        ("enum of characters", fields("enum : u8 { A = 'a', B = '\\n', C = '\\x41' } a;")),
        ("enum by its name", fields("enum e : u8 { A }; enum e a;")),
        ("enum of an alias of an enum's integer", fields("typealias u8 := v; enum : v { A } a;")),
        ("variant named, completed later", fields("variant v { u8 A; u32 B; }; enum : u8 { A, B } t; variant v <t> x; variant v <t> y;")),
        ("variant named and used", fields("enum : u8 { A, B } t; variant v <t> { u8 A; u32 B; } x; variant v <t> y;")),
        ("variant by alias", fields("enum : u8 { A } t; typealias variant <t> { u8 A; } := v; v x;")),
        (
            "variant by typedef without a tag at file scope",
            after("variant v { u8 A; }; event { name = e; fields := struct { enum : u8 { A } t; variant v <t> x; }; };"),
        ),
        ("tag of an alias", fields("typedef enum : u8 { A } tag; tag t; variant <t> { u8 A; } v;")),
        ("tags in each other", fields("enum : u8 { A } t; variant <t> { struct { enum : u8 { B } t; variant <t> { u8 B; } v; } A; } v;")),
        ("a label without an option", fields("enum : u8 { A, B } t; variant <t> { u8 B; } v;")),
        ("an option without a label", fields("enum : u8 { B } t; variant <t> { u8 A; u8 B; } v;")),
        ("empty", fields("struct { } s; u8 a;")),
        ("fields in one declaration", fields("u8 a, b[2], c;")),
        ("escaped names", fields("u8 _event; u8 _; u8 __; u8 x; u8 _x;")),
    ]);
}

#[test]
fn lengths_and_tags_are_found_in_every_scope() {
    let scoped = |path: &str| {
        format!(
            "{TYPES}trace {{ major = 1; minor = 8; byte_order = le; packet.header := struct {{ u32 magic; u8 h_len; struct {{ u8 deep; }} h; }}; }};
             stream {{ packet.context := struct {{ u8 p_len; }}; event.header := struct {{ u8 id; u8 _e_len; }}; event.context := struct {{ u8 c_len; enum : u8 {{ A }} tag; }}; }};
             event {{ name = e; context := struct {{ u8 own_len; }}; fields := struct {{ u8 f_len; struct {{ u8 in; u8 text[{path}]; }} s; }}; }};"
        )
    };
    let cases: Vec<(&str, String)> = [
        "trace.packet.header.h_len",
        "trace.packet.header.h.deep",
        "stream.packet.context.p_len",
        "stream.event.header._e_len",
        "stream.event.context.c_len",
        "event.context.own_len",
        "event.fields.f_len",
        "event.fields.s.in",
        "in",
        "s.in",
        "f_len",
        "own_len",
        "c_len",
        "_e_len",
        "p_len",
        "h_len",
        "h.deep",
        "stream.event.context.tag",
    ]
    .into_iter()
    .map(|path| (path, scoped(path)))
    .collect();
    all_pass(&cases);
    all_pass(&[
        ("sequence of sequences", fields("u8 n; u8 m; u8 a[n][m]; u8 b[2][n]; u8 c[n][2];")),
        ("sequence typedef", fields("u8 n; typedef u8 seq[n]; seq a; seq b;")),
        ("sequence typedef in a structure, by the length of its own scope", fields("u8 len; typedef struct { u32 a[len]; } field; struct { string len; field x; } s;")),
        ("sequence length of an enumeration", fields("enum : u8 { A } n; u8 a[n];")),
        ("text", fields("u8 n; integer { size = 8; encoding = UTF8; } a[n]; integer { size = 8; encoding = ascii; } b[4];")),
        ("array of nothing", fields("u8 a[0];")),
        ("length in the environment, also of one that comes later", format!("{}env {{ n = 3; }};", fields("u8 a[env.n]; u8 b[2][env.n]; typedef u8 t[env.n]; t c;"))),
        ("tag of the event's header", after("stream { event.header := struct { enum : u8 { A, B } id; variant <id> { u8 A; u32 B; } v; }; }; event { name = e; id = 0; };")),
    ]);
}

#[test]
fn blocks_have_their_attributes() {
    all_pass(&[
        ("everything", format!(
            "{TYPES}trace {{ major = 1; minor = 8; uuid = \"2a6422d0-6cee-11e0-8c08-cb07d7b3a564\"; byte_order = be; packet.header := struct {{ u32 magic; u8 uuid[16]; u32 stream_id; u32 stream_instance_id; }}; }};
             env {{ hostname = \"h\"; number = -3; domain = ust; text = \"a\\tb\\x41\\101\\\"\\n\"; }};
             clock {{ name = c; uuid = \"2a6422d0-6cee-11e0-8c08-cb07d7b3a564\"; description = \"d\"; freq = 0x3B9ACA00; precision = 07; offset_s = -5; offset = 18446744073709551615; absolute = FALSE; }};
             callsite {{ name = \"e\"; func = \"f\"; ip = 0x12; file = \"x.c\"; line = 3; }};
             stream {{ id = 3; packet.context := struct {{ u32 content_size; }}; event.header := struct {{ integer {{ size = 27; align = 1; map = clock.c.value; }} timestamp; integer {{ size = 5; align = 1; }} id; }}; }};
             event {{ id = 1; stream_id = 3; name = \"a:b\"; loglevel = 13; model.emf.uri = \"http://x\"; fields := struct {{ }}; }};"
        )),
        ("unquoted names", format!("{TRACE}clock {{ name = monotonic; }}; event {{ name = string; }}; event {{ name = event; id = 1; }};")),
        ("dotted names", after("event { name = a.b.c; };")),
        ("unknown attributes", format!("{TYPES}trace {{ major = 1; minor = 8; byte_order = le; foo = 3; x.y = \"z\"; }}; stream {{ bar = 1; }}; event {{ name = e; perf.type = 1; }}; clock {{ name = c; q = 3; }};")),
        ("freq of any size", after("clock { name = c; freq = 18446744073709551615; };")),
        ("clock after its use", after("stream { event.header := struct { integer { size = 64; map = clock.c.value; } timestamp; }; }; clock { name = c; };")),
        ("trace after its types", format!("{TYPES}event {{ name = e; }}; trace {{ major = 1; minor = 8; byte_order = le; }};")),
        ("several parts of env", after("env { a = 1; }; env { b = 2; };")),
        ("ids in all bases", after("event { name = a; id = 0x10; }; event { name = b; id = 010; }; event { name = c; id = 0b11; }; event { name = d; id = 7ULL; };")),
        ("the same id in two streams", after("stream { id = 0; }; stream { id = 1; }; event { name = a; id = 1; stream_id = 0; }; event { name = b; id = 1; stream_id = 1; };")),
        ("events without stream_id of the only stream", after("stream { id = 0; }; event { name = a; id = 1; stream_id = 0; }; event { name = b; id = 2; };")),
        ("attributes of integers", fields("integer { size = 8; align = 8; signed = false; byte_order = native; base = decimal; encoding = none; } a;
            integer { size = 1; signed = true; base = x; } b; integer { size = 64; signed = 1; base = 2; byte_order = network; } c; integer { size = 8; signed = FALSE; base = u; encoding = ASCII; } d; integer { size = 7; align = 1; } e;")),
        ("attributes of strings", fields("string a; string { } b; string { encoding = UTF8; } c; string { encoding = none; } d;")),
        ("comments", format!("/* CTF 1.8 */ // x\n{}/* a\n * b */// c\n/**/", &TRACE[14..])),
        ("line continuation", format!("{TRACE}env {{ a = \\\n 1; \\\r\n}};")),
        ("lines end in CR LF", TRACE.replace('\n', "\r\n")),
        ("no signature", TRACE[14..].to_owned()),
        ("blank lines before the signature", format!("\n\n{TRACE}")),
        ("stray semicolons", format!("{TRACE};; event {{ ; name = e; ; }};;")),
    ]);
}

#[test]
fn unknown_attributes_change_nothing() {
    let text = |unknown: &str| {
        format!(
            "trace {{ major = 1; minor = 8; byte_order = le; {unknown} }};
             clock {{ name = c; freq = 1000; {unknown} }};
             stream {{ id = 3; {unknown} packet.context := struct {{ integer {{ size = 8; {unknown} }} a; }}; }};
             event {{ id = 5; stream_id = 3; name = e; loglevel = 7; {unknown} fields := struct {{ string {{ {unknown} }} b; }}; }};"
        )
    };
    let plain = Metadata::from_text(&text("")).unwrap();
    assert_eq!((plain.streams[0].id, plain.streams[0].events[0].id), (3, 5));
    for unknown in ["x = 9;", "x = \"9\";", "x.y = z;"] {
        let metadata = Metadata::from_text(&text(unknown)).unwrap_or_else(|e| panic!("{unknown}: {e}"));
        assert_eq!(metadata.schema(), plain.schema(), "{unknown}");
    }
}

#[test]
fn texts_have_the_escapes_of_c_and_keep_unknown_escapes() {
    let text = r#"a\\b \"q\" \'\?\a\b\f\n\r\t\v|\101\60\1018|\x41\x4a|\x041\x0231\u00fc\U0001F600|C:\dir \u \xyz"#;
    let metadata = Metadata::from_text(&format!("{TRACE}env {{ string = \"{text}\"; }};")).unwrap();
    assert_eq!(metadata.trace.env_text("string"), Some("a\\b \"q\" '?\u{7}\u{8}\u{c}\n\r\t\u{b}|A0A8|AJ|A#1ü\u{1F600}|C:\\dir \\u \\xyz"));
}

#[test]
fn environment_integers_that_are_too_large_become_texts() {
    let one = format!("{TRACE}env {{ large = 18446744073709551615; small = -9223372036854775808; }};");
    let environment = "{\"large\": 18446744073709551615, \"small\": -9223372036854775808}";
    let two = format!(
        "{{\"type\": \"preamble\", \"version\": 2}} {{\"type\": \"trace-class\", \"environment\": {environment}}} {{\"type\": \"data-stream-class\"}}"
    );
    for text in [one, two] {
        let metadata = Metadata::from_text(&text).unwrap();
        assert_eq!(metadata.trace.env_text("large"), Some("18446744073709551615"));
        assert_eq!(metadata.trace.env("small"), Some(&EnvValue::Int(i64::MIN)));
    }
}

#[test]
fn syntax_errors_have_their_position() {
    all_fail(&[
        ("no semicolon after a block", format!("{TRACE}event {{ name = e; }} event {{ name = f; id = 1; }};"), "expected `;`", "event"),
        ("no semicolon after a field", fields("u8 a u8 b;"), "expected `;`", "u8"),
        ("no semicolon after an attribute", fields("integer { size = 8 } a;"), "expected `;`", "}"),
        ("unclosed block", format!("{TRACE}event {{ name = e;"), "end of the metadata", ""),
        ("unclosed bracket", fields("u8 a[3;"), "expected `]`", ";"),
        ("unclosed text", format!("{TRACE}env {{ a = \"b; }};"), "no end", "\"b; };"),
        ("text over two lines", format!("{TRACE}env {{ a = \"b\nc\"; }};"), "no end", "\""),
        ("unclosed comment", format!("{TRACE}/* env"), "no end", "/* env"),
        ("typedef of a word of C", after("typedef u8 int;"), "reserved word", "int"),
        ("half a number", fields("u8 a[0x];"), "no integer", "0x"),
        ("digits of another base", fields("u8 a[09];"), "no integer", "09"),
        ("number of more than 64 bits", fields("u8 a[18446744073709551616];"), "more than 64 bits", "18446744073709551616"),
        ("NUL", format!("{TRACE}\0"), "NUL", "\0"),
        ("NUL in a comment", format!("{TRACE}/* \0 */"), "NUL", "\0"),
        ("texts side by side", format!("{TRACE}env {{ a = \"b\" \"c\"; }};"), "expected `;`", "\"c\""),
        ("structure as a value", format!("{TRACE}event {{ name = e; id = struct {{}}; }};"), "expected `;`", "{"),
        ("unknown kind of type", format!("{TRACE}typealias entier {{ size = 8; }} := x;"), "expected", "{"),
        ("length left out", fields("u8 a[];"), "a length", "]"),
        ("length is a text", fields("u8 a[\"3\"];"), "a length", "\"3\""),
        ("length is negative", fields("u8 a[-3];"), "negative", "-3"),
        ("length is a reserved word", fields("u8 a[typedef];"), "reserved word", "typedef"),
        ("field of a reserved word", fields("u8 trace;"), "reserved word", "trace"),
        ("field of another", fields("u8 a; u8 callsite;"), "reserved word", "callsite"),
        ("type of a reserved word", after("typealias u8 := trace;"), "reserved word", "trace"),
        ("typedef of a reserved word", after("typedef u8 event;"), "reserved word", "event"),
        ("structure of a reserved word", after("struct stream { u8 a; };"), "reserved word", "stream"),
        ("tag of a reserved word", fields("enum : u8 { A } t; variant <variant> { u8 A; } v;"), "reserved word", "variant"),
        ("tag is a text", fields("enum : u8 { A } t; variant <\"t\"> { u8 A; } v;"), "the tag's name", "\"t\""),
        ("enumeration without labels", fields("enum : u8 { } a;"), "no label", "{ }"),
        ("enumeration with a fraction", fields("enum : u8 { A = 1.5 } a;"), "expected `,`", "."),
        ("enumeration of a name", fields("enum : u8 { A = B } a;"), "a value", "B"),
        ("alignment is a text", fields("struct { u8 a; } align(\"8\") s;"), "alignment", "\"8\""),
        ("alignment is a name", after("enum : u32 { X = 8 }; struct s { u8 a; } align(X);"), "alignment", "X"),
        ("signature of another version", format!("/* CTF 1.9 */{}", &TRACE[13..]), "version 1.8", "/* CTF 1.9 */"),
        ("signature of half a version", format!("/* CTF 1 */{}", &TRACE[13..]), "version 1.8", "/* CTF 1 */"),
    ]);
}

#[test]
fn invalid_metadata_is_rejected_with_its_reason() {
    all_fail(&[
        ("integer without a size", fields("integer { align = 8; } a;"), "needs a `size`", "integer { align = 8; }"),
        ("enumeration of no bits", fields("enum : integer { size = 0; } { A } a;"), "1 to 64", "enum : integer { size = 0; } { A }"),
        ("enumeration of too many bits", fields("enum : integer { size = 65; } { A } a;"), "1 to 64", "enum : integer { size = 65; } { A }"),
        ("clock of too many bits", after("clock { name = c; }; event { name = e; fields := struct { integer { size = 65; map = clock.c.value; } a; }; };"), "1 to 64", "65"),
        ("length of too many bits", fields("integer { size = 65; } n; u8 a[n];"), "unsigned integer", "n"),
        ("integer of negative size", fields("integer { size = -8; } a;"), "out of range", "-8"),
        ("size is a text", fields("integer { size = \"8\"; } a;"), "expected an integer", "\"8\""),
        ("alignment is negative", fields("integer { size = 8; align = -8; } a;"), "power of two", "-8"),
        ("alignment is no power of two", fields("integer { size = 8; align = 3; } a;"), "power of two", "3"),
        ("alignment is nothing", fields("struct { u8 a; } align(0) s;"), "power of two", "0"),
        ("alignment is huge", fields("struct { u8 a; } align(0x100000000) s;"), "power of two", "0x100000000"),
        ("alignment is a text", fields("integer { size = 8; align = \"8\"; } a;"), "expected an integer", "\"8\""),
        ("sign is a text", fields("integer { size = 8; signed = \"true\"; } a;"), "`true` or `false`", "\"true\""),
        ("sign is something", fields("integer { size = 8; signed = maybe; } a;"), "`true` or `false`", "maybe"),
        ("sign is a path", fields("integer { size = 8; signed = true.x; } a;"), "`true` or `false`", "true.x"),
        ("sign is two", fields("integer { size = 8; signed = 2; } a;"), "`true` or `false`", "2"),
        ("base is a text", fields("integer { size = 8; base = \"dec\"; } a;"), "a base is", "\"dec\""),
        ("base is a path", fields("integer { size = 8; base = dec.x; } a;"), "a base is", "dec.x"),
        ("base is another", fields("integer { size = 8; base = 7; } a;"), "a base is", "7"),
        ("byte order is a path", fields("integer { size = 8; byte_order = le.x; } a;"), "byte order", "le.x"),
        ("byte order is another", fields("integer { size = 8; byte_order = pdp; } a;"), "byte order", "pdp"),
        ("encoding is a text", fields("integer { size = 8; encoding = \"UTF8\"; } a;"), "encoding", "\"UTF8\""),
        ("encoding is a path", fields("integer { size = 8; encoding = UTF8.x; } a;"), "encoding", "UTF8.x"),
        ("encoding is another", fields("integer { size = 8; encoding = true; } a;"), "encoding", "true"),
        ("encoding of a string is another", fields("string { encoding = latin1; } a;"), "encoding", "latin1"),
        ("attribute twice", fields("integer { size = 8; size = 8; } a;"), "second `size`", "size = 8;"),
        ("clock's attribute twice", after("clock { name = c; freq = 1; freq = 2; };"), "second `freq`", "freq = 2;"),
        ("event's attribute twice", after("event { name = e; name = f; };"), "second `name`", "name = f;"),
        ("event's fields twice", after("event { name = e; fields := struct { u8 a; }; fields := struct { u8 a; }; };"), "second `fields`", "fields := struct { u8 a; };"),
        ("stream's header twice", after("stream { event.header := struct { u8 id; }; event.header := struct { u8 id; }; };"), "second `event.header`", "event.header := struct { u8 id; };"),
        ("two trace blocks", format!("{TRACE}trace {{ major = 1; minor = 8; byte_order = be; }};"), "second trace block", "trace { major = 1; minor = 8; byte_order = be; };"),
        ("two clocks of a name", after("clock { name = c; }; clock { name = c; };"), "second clock", "clock { name = c; };"),
        ("two structures of a name", after("struct s { u8 a; }; struct s { u8 b; };"), "second structure", "struct s { u8 b; }"),
        ("two enumerations of a name", after("enum s : u8 { A }; enum s : u8 { B };"), "second enumeration", "enum s : u8 { B }"),
        ("two variants of a name", after("variant s { u8 A; }; variant s { u8 B; };"), "second variant", "variant s { u8 B; };"),
        ("two types of a name", after("typedef u8 t; typealias u32 := t;"), "second type", "typealias u32 := t;"),
        ("two fields of a name", fields("u8 a; u8 a;"), "second field", "a"),
        ("two options of a name", fields("enum : u8 { A } t; variant <t> { u8 A; u8 A; } v;"), "second field", "A"),
        ("unknown type", fields("nothing a;"), "unknown type `nothing`", "nothing"),
        ("unknown type in a type nobody uses", after("struct s { int x; };"), "unknown type `int`", "int"),
        ("structure in itself", after("struct s { struct s x; };"), "unknown structure `s`", "struct s"),
        ("payload is no structure", after("event { name = e; fields := u8; };"), "expected a structure", "u8"),
        ("enumeration without int", fields("enum { A } a;"), "needs a type `int`", "enum { A }"),
        ("enumeration of strings", fields("typealias string := text; enum : text { A } a;"), "an enumeration is an integer", "enum : text { A }"),
        ("label out of range", fields("enum : u8 { A = 256 } a;"), "out of range", "A = 256"),
        ("label below range", fields("enum : u8 { A = -1 } a;"), "out of range", "A = -1"),
        ("next label out of range", fields("enum : u8 { A = 255, B } a;"), "out of range", "B"),
        ("range ends before it begins", fields("enum : u8 { A = 5 ... 4 } a;"), "ends before it begins", "A = 5 ... 4"),
        ("variant without a tag", fields("enum : u8 { A } t; variant { u8 A; } v;"), "needs a tag", "variant { u8 A; }"),
        ("variant without options", fields("enum : u8 { A } t; variant <t> { } v;"), "no option", "variant <t> { }"),
        ("variant none of whose options has a label", fields("enum : u8 { \" A \" } t; variant <t> { u8 A; } v;"), "no label", "<t>"),
        ("variant of a structure that nobody uses", after("struct s { enum : u8 { \" A \" } t; variant <t> { u8 A; } v; };"), "no label", "<t>"),
        ("tag in a structure that nobody uses", after("struct s { floating_point { exp_dig = 8; mant_dig = 24; } t; variant <t> { u8 A; } v; };"), "tag is an enumeration", "<t>"),
        ("length in a structure that nobody uses", after("struct s { string n; struct { u8 a[n]; } x; };"), "unsigned", "n"),
        ("tag is an integer", fields("u8 t; variant <t> { u8 A; } v;"), "tag is an enumeration", "<t>"),
        ("tag is a float", fields("floating_point { exp_dig = 8; mant_dig = 24; } t; variant <t> { u8 A; } v;"), "tag is an enumeration", "<t>"),
        ("tag comes later", fields("variant <t> { u8 A; } v; enum : u8 { A } t;"), "decoded before", "<t>"),
        ("tag in an option", fields("enum : u8 { A } t; variant <t> { enum : u8 { B } A; } v; variant <v.A> { u8 B; } w;"), "decoded before", "<v.A>"),
        ("tag is absolute in a later scope", after("stream { event.context := struct { variant <event.fields.t> { u8 A; } v; }; }; event { name = e; fields := struct { enum : u8 { A } t; }; };"), "decoded before", "<event.fields.t>"),
        ("length is a type", fields("u8 a[u32];"), "decoded before", "u32"),
        ("length is signed", fields("i8 n; u8 a[n];"), "unsigned", "n"),
        ("length is a string", fields("string n; u8 a[n];"), "unsigned", "n"),
        ("length without any field in reach", after("typedef u8 t[x];"), "which does not exist in its scope", "x"),
        ("length of an environment that is not there", fields("u8 a[env.n];"), "the environment has no `n`", "env.n"),
        ("length of no entry", format!("{}env {{ n = 3; }};", fields("u8 a[env.n.m];")), "expected `env.NAME`", "env.n.m"),
        ("negative length in the environment", format!("{}env {{ n = -3; }};", fields("u8 a[env.n];")), "negative", "env.n"),
        ("text as length in the environment", format!("{}env {{ n = \"3\"; }};", fields("u8 a[env.n];")), "is a text", "env.n"),
        ("uuid too short", format!("{TYPES}trace {{ major = 1; minor = 8; byte_order = le; uuid = \"2a6422d0-6cee-11e0-8c08-cb07d7b3a56\"; }};"), "a uuid", "\"2a6422d0-6cee-11e0-8c08-cb07d7b3a56\""),
        ("uuid too long", format!("{TYPES}trace {{ major = 1; minor = 8; byte_order = le; uuid = \"2a6422d0-6cee-11e0-8c08-cb07d7b3a5640\"; }};"), "a uuid", "\"2a6422d0-6cee-11e0-8c08-cb07d7b3a5640\""),
        ("uuid without its dashes", format!("{TYPES}trace {{ major = 1; minor = 8; byte_order = le; uuid = \"2a6422d06cee-11e0-8c08-cb07d7b3a564-\"; }};"), "a uuid", "\"2a6422d06cee-11e0-8c08-cb07d7b3a564-\""),
        ("no byte order", "trace { major = 1; minor = 8; };".to_owned(), "no `byte_order`", "trace { major = 1; minor = 8; };"),
        ("byte order native", "trace { major = 1; minor = 8; byte_order = native; };".to_owned(), "`le` or `be`", "native"),
        ("no major", "trace { minor = 8; byte_order = le; };".to_owned(), "no `major`", "trace { minor = 8; byte_order = le; };"),
        ("no minor", "trace { major = 1; byte_order = le; };".to_owned(), "no `minor`", "trace { major = 1; byte_order = le; };"),
        ("another version", "trace { major = 2; minor = 8; byte_order = le; };".to_owned(), "version 1.8", "2"),
        ("nothing", "/* CTF 1.8 */\n".to_owned(), "no trace block", ""),
        ("clock without a name", after("clock { freq = 1; };"), "needs a name", "clock { freq = 1; };"),
        ("clock of no frequency", after("clock { name = c; freq = 0; };"), "cannot be 0", "0"),
        ("clock that nobody declared", fields("integer { size = 8; map = clock.c.value; } a;"), "unknown clock `c`", "clock.c.value"),
        ("event without a name", after("event { id = 1; };"), "needs a name", "event { id = 1; };"),
        ("event's id is a text", after("event { name = e; id = \"x\"; };"), "expected an integer", "\"x\""),
        ("event's id is negative", after("event { name = e; id = -1; };"), "out of range", "-1"),
        ("event's id twice", after("event { name = e; id = 1; }; event { name = f; id = 1; };"), "second event with the id 1", "event { name = f; id = 1; };"),
        ("event of an unknown stream", after("stream { id = 1; }; event { name = e; stream_id = 2; };"), "not declared", "event { name = e; stream_id = 2; };"),
        ("event of one of several streams", after("stream { id = 0; }; stream { id = 1; }; event { name = e; };"), "needs a `stream_id`", "event { name = e; };"),
        ("stream's id twice", after("stream { id = 1; }; stream { id = 1; };"), "second stream", "stream { id = 1; };"),
        ("float of unknown size", fields("floating_point { exp_dig = 9; mant_dig = 24; } a;"), "floating point", "floating_point { exp_dig = 9; mant_dig = 24; }"),
    ]);
}

#[test]
fn the_wrong_part_of_a_line_is_underlined_even_in_a_long_line() {
    let drawn = |text: &str| Metadata::from_text(text).unwrap_err().to_string();
    assert_eq!(
        drawn(&format!("{TRACE}event {{\n\tname = \"grün\";\tid = -7;\n}};")),
        "metadata:4:22: -7 is out of range for an event's id\n   name = \"grün\"; id = -7;\n                       ^~"
    );
    // An error over several lines is underlined up to the end of the first one.
    assert_eq!(drawn("trace {\r\n major = 1; };"), "metadata:1:1: the trace block has no `byte_order`\n  trace {\n  ^~~~~~~");
    let padded = fields(&format!("{}nothing here; {}", " ".repeat(300), " ".repeat(200)));
    let error = Metadata::from_text(&padded).unwrap_err();
    assert!(error.text.chars().count() <= 160);
    assert_eq!(error.text.chars().skip(error.marked.start).take(error.marked.len()).collect::<String>(), "nothing");
    // At the end of the text there is nothing to underline.
    assert!(drawn(&format!("{TRACE}event {{")).ends_with("\n  event {\n         ^"));
}

/// A packet of metadata; `change` may modify it.
fn packet(text: &str, big: bool, change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut bytes = word(0x75d1_1d57).to_vec();
    bytes.extend_from_slice(&[7; 16]);
    bytes.extend_from_slice(&word(0));
    let bits = (37 + text.len() as u32) * 8;
    bytes.extend_from_slice(&word(bits));
    bytes.extend_from_slice(&word(bits + 64));
    bytes.extend_from_slice(&[0, 0, 0, 1, 8]);
    bytes.extend_from_slice(text.as_bytes());
    bytes.extend_from_slice(&[0; 8]);
    change(&mut bytes);
    bytes
}

#[test]
fn packets_of_metadata_are_joined_in_both_byte_orders() {
    for (big, order) in [(false, "le"), (true, "be")] {
        let text = after("event { name = first; }; event { name = second; id = 1; };")
            .replace("byte_order = le", &format!("byte_order = {order}"));
        // Split within a word, because packets may end anywhere in the text.
        let (one, two) = text.split_at(text.find("rst").unwrap());
        let whole = |_: &mut Vec<u8>| {};
        let bytes = [packet(one, big, whole), packet(two, big, whole)].concat();
        let metadata = Metadata::parse(&bytes).unwrap();
        assert_eq!(metadata.streams[0].events.len(), 2);
        assert_eq!(metadata.streams[0].events[0].name, "first");

        let other = text.replace(&format!("byte_order = {order}"), if big { "byte_order = le" } else { "byte_order = be" });
        let first = packet(one, big, whole);
        let cases: [(&str, Vec<u8>); 9] = [
            ("endian, the trace is", packet(&other, big, whole)),
            ("uuid", [first.clone(), packet(two, big, |b| b[5] = 8)].concat()),
            ("compressed or encrypted", packet(&text, big, |b| b[32] = 1)),
            ("compressed or encrypted", packet(&text, big, |b| b[33] = 1)),
            ("checksum", packet(&text, big, |b| b[34] = 1)),
            ("magic", [first.clone(), packet(two, big, |b| b[0] ^= 1)].concat()),
            ("impossible sizes", packet(&text, big, |b| b[24..28].fill(0))),
            ("content is cut off", first[..first.len() - 20].to_vec()),
            ("header is cut off", first[..30].to_vec()),
        ];
        for (reason, bytes) in cases {
            let error = Metadata::parse(&bytes).unwrap_err();
            assert!(error.message.contains(reason), "{reason}: {error}");
        }
    }
}

#[test]
fn packets_of_ctf_2_have_the_header_of_ctf_1_8_or_a_longer_one() {
    let text = "\u{1e}{\"type\": \"preamble\", \"version\": 2}\u{1e}{\"type\": \"data-stream-class\", \"id\": 7}\n";
    for big in [false, true] {
        let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
        let short = |text: &str| packet(text, big, |b| b[35..37].copy_from_slice(&[2, 0]));
        // Version, three reserved bytes and the size of the header.
        let long = |text: &str| {
            packet(text, big, |b| {
                b[35..37].copy_from_slice(&[2, 0]);
                b.splice(37..37, [[0; 3].as_slice(), &word(352)].concat());
                let bits = (44 + text.len() as u32) * 8;
                b[24..28].copy_from_slice(&word(bits));
                b[28..32].copy_from_slice(&word(bits + 64));
            })
        };
        let (one, two) = text.split_at(25);
        for (what, bytes) in [
            ("short", [short(one), short(two)].concat()),
            ("long", [long(one), long(""), long(two)].concat()),
            ("both", [long(one), short(two)].concat()),
            ("without separators", long(&text.replace('\u{1e}', "\n"))),
        ] {
            match Metadata::parse(&bytes) {
                Ok(metadata) => assert_eq!(metadata.streams[0].id, 7, "{what}"),
                Err(error) => panic!("{what}: {error}"),
            }
        }
        let changed = |at: usize, with: &[u8]| {
            let mut bytes = long(text);
            bytes[at..at + with.len()].copy_from_slice(with);
            bytes
        };
        for (reason, bytes) in [
            ("version 3.0", changed(35, &[3])),
            ("version 2.1", changed(36, &[1])),
            ("version 1.0", changed(35, &[1])),
            ("impossible sizes", changed(28, &word(344))),
            ("impossible sizes", changed(28, &word((52 + text.len() as u32) * 8 + 1))),
            ("impossible sizes", changed(24, &word(43 * 8))),
            ("end", long(&text[..text.len() - 4])),
        ] {
            let error = Metadata::parse(&bytes).unwrap_err();
            assert!(error.message.contains(reason), "{reason}: {error}");
        }
    }
}

#[test]
fn types_may_be_nested_as_deep_as_in_test_suites_but_not_deeper_than_the_stack_allows() {
    // The stack size of a program's main thread: unoptimised code needs more than the 2 MiB of
    // other threads.
    std::thread::Builder::new().stack_size(8 << 20).spawn(nesting).unwrap().join().unwrap();
}

fn nesting() {
    let nested =
        |open: &str, close: &str, levels: usize| fields(&format!("{}u8 a; string b;{}", open.repeat(levels), close.repeat(levels)));
    let structures = |levels| nested("struct { ", " } s;", levels);
    let metadata = std::sync::Arc::new(Metadata::from_text(&structures(256)).unwrap());
    let mut stream = StreamDecoder::new(metadata, BytesSource(*b"\x07x\0"));
    while !matches!(stream.advance().unwrap(), Some(Step::Event)) {}
    let event = stream.event();
    assert_eq!(event.fields().len(), 2);
    assert_eq!(event.fields()[0].name.matches('.').count(), 256);
    assert_eq!(event.value(1).unwrap().text().unwrap(), "x");

    for (what, text) in [
        ("structures", structures(400)),
        ("many structures", structures(100_000)),
        ("variants", fields(&format!("enum : u8 {{ a }} t; {}u8 a;{}", "variant <t> { ".repeat(100_000), " } a;".repeat(100_000)))),
        ("arrays", fields(&format!("u8 a{};", "[1]".repeat(100_000)))),
        ("blocks", format!("{TRACE}{}", "event { name = e; fields := struct { integer { ".repeat(100_000))),
        ("pointers", fields(&format!("typealias u8 := char {}; char a;", "* ".repeat(100_000)))),
    ] {
        match Metadata::from_text(&text) {
            Err(error) => assert!(
                error.message.contains("nesting")
                    || error.message.contains("dimensions")
                    || error.message.contains("expected")
                    || error.message.contains("unknown type"),
                "{what}: {error}"
            ),
            Ok(_) => panic!("{what}: is read"),
        }
    }
}
