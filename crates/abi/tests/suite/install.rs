//! Programs find the installed headers through pkg-config and CMake.

use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn run(command: &mut Command) -> String {
    let run = command.output().unwrap();
    assert!(run.status.success(), "{command:?}: {}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

fn is_installed(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        println!("skipped: installed headers by {tool} (not installed)");
    }
    found
}

/// A directory with the headers installed below `prefix`, removed at the end.
struct Installed(PathBuf);

impl Installed {
    fn new(name: &str) -> Installed {
        let folder = std::env::temp_dir().join(format!("longpole-install-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let prefix = format!("prefix={}", folder.join("prefix").display());
        run(Command::new("make").args(["-s", "install-headers", &prefix]).current_dir(repository()));
        std::fs::write(folder.join("main.c"), "#include <longpole/longpole.h>\nint main(void) { LONGPOLE_MARK(\"m\"); return 0; }\n")
            .unwrap();
        Installed(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn pkg_config_returns_the_path_of_the_headers() {
    if !is_installed("pkg-config") {
        return;
    }
    let place = Installed::new("pkg");
    let ask = |what: &str| {
        run(Command::new("pkg-config").args([what, "longpole"]).env("PKG_CONFIG_PATH", place.path("prefix/share/pkgconfig")))
            .trim()
            .to_owned()
    };
    assert_eq!(ask("--modversion"), env!("CARGO_PKG_VERSION"));
    let flags = ask("--cflags");
    run(Command::new("cc").args(flags.split_whitespace()).args([place.path("main.c"), "-o".to_owned(), place.path("main")]));
    assert_eq!(ask("--libs"), "", "nothing to link");
}

#[test]
fn cmake_finds_the_headers_and_the_recorded_functions() {
    if !is_installed("cmake") {
        return;
    }
    let place = Installed::new("cmake");
    let project = format!(
        "cmake_minimum_required(VERSION 3.13)\nproject(user C)\nfind_package(longpole {} EXACT REQUIRED)\nadd_executable(plain main.c)\n\
         target_link_libraries(plain PRIVATE longpole::longpole)\nadd_executable(recorded main.c)\n\
         target_link_libraries(recorded PRIVATE longpole::auto)\n",
        env!("CARGO_PKG_VERSION")
    );
    std::fs::write(place.path("CMakeLists.txt"), project).unwrap();
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", place.path("prefix"));
    run(Command::new("cmake").args(["-S", &place.path("."), "-B", &place.path("build"), &prefix]));
    run(Command::new("cmake").args(["--build", &place.path("build")]));
    let calls = |program: &str| {
        run(Command::new("objdump").args(["-d", "--disassemble=main", &place.path(program)])).contains("__cyg_profile_func_enter")
    };
    assert!(calls("build/recorded") && !calls("build/plain"));
    // The code behind the hooks is compiled once per program, not in each of its files.
    let object = run(Command::new("nm").arg(place.path("build/CMakeFiles/recorded.dir/main.c.o")));
    assert!(!object.contains("longpole_auto"), "{object}");
    let program = run(Command::new("nm").arg(place.path("build/recorded")));
    assert!(program.contains("longpole_auto_enter") || program.contains(" __cyg_profile_func_enter"), "{program}");
}
