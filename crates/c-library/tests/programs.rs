//! The compilation of programs in C and C++, with the library that cargo built for this test program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use tailbound_linux::process::die_with_parent;

/// The folder of the headers.
pub fn headers() -> PathBuf {
    root().join("libraries/c")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder with `libtailbound_c.so` and `libtailbound_c.a`: that of this program.
pub fn libraries() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.parent().unwrap().to_path_buf()
}

/// A prefix with the library and its headers, as users install them.
fn installation() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let name = format!("installation-{}", std::process::id());
        let prefix = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let mut install = Command::new(root().join("tools/c-library"));
        let output = install.arg(libraries()).arg(&prefix).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let metadata = fs::read_to_string(prefix.join("lib/pkgconfig/tailbound.pc")).unwrap();
        assert!(
            metadata.contains(&format!("prefix={}\n", prefix.display())),
            "{metadata}"
        );
        assert!(
            metadata.contains(concat!("Version: ", env!("CARGO_PKG_VERSION"), "\n")),
            "{metadata}"
        );
        prefix
    })
}

/// A way to compile.
#[derive(Clone, Copy)]
pub enum Language {
    C,
    Cpp17,
    Cpp20,
}

/// The library that a program is linked with.
#[derive(Clone, Copy)]
pub enum Linkage {
    /// The shared library, under the sanitizers of addresses, leaks and undefined behaviour.
    Shared,
    /// The static library.
    Static,
}

/// The libraries of the system that the static library needs, as `rustc --print native-static-libs` says.
const SYSTEM_LIBRARIES: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

/// Compiles a program of `tests/c`; `None`, and a line, without a compiler.
pub fn compile(source: &str, language: Language, linkage: Linkage) -> Option<PathBuf> {
    let (compiler, standard) = match language {
        Language::C => ("cc", "-std=c11"),
        Language::Cpp17 => ("c++", "-std=c++17"),
        Language::Cpp20 => ("c++", "-std=c++20"),
    };
    if Command::new(compiler).arg("--version").output().is_err() {
        eprintln!("SKIP programs with the library for C: needs {compiler}");
        return None;
    }
    let manner = match linkage {
        Linkage::Shared => "shared",
        Linkage::Static => "static",
    };
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let name = format!(
        "{source}-{manner}-{}-{}",
        &standard[5..],
        std::process::id()
    );
    let program = folder.join(name);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let mut command = Command::new(compiler);
    command
        .args([
            standard,
            "-D_DEFAULT_SOURCE",
            "-g",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
        ])
        .arg("-I")
        .arg(installation().join("include"))
        .arg(sources.join(source))
        .arg("-o")
        .arg(&program);
    match linkage {
        Linkage::Shared => command
            .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"])
            .arg("-L")
            .arg(installation().join("lib"))
            .args(["-ltailbound", "-pthread"]),
        Linkage::Static => command
            .arg(installation().join("lib/libtailbound.a"))
            .args(SYSTEM_LIBRARIES),
    };
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    Some(program)
}

/// The command that runs a program with the library of this test program.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env("LD_LIBRARY_PATH", installation().join("lib"))
        .stdin(Stdio::null());
    die_with_parent(&mut command);
    command
}

/// Runs a program to its end; its standard output.
pub fn run(program: &Path) -> String {
    let output = command(program).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}: {}{errors}",
        program.display(),
        output.status
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Starts a program with arguments.
pub fn start(program: &Path, arguments: &[String]) -> Child {
    command(program).args(arguments).spawn().unwrap()
}
