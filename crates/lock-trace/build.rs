//! Compiles the library that programs are started with, by the C compiler that Rust links with.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    let sources = Path::new("../../libraries/c/trigger");
    let files = ["lock_tracer.c", "recording.c"].map(|file| sources.join(file));
    for file in files.iter().chain([&sources.join("recording.h")]) {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    println!("cargo::rerun-if-env-changed=CC");
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let folder = env::var_os("OUT_DIR").unwrap_or_default();
    let status = Command::new(&compiler)
        .args([
            "-std=gnu11",
            "-O2",
            "-g0",
            "-Wall",
            "-Wextra",
            "-fPIC",
            "-shared",
            "-fvisibility=hidden",
        ])
        .args(files)
        .args(["-ldl", "-pthread", "-o"])
        .arg(Path::new(&folder).join("locks.so"))
        .status();
    assert!(
        status.as_ref().is_ok_and(std::process::ExitStatus::success),
        "the tracer of locks does not compile with {}: {status:?}; install a C compiler, or name one in CC",
        compiler.display()
    );
}
