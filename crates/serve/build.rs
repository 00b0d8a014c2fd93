//! Embeds the built page (`web/dist`), compressed, into the program. Without it, the program is
//! built without the page, and `longpole view` reports that.

use flate2::write::GzEncoder;
use flate2::Compression;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../web/dist");
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    if folder.join("index.html").is_file() {
        collect(&folder, &mut files)?;
    }
    files.sort();
    let out = PathBuf::from(env::var("OUT_DIR").unwrap_or_default());
    let mut list = String::from("&[\n");
    for (at, file) in files.iter().enumerate() {
        let name = file.strip_prefix(&folder).unwrap_or(file).to_string_lossy().replace('\\', "/");
        println!("cargo:rerun-if-changed={}", file.display());
        let packed = out.join(format!("{at}.gz"));
        let mut encoder = GzEncoder::new(fs::File::create(&packed)?, Compression::best());
        encoder.write_all(&fs::read(file)?)?;
        encoder.finish()?;
        let _ = writeln!(list, "    ({name:?}, include_bytes!({packed:?})),");
    }
    list.push(']');
    fs::write(out.join("page.rs"), list)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => collect(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}
